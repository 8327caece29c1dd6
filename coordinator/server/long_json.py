"""JSON of what may be long, made in slices."""

from __future__ import annotations

import json
from collections.abc import Generator, Iterator
from typing import Any

from coordinator.core.slices import SLICE_ITEMS


def json_steps(value: Any) -> Generator[None, None, bytes]:
    """A line of compact JSON. A long list or iterator, or one directly in an object, is encoded
    some items at a time, with a stop after each part. Where an iterator gives None there is no item
    yet, but a stop."""
    parts: list[str] = []
    if isinstance(value, dict):
        for index, (key, of_key) in enumerate(value.items()):
            parts.append(f"{', ' if index else '{'}{json.dumps(key, ensure_ascii=False)}: ")
            yield from _parts(of_key, parts)
        parts.append("}" if value else "{}")
    else:
        yield from _parts(value, parts)
    parts.append("\n")
    return "".join(parts).encode()


def _parts(value: Any, parts: list[str]) -> Generator[None, None, None]:
    if not isinstance(value, list | Iterator) or (
        isinstance(value, list) and len(value) <= SLICE_ITEMS
    ):
        parts.append(json.dumps(value, ensure_ascii=False))
        return
    parts.append("[")
    separator, some = "", []
    for item in value:
        if item is not None or isinstance(value, list):
            some.append(item)
            if len(some) < SLICE_ITEMS:
                continue
        if some:
            parts.append(separator + json.dumps(some, ensure_ascii=False)[1:-1])
            separator, some = ", ", []
        yield
    if some:
        parts.append(separator + json.dumps(some, ensure_ascii=False)[1:-1])
        yield
    parts.append("]")
