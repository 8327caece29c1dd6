"""Names in error messages: what was probably meant, and what there is."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

NAMES_SHOWN = 10


def did_you_mean(wanted: object, known: Iterable[str]) -> str:
    """ "; did you mean orders?", or nothing when no known name is close."""
    by_lower = {name.lower(): name for name in known}
    close = get_close_matches(str(wanted).lower(), by_lower, n=1)
    return f"; did you mean {by_lower[close[0]]}?" if close else ""


def there_are(names: Iterable[str]) -> str:
    """ "orders, payments", "none"; at most `NAMES_SHOWN` of them."""
    found = sorted(names)
    left_out = len(found) - NAMES_SHOWN
    shown = ", ".join(found[:NAMES_SHOWN])
    return f"{shown} and {left_out} more" if left_out > 0 else shown or "none"
