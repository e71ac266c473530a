"""A proxy before servers that make up logprobs while they speculate: text passes, logprobs are re-scored one token at a time."""
