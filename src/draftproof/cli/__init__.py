"""The `draftproof` command."""
