"""What the server says of itself, computed from the objects that do the work whenever it is asked."""

from __future__ import annotations

import time
from typing import Any

from draftproof.engine.slot import Slot
from draftproof.server.chat import ChatTemplate
from draftproof.server.described import describe
from draftproof.server.jobs import Choice, Ticket
from draftproof.server.metrics import prometheus
from draftproof.server.openai import FINGERPRINT
from draftproof.server.schema import NativeCompletion
from draftproof.server.served import Served
from draftproof.server.settings import RANDOM_SEEDS, Settings, read_settings
from draftproof.server.speculating import requested, types_text
from draftproof.server.standing import standing
from draftproof.server.worker import Worker


class SelfReport:
    """Bodies of /props, /slots, /metrics and /v1/models."""

    def __init__(self, worker: Worker, template: ChatTemplate, *, page: bool, tells_slots: bool) -> None:
        self._worker = worker
        self._template = template
        self.page = page
        self.tells_slots = tells_slots
        self._created = int(time.time())

    @property
    def served(self) -> Served:
        return self._worker.served

    def standing(self) -> tuple[str, ...]:
        """The drafters that a request gets which says nothing of speculation."""
        return standing(self.served).types

    def _defaults(self) -> Settings:
        return read_settings(NativeCompletion.read({"prompt": "a"}), self.served)

    def _seed(self) -> int:
        seed = self.served.defaults.seed
        return RANDOM_SEEDS[1] if seed in RANDOM_SEEDS else seed

    def props(self) -> dict[str, Any]:
        served, types = self.served, self.standing()
        params = describe(self._defaults(), types, private=False) | {"seed": self._seed()}
        vocabulary = served.vocabulary
        return {
            "default_generation_settings": {"params": params, "n_ctx": served.context},
            "total_slots": len(self._worker.slots.slots),
            "model_alias": served.name,
            "model_ftype": served.about.ftype,
            "model_path": served.path,
            "modalities": {"vision": False, "video": False, "audio": False},
            "media_marker": "",
            "endpoint_slots": self.tells_slots,
            "endpoint_props": False,
            "endpoint_metrics": True,
            "ui": self.page,
            "ui_settings": {},
            "chat_template": self._template.source,
            "chat_template_caps": self._caps(),
            "bos_token": _special(served, vocabulary.bos),
            "eos_token": _special(served, vocabulary.eos),
            "build_info": FINGERPRINT,
            "is_sleeping": False,
            "cors_proxy_enabled": False,
            "speculation": types_text(types),
            "drafting": {
                "asked": requested(served.defaults.speculation),
                "draft_model": served.draft_path,
                "strict_at_temperature_0": served.strict_greedy,
                "max_rows_exact": served.models.target.max_rows_exact,
                "can_truncate": served.models.target.can_truncate,
                **served.about.notes(),
            },
        }

    def _caps(self) -> dict[str, bool]:
        calls = self._template.calls
        caps = dict.fromkeys(("preserve_reasoning", "reasoning_effort", "typed_content"), False)
        caps |= dict.fromkeys(("tools", "tool_calls"), calls is not None)
        caps["object_arguments"] = calls is not None and calls.objects
        caps["parallel_tool_calls"] = calls is not None and calls.between is not None
        caps["string_content"] = True
        caps["system_role"] = self._template.takes("system")
        return {f"supports_{name}": can for name, can in sorted(caps.items())}

    def slots(self) -> list[dict[str, Any]]:
        return [self._slot(slot) for slot in self._worker.slots.slots]

    def _slot(self, slot: Slot) -> dict[str, Any]:
        run = slot.run
        types = self.standing() if run is None else run.plan.effective
        told: dict[str, Any] = {
            "id": slot.number,
            "n_ctx": self.served.context,
            "speculative": bool(types),
            "is_processing": run is not None,
        }
        shown = self._worker.shown.get(slot.number)
        return told | _past(*shown) if shown else told

    def metrics(self) -> str:
        worker = self._worker
        return prometheus(
            worker.totals,
            steps=worker.slots.steps,
            processing=len(worker.slots.runs),
            deferred=max(worker.waiting, 0),
        )

    def models(self) -> dict[str, Any]:
        served, about = self.served, self.served.about
        blank = dict.fromkeys(("modified_at", "size", "digest", "description", "parameters"), "")
        details = {"parent_model": "", "format": "gguf", "family": "", "families": [""]}
        details |= {"parameter_size": "", "quantization_level": ""}
        old: dict[str, Any] = {"name": served.name, "model": served.name, "type": "model", "tags": [""], **blank}
        old |= {"capabilities": ["completion"], "details": details}
        meta = {
            "vocab_type": about.vocab_type,
            "n_vocab": served.vocabulary.size,
            "n_ctx": served.context,
            "n_ctx_train": about.n_ctx_train,
            "n_embd": about.n_embd,
            "n_params": about.n_params,
            "size": about.size,
            "ftype": about.ftype,
        }
        model = {
            "id": served.name,
            "aliases": [served.name],
            "tags": [],
            "object": "model",
            "architecture": {"input_modalities": ["text"], "output_modalities": ["text"]},
            "created": self._created,
            "owned_by": "draftproof",
            "meta": meta,
        }
        return {"models": [old], "object": "list", "data": [model]}


def _past(ticket: Ticket, choice: Choice) -> dict[str, Any]:
    """What runs in a slot, or ran last."""
    run = choice.finished
    made = run.generation.counters.emitted
    limit = choice.settings.max_tokens
    running = run.ended_s is None
    next_token = {
        "has_next_token": running,
        "has_new_line": any("\n" in piece for piece in choice.text.pieces),
        "n_remain": limit - made if limit >= 0 else -1,
        "n_decoded": made,
    }
    return {
        "id_task": ticket.number,
        "n_prompt_tokens": len(run.generation.context),
        "n_prompt_tokens_processed": run.read_tokens - run.reused if running else 0,
        "n_prompt_tokens_cache": run.reused,
        "params": describe(choice.settings, run.plan.effective, private=False),
        "next_token": [next_token],
    }


def _special(served: Served, token: int | None) -> str:
    return "" if token is None else served.vocabulary.piece(token, special=True).decode("utf-8", "replace")
