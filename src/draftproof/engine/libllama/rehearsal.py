"""Whether an EAGLE-3 draft works beside a target, tried in another process.

Where an architecture does not show its layers, or a draft borrows what its target does not have, libllama aborts. That must not
take the server with it. Run as a module it is the other process.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from draftproof.core.errors import UsageError
from draftproof.engine.libllama import Context, ContextOptions, Eagle, HeadRow, Model, ModelOptions, Row, load_library
from draftproof.engine.libllama.errors import ContextRejected

_NO_LAYERS = "layer input tensor is null"
_OPTIONS = ContextOptions(tokens=256, batch=32, outputs=4)


def rehearse(target: Model, draft: Model) -> None:
    """Takes as long as loading both and reading a few tokens. Raises ContextRejected with the reason."""
    command = [sys.executable, "-m", __name__, str(target.path), str(draft.path)]
    quiet = {**os.environ, "GGML_NO_BACKTRACE": "1"}
    ended = subprocess.run(command, capture_output=True, text=True, errors="replace", env=quiet, check=False)
    if not ended.returncode:
        return
    if _NO_LAYERS in ended.stderr:
        raise ContextRejected(
            f"{target.path} is of the architecture {target.metadata.get('general.architecture')}, whose layers this build of "
            "libllama does not show: no EAGLE-3 draft can read them.",
            "Take another drafter, or a target such as llama or qwen3.",
        )
    lines = [line for line in ended.stderr.splitlines() if line.strip()]
    why = next((line for line in lines if "GGML_ASSERT" in line), lines[-1] if lines else f"code {ended.returncode}")
    raise ContextRejected(f"{draft.path} does not work beside {target.path}: {why}.")


def _try(target_path: Path, draft_path: Path) -> None:
    library = load_library()
    with Model(library, target_path) as target, Model(library, draft_path, ModelOptions(eagle=True)) as draft:
        context = Context(target, _OPTIONS)
        eagle = Eagle(context, draft)
        eagle.tap.open(context)
        context.decode([Row(0, 0, 0, False), Row(0, 1, 1, True)])
        hidden = eagle.tap.rows(context, [2])[0]
        eagle.decode([HeadRow(0, 0, 1, hidden[0])])
        eagle.close()


if __name__ == "__main__":
    try:
        _try(Path(sys.argv[1]), Path(sys.argv[2]))
    except UsageError as error:
        sys.exit(str(error))
