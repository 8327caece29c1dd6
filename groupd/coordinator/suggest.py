"""Parts of error messages: a name that was probably meant, the existing names, and why a value does
not fit its type.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from difflib import get_close_matches
from typing import Any

from msgspec import ValidationError
from msgspec.json import schema_components

NAMES_SHOWN = 10
_WORDS = {
    "int": "a whole number",
    "float": "a number",
    "str": "text",
    "bool": "true or false",
    "object": "an object",
    "array": "a list",
}


def did_you_mean(wanted: object, known: Iterable[str]) -> str:
    """A hint such as "; did you mean orders?"; empty if no known name is close."""
    by_lower = {name.lower(): name for name in known}
    close = get_close_matches(str(wanted).lower(), by_lower, n=1)
    return f"; did you mean {by_lower[close[0]]}?" if close else ""


def there_are(names: Iterable[str]) -> str:
    """The first `NAMES_SHOWN` names, such as "orders, payments and 3 more"; "none" without
    names."""
    found = sorted(names)
    left_out = len(found) - NAMES_SHOWN
    shown = ", ".join(found[:NAMES_SHOWN])
    return f"{shown} and {left_out} more" if left_out > 0 else shown or "none"


def misfit(error: ValidationError, kind: Any, whole: str) -> str:
    """One line that says where a value does not fit the type `kind` and why, such as "body.name
    must be text, not a whole number". `whole`: the name of the whole value, or ""."""
    what, _, path = str(error).partition(" - at ")
    place = (path.replace("`", "") or "$").replace("$", whole, 1).removeprefix(".")
    what = re.sub(r"`([^`]+)`", lambda found: _words(found[1]), what).replace(", got ", ", not ")
    for said, short in (
        ("Object missing required field", "needs"),
        ("Object contains unknown field", "has no"),
        ("Expected", "must be"),
    ):
        what = what.replace(said, short)
    known = list(_described(kind, re.findall(r"\w+", path)[-1])) if path else []
    choices = [str(choice) for one in known for choice in one.get("enum", ())]
    if what.startswith("Invalid") and choices:
        what = f"must be one of {', '.join(choices)}, not {what.partition('value ')[2]}"
    hints = "".join(f" ({one['description']})" for one in known if "description" in one)
    return f"{place} {what}{hints}".lstrip()


def _words(types: str) -> str:
    return " or ".join(_WORDS.get(one, one) for one in types.split(" | "))


def _described(kind: Any, name: str) -> Iterator[dict[str, Any]]:
    """The JSON Schemas of the fields called `name` in the type `kind` and the types that it is made
    of."""
    for one in schema_components((kind,))[1].values():
        field = one.get("properties", {}).get(name)
        if field is not None:
            yield field
            yield from field.get("anyOf", ())
