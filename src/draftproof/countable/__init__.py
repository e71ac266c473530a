"""Language models small enough to count: their exact laws, and the same models as GGUF files."""
