"""Readers of the audit's events."""
