"""Starts servers on loopback for the demonstration and for tests, and stops them by their own process id."""
