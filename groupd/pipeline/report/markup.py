"""Makes HTML from Python values. Every string is escaped, without exception.

Anybody may choose group names, client ids and metadata, and a page that shows them must never run
them.
"""

from __future__ import annotations

import json
from html import escape
from typing import Any

from msgspec import Struct

_VOID = frozenset({"meta", "input", "br"})
_RAW = frozenset({"script", "style"})
_NOT_IN_SCRIPTS = {
    "<": "\\u003c",
    ">": "\\u003e",
    "&": "\\u0026",
    "\u2028": "\\u2028",
    "\u2029": "\\u2029",
}


class Element(Struct, frozen=True):
    """Finished HTML."""

    html: str


def tag(name: str, /, *children: Any, **attributes: Any) -> Element:
    """`<name attributes>children</name>`. In the name of an attribute a trailing underscore is
    dropped and other underscores become hyphens. None and False omit the attribute, True gives it
    no value."""
    head = f"<{name}{_attributes(attributes)}>"
    if name in _VOID:
        return Element(head)
    return Element(f"{head}{_children(children)}</{name}>")


def own_text(name: str, text: str, **attributes: Any) -> Element:
    """An element with a script or style of our own. Raises ValueError if the text could end it
    early."""
    if name not in _RAW or f"</{name}" in text.lower():
        raise ValueError(f"no text for a {name}")
    return Element(f"<{name}{_attributes(attributes)}>{text}</{name}>")


def data(value: Any, **attributes: Any) -> Element:
    """JSON that no browser runs and that cannot end its element."""
    # Not msgspec, which writes null for a number that JSON does not have.
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    for character, escaped in _NOT_IN_SCRIPTS.items():
        text = text.replace(character, escaped)
    return own_text("script", text, type="application/json", **attributes)


def _attributes(attributes: dict[str, Any]) -> str:
    parts = []
    for name, value in attributes.items():
        if value is None or value is False:
            continue
        label = name.rstrip("_").replace("_", "-")
        parts.append(f" {label}" if value is True else f' {label}="{escape(str(value))}"')
    return "".join(parts)


def _children(children: Any) -> str:
    if children is None:
        return ""
    if isinstance(children, Element):
        return children.html
    if isinstance(children, str):
        return escape(children)
    if isinstance(children, int | float):
        return str(children)
    return "".join(_children(child) for child in children)
