"""Regular expressions that clients send: RE2, so that none of them takes long to match.

The library is loaded with the first expression: where there is no google-re2 for a Python, groupd
does all but this.
"""

from __future__ import annotations

from typing import Protocol


class BadPattern(ValueError):
    """`str()` says what is wrong with the expression, or that there is no library for it."""


class Pattern(Protocol):
    """A compiled regular expression."""

    def fullmatch(self, text: str) -> object | None:
        """Not None if the expression matches all of `text`."""
        ...


def compile_pattern(text: str) -> Pattern:
    """Raises BadPattern."""
    try:
        import re2
    except ImportError as error:
        raise BadPattern(
            "this broker has no library for regular expressions: pip install google-re2"
        ) from error
    options = re2.Options()
    # The library would print the fault on standard error.
    options.log_errors = False
    try:
        pattern: Pattern = re2.compile(text, options)
    except re2.error as error:
        why = error.args[0] if error.args else ""
        text = why.decode(errors="replace") if isinstance(why, bytes) else str(why)
        raise BadPattern(text) from error
    return pattern
