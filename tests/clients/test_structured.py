"""Documents of a pydantic model, through the `openai` client, on a server that speculates."""

from __future__ import annotations

from datetime import date
from typing import Literal

import pytest
from pydantic import BaseModel, Field
from tests.clients.served import serve
from tests.engine.libllama.models import smollm2

openai = pytest.importorskip("openai")
pytestmark = pytest.mark.real


class Cat(BaseModel):
    kind: Literal["cat"]
    lives: int = Field(ge=1, le=9)


class Dog(BaseModel):
    kind: Literal["dog"]
    breed: str = Field(pattern="^[A-Z][a-z]{2,10}$")


class Owner(BaseModel):
    """Bounds, a date, a pattern, a union that a field decides, a tuple, what may be missing."""

    name: str = Field(max_length=20)
    born: date
    share: float = Field(ge=0, le=1)
    pet: Cat | Dog = Field(discriminator="kind")
    place: tuple[int, str]
    note: str | None = Field(default=None, max_length=30)


def test_a_pydantic_model_comes_back() -> None:
    model = smollm2()
    asked = {
        "model": "any",
        "messages": [{"role": "user", "content": "Describe a pet owner as JSON, short."}],
        "response_format": {
            "type": "json_schema",
            "json_schema": {"name": "owner", "schema": Owner.model_json_schema()},
        },
        "max_tokens": 200,
        "temperature": 0,
    }
    with (
        serve("-m", model, "-md", model, "--no-spec-adaptive", "-c", 1024) as url,
        openai.OpenAI(base_url=f"{url}/v1", api_key="any", max_retries=0, timeout=300) as client,
    ):
        answer = client.chat.completions.create(**asked)
        assert answer.speculation["accepted"] > 10
        assert answer.choices[0].finish_reason == "stop"
        Owner.model_validate_json(answer.choices[0].message.content)
        cat = client.chat.completions.parse(
            model="any", messages=[{"role": "user", "content": "A cat."}], response_format=Cat, max_tokens=60
        )
        assert isinstance(cat.choices[0].message.parsed, Cat)
