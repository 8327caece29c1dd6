"""For each array of each API a request in which that array has as many small items as fit.

kio writes the request with none and with one item; what is different is the count and the item,
which is then repeated. So the frame is made without writing its items one by one.
"""

from __future__ import annotations

import dataclasses
import re
import struct
import typing
from collections.abc import Iterator
from typing import Any

from groupd.protocol.wire.apis import API_BY_KEY
from tests.attack.frames import CLIENT, varint
from tests.support.kio_entities import build, message_class, to_bytes
from tests.support.raw import frame, string

Path = tuple[str, ...]
NO_LIMIT = 1 << 31
MARK = b"z"
"""Stands where a number is to be put."""
ANSWERED = {"acks": -1}
"""With acks=-1 a Produce is answered."""
CODES = {
    "resource_type": 2,
    "resource_type_filter": 2,
    "resource_pattern_type": 3,
    "pattern_type_filter": 3,
    "operation": 3,
    "permission_type": 3,
}
"""Codes in ACLs: with the code 0 a request is refused as a whole."""


def widest_frames(
    size: int, items: int = NO_LIMIT, *, distinct: bool = False
) -> list[tuple[str, bytes]]:
    """(API and array, frame of about `size` bytes), in the highest version that kio knows.
    `distinct`: no two items are the same, where they have something to tell them apart."""
    found = []
    for api in sorted(API_BY_KEY.values(), key=lambda api: api.key):
        name = api.name
        version = _highest(name, api.max_version)
        if version is None:
            continue
        request = message_class(name, version, "request")
        for path in _arrays(request):
            body = _widest(request, path, size, items, distinct)
            if body is not None:
                head = struct.pack(">hhi", api.key, version, 1) + string(CLIENT)
                head += b"\x00" if request.__flexible__ else b""
                found.append((f"{name} {'.'.join(path)}", frame(head + body)))
    return found


def _highest(name: str, version: int) -> int | None:
    for one in range(version, -1, -1):
        try:
            message_class(name, one, "request")
        except ImportError:
            continue
        return one
    return None


def _arrays(entity: Any, before: Path = ()) -> Iterator[Path]:
    hints = typing.get_type_hints(entity)
    for field in dataclasses.fields(entity):
        item = _item(hints[field.name])
        if item is None:
            continue
        path = (*before, field.name)
        yield path
        if dataclasses.is_dataclass(item):
            yield from _arrays(item, path)


def _item(hint: Any) -> Any:
    """The type of the items of an array; None for anything else."""
    for option in (hint, *typing.get_args(hint)):
        if typing.get_origin(option) is tuple:
            return typing.get_args(option)[0]
    return None


def _fields(entity: Any, path: Path, count: int, marked: bool) -> dict[str, Any]:
    """Plain data in which the array at the end of the path has `count` items, and each one on the
    way has one."""
    name, rest = path[0], path[1:]
    item = _item(typing.get_type_hints(entity)[name])
    if rest:
        return {name: [_fields(item, rest, count, marked)]}
    one = _item_fields(item) if marked else {}
    if dataclasses.is_dataclass(item):
        names = {field.name for field in dataclasses.fields(item)}
        if "permission_type" in names:
            one |= {field: code for field, code in CODES.items() if field in names}
    return {name: [one if dataclasses.is_dataclass(item) else _value(item, marked)] * count}


def _item_fields(item: Any) -> dict[str, Any]:
    """The first field of an item that can tell items apart, with the mark."""
    if not dataclasses.is_dataclass(item):
        return {}
    hints = typing.get_type_hints(item)
    for field in dataclasses.fields(item):
        if field.metadata.get("kafka_type") in ("string", "int32", "int64", "uuid"):
            options = [
                kind for kind in typing.get_args(hints[field.name]) if isinstance(kind, type)
            ]
            return {field.name: _value(options[0] if options else hints[field.name], True)}
    return {}


def _value(kind: Any, marked: bool) -> Any:
    if "UUID" in str(kind):
        return (MARK if marked else b"\0") * 16
    if not isinstance(kind, type):
        return 0
    if issubclass(kind, str):
        return MARK.decode() * 8 if marked else ""
    if issubclass(kind, bytes):
        return b""
    if issubclass(kind, bool):
        return False
    if not issubclass(kind, int):
        return None
    sizes = {"i8": 0, "i16": 0, "i32": 4, "i64": 8}
    size = next((sizes[base.__name__] for base in kind.__mro__ if base.__name__ in sizes), 0)
    return int.from_bytes(MARK * size) if marked else 0


def _widest(request: Any, path: Path, size: int, items: int, distinct: bool) -> bytes | None:
    try:
        none, one = (
            to_bytes(build(request, {**ANSWERED, **_fields(request, path, count, distinct)}))
            for count in (0, 1)
        )
    except (TypeError, ValueError, AttributeError):
        return None
    at = next(index for index, (a, b) in enumerate(zip(none, one, strict=False)) if a != b)
    # Only the last one of the four bytes of a count is different.
    start = at if request.__flexible__ else at - 3
    item = one[at + 1 : at + 1 + len(one) - len(none)]
    count = min(size // len(item), items)
    counted = varint(count + 1) if request.__flexible__ else struct.pack(">i", count)
    return none[:start] + counted + _repeated(item, count) + none[at + 1 :]


def _repeated(item: bytes, count: int) -> bytes:
    """The item `count` times, each with a number in the place of the mark, if there is one."""
    found = re.search(b"%s{4,}" % MARK, item)
    if found is None:
        return item * count
    before, after, size = item[: found.start()], item[found.end() :], len(found.group())
    if size == 8 and found.start() and item[found.start() - 1] in (8, 9):
        return b"".join(b"%s%08x%s" % (before, n, after) for n in range(count))
    return b"".join(before + n.to_bytes(size) + after for n in range(count))
