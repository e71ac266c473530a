"""schemathesis, on the API's own description: no request that it invents makes the server fail or fall silent."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import httpx2
import pytest
from tests.clients.served import serve

pytestmark = pytest.mark.slow
EXAMPLES = 60
LONGEST_ANSWER_S = 20


@pytest.mark.skipif(importlib.util.find_spec("schemathesis") is None, reason="schemathesis is not installed")
def test_no_request_makes_the_server_fail_or_hang(tmp_path: Path) -> None:
    with serve("--table", "countable-8", "--no-spec-adaptive", "-np", 4, "--predict", 16) as url:
        command = [str(Path(sys.executable).with_name("st")), "run", f"{url}/openapi.json", "--seed", "1"]
        command += ["--checks", "not_a_server_error", "--max-examples", str(EXAMPLES), "--generation-database", "none"]
        command += ["--phases", "coverage,fuzzing", "--request-timeout", str(LONGEST_ANSWER_S)]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=240, check=False)
        assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-1000:]
        assert httpx2.get(f"{url}/health").json() == {"status": "ok"}
        assert not any(slot["is_processing"] for slot in httpx2.get(f"{url}/slots").json())
