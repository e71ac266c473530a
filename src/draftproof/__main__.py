"""`python -m draftproof`."""

from __future__ import annotations

from draftproof.cli.main import main

if __name__ == "__main__":
    main()
