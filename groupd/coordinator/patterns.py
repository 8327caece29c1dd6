"""Regular expressions that clients send. They are RE2, so that none takes long to match.

The library is loaded with the first expression: where google-re2 does not exist for a Python
version, everything else in groupd works.
"""

from __future__ import annotations

from typing import Protocol


class BadPattern(ValueError):
    """`str()` says what is wrong with the expression, or that the library is missing."""


class Pattern(Protocol):
    def fullmatch(self, text: str) -> object | None:
        """Returns None unless the expression matches all of `text`."""
        ...


def compile_pattern(text: str) -> Pattern:
    """Raises BadPattern if the expression is wrong or the library is missing."""
    try:
        import re2
    except ImportError as error:
        raise BadPattern(
            "this broker has no library for regular expressions: pip install google-re2"
        ) from error
    options = re2.Options()
    # The library would print errors to standard error.
    options.log_errors = False
    try:
        pattern: Pattern = re2.compile(text, options)
    except re2.error as error:
        why = error.args[0] if error.args else ""
        text = why.decode(errors="replace") if isinstance(why, bytes) else str(why)
        raise BadPattern(text) from error
    return pattern
