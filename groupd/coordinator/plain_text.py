"""Values written for people instead of as Python code: for log lines and the command line."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from enum import Enum
from typing import Any

from msgspec import Struct

from groupd.protocol.messages.secret import Secret

TEXT_MAX = 4000
"""The length in characters at which a longer value is cut off."""

_NEEDS_QUOTES = frozenset(' ="')


def fields_text(facts: Mapping[str, object]) -> str:
    """`name=value` pairs, without the facts that are None."""
    return " ".join(
        f"{name}={quoted(_bounded(plain_text(value)))}"
        for name, value in facts.items()
        if value is not None
    )


def quoted(text: str) -> str:
    """The text as it is or, if a reader could not tell where it ends, in double quotes on one
    line."""
    if text and text.isprintable() and _NEEDS_QUOTES.isdisjoint(text):
        return text
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + "".join(map(_printable, escaped)) + '"'


def plain_text(value: object) -> str:
    """Numbers and texts as they are; addresses as host:port; lists with commas; bytes in hex;
    mappings and our own classes as `name:value` pairs."""
    match value:
        case None:
            return "-"
        case bool():
            return "yes" if value else "no"
        case Enum():
            return value.name if isinstance(value, int) else plain_text(value.value)
        case str() | Secret():
            return str(value)
        case bytes() | bytearray() | memoryview():
            return bytes(value).hex()
        case (str(host), int(port)) if isinstance(value, tuple):
            return f"{host}:{port}"
        case Mapping():
            return _pairs(value)
        case BaseException():
            return str(value) or type(value).__name__
        case type():
            return value.__name__
        case Collection():
            return ",".join(_inner(item) for item in value)
    if isinstance(value, Struct):
        pairs = {name: getattr(value, name) for name in value.__struct_fields__}
        return f"{type(value).__name__} {_pairs(pairs)}".rstrip()
    return str(value)


def span_text(span_ms: int) -> str:
    """A length of time in its two largest units: `850 ms`, `12 s`, `3 min 5 s`, `2 d 4 h`."""
    if span_ms < 1000:
        return f"{span_ms} ms"
    seconds = span_ms // 1000
    units = (("d", 86_400), ("h", 3600), ("min", 60), ("s", 1))
    parts = []
    for name, length in units:
        count, seconds = divmod(seconds, length)
        parts.append((count, name))
    first = next(index for index, (count, _) in enumerate(parts) if count)
    shown = [f"{count} {name}" for count, name in parts[first : first + 2] if count]
    return " ".join(shown)


def _bounded(text: str) -> str:
    return text if len(text) <= TEXT_MAX else f"{text[:TEXT_MAX]}..."


def _pairs(pairs: Mapping[Any, object]) -> str:
    return " ".join(f"{plain_text(name)}:{_inner(item)}" for name, item in pairs.items())


def _inner(value: object) -> str:
    """A value inside another one: in brackets if it has parts."""
    if isinstance(value, Collection) and not isinstance(value, str | bytes):
        return f"[{plain_text(value)}]"
    if isinstance(value, Struct):
        return f"[{plain_text(value)}]"
    return plain_text(value)


def _printable(character: str) -> str:
    if character.isprintable():
        return character
    return {"\n": "\\n", "\t": "\\t", "\r": "\\r"}.get(character, f"\\u{ord(character):04x}")
