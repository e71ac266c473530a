"""Runs checks on a server: plan, self-test, events, verdict."""
