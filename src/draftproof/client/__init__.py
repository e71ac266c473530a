"""How to ask a server: HTTP, streams, dialects, and the one-token oracle."""
