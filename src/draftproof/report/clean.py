"""Text from a server made safe for a terminal: it may show anything, and control nothing."""

from __future__ import annotations

import unicodedata

LONGEST = 600

_NAMED = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}
# Controls and escapes; directions, joiners and other marks that cannot be seen; halves of pairs; private; line breaks.
_UNSAFE = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}


def clean(text: str, longest: int = LONGEST) -> str:
    """`text` on one line, with every character that is invisible or moves the cursor written as an escape.

    More than `longest` characters are cut, with the number of those left out.
    """
    left_out = len(text) - longest
    shown = "".join(map(_shown, text[:longest]))
    return f"{shown} ... ({left_out} characters more)" if left_out > 0 else shown


def _shown(character: str) -> str:
    if character.isprintable() or unicodedata.category(character) not in _UNSAFE:
        return character
    if character in _NAMED:
        return _NAMED[character]
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
