"""Pure functions on counts and laws. Every result carries n, method and error probability."""
