"""Regular expressions that clients send: RE2, so that none of them takes long to match."""

from __future__ import annotations

from typing import Protocol

import re2

_OPTIONS = re2.Options()
_OPTIONS.log_errors = False


class BadPattern(ValueError):
    """`str()` says what is wrong with the expression."""


class Pattern(Protocol):
    """A compiled regular expression."""

    def fullmatch(self, text: str) -> object | None:
        """Not None if the expression matches all of `text`."""
        ...


def compile_pattern(text: str) -> Pattern:
    """Raises BadPattern."""
    try:
        pattern: Pattern = re2.compile(text, _OPTIONS)
    except re2.error as error:
        why = error.args[0] if error.args else ""
        text = why.decode(errors="replace") if isinstance(why, bytes) else str(why)
        raise BadPattern(text) from error
    return pattern
