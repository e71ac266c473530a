"""Calls of tools in a chat: how the model writes them, what holds it to that, and what of an answer is one."""
