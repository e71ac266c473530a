"""Plain data that every other package shares. Knows nothing of files, HTTP or models."""
