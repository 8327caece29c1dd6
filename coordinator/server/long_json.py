"""Encodes JSON that may be long, in slices."""

from __future__ import annotations

import json
from collections.abc import Generator, Iterator
from typing import Any

from groupd.coordinator.core.slices import SLICE_ITEMS, chunks


def json_steps(value: Any) -> Generator[None, None, bytes]:
    """Encodes one line of compact JSON. A long list or iterator, at the top or directly in an
    object, is encoded some items at a time, with a stop after each part. An iterator may give None
    to ask for a stop while it has no item yet."""
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
    separator = ""
    for some in chunks(value) if isinstance(value, list) else _chunks_and_stops(value):
        if some:
            parts.append(separator + json.dumps(some, ensure_ascii=False)[1:-1])
            separator = ", "
        yield
    parts.append("]")


def _chunks_and_stops(items: Iterator[Any]) -> Iterator[list[Any]]:
    """Like `chunks`, and at each stop the items so far, perhaps none."""
    chunk: list[Any] = []
    for item in items:
        if item is not None:
            chunk.append(item)
        if item is None or len(chunk) == SLICE_ITEMS:
            yield chunk
            chunk = []
    if chunk:
        yield chunk
