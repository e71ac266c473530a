"""The reference engine: token ids in, token ids out. Knows nothing of text, HTTP or files."""
