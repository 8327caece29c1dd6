"""Every array of every request: a claim of more items than fit into the bytes that are left is
refused before anything is built. The least size of an item is what kio writes for an empty one."""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Iterator
from struct import pack
from typing import Any

import pytest

from groupd.protocol.wire.apis import API_BY_KEY
from groupd.protocol.wire.registry import Api, MalformedRequest
from tests.support.kio_entities import message_class, request_bytes

COUNT = 50

Path = tuple[str, ...]


def array_fields(entity: Any) -> dict[str, tuple[Any, Any]]:
    """The arrays of a message by name: the class of their items, or None and an empty item. Tagged
    fields are left out, because a reader skips those that it does not know."""
    found = {}
    hints = typing.get_type_hints(entity)
    for field in dataclasses.fields(entity):
        hint = hints[field.name]
        for option in (hint, *typing.get_args(hint)):
            if typing.get_origin(option) is tuple and "tag" not in field.metadata:
                item = typing.get_args(option)[0]
                empty = {"string": "", "uuid": bytes(16)}.get(field.metadata.get("kafka_type"), 0)
                found[field.name] = (item, {}) if dataclasses.is_dataclass(item) else (None, empty)
    return found


def array_paths(entity: Any, path: Path = ()) -> Iterator[Path]:
    for name, (item, _) in array_fields(entity).items():
        yield *path, name
        if item is not None:
            yield from array_paths(item, (*path, name))


def request_with(entity: Any, path: Path, count: int) -> dict[str, Any]:
    """A message in which the array has `count` empty items, those around it have one each, and all
    other arrays are empty."""
    codes = [one for one in dataclasses.fields(entity) if one.metadata.get("kafka_type") == "int8"]
    fields: dict[str, Any] = {code.name: 1 for code in codes}  # 0 is no code in ACLs
    for name, (item, empty) in array_fields(entity).items():
        fields[name] = []
        if path and name == path[0]:
            one = empty if item is None else request_with(item, path[1:], count)
            fields[name] = [one] * (1 if path[1:] else count)
    return fields


def cut_out(api: Api, version: int, path: Path) -> tuple[bytes, bytes, bytes]:
    """The bytes before the array's length, those of `COUNT` items, and those behind them."""
    entity = message_class(api.name, version, "request")

    def body(count: int) -> bytes:
        return request_bytes(api.name, version, request_with(entity, path, count))

    none, some, more = body(0), body(COUNT), body(COUNT + 1)
    least = len(more) - len(some)
    differ = next(i for i, (a, b) in enumerate(zip(none, some, strict=False)) if a != b)
    at, behind = (differ, differ + 1) if api.flexible(version) else (differ - 3, differ + 1)
    end = behind + COUNT * least
    return some[:at], some[behind:end], some[end:]


def cases() -> Iterator[Any]:
    for api in API_BY_KEY.values():
        for version in range(api.min_version, api.max_version + 1):
            try:
                entity = message_class(api.name, version, "request")
            except ModuleNotFoundError:
                continue  # newer than kio, or Produce before v3: read like their neighbours
            for path in array_paths(entity):
                name = ".".join(path)
                yield pytest.param(api, version, path, id=f"{api.name}-{version}-{name}")


@pytest.mark.parametrize(("api", "version", "path"), list(cases()))
def test_an_array_claims_no_more_items_than_can_follow(api: Api, version: int, path: Path) -> None:
    start, items, rest = cut_out(api, version, path)
    length = bytes((COUNT + 1,)) if api.flexible(version) else pack(">i", COUNT)
    # An array of int8 is read like bytes.
    claim = f"(array of {COUNT}|{COUNT} bytes announced).* {len(items) - 1} (bytes )?left"
    with pytest.raises(MalformedRequest, match=claim):
        api.decode(start + length + items[:-1], 0, version)
    # With all of its bytes the claim is possible; the rest is what follows the array.
    api.decode(start + length + items + rest, 0, version)
