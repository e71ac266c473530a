"""draftproof: can the numbers that an LLM server gives be trusted when it takes short cuts?"""

__version__ = "0.1.0"
