"""Models that the engine can run, each behind the protocol of `engine.backend`."""
