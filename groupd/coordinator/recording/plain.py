"""Messages and bytes as JSON, in the form in which a recording holds them and a replay compares
them. A struct is an object with its class name under `@` and its fields. Bytes are `{"$": base64}`,
a raised error is `{"!": text}`, tuples are arrays, error codes are numbers. A secret is replaced by
zeros of the same length. Reading makes only messages of the protocol, because a recording may come
from a stranger.
"""

from __future__ import annotations

import base64
import json
import pkgutil
import zlib
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib import import_module
from typing import Any

from msgspec import Struct

import groupd.protocol.messages
from groupd.protocol.messages.offsets import CommitTopic, commit_topic
from groupd.protocol.messages.secret import Secret

CLASS = "@"
BYTES = "$"
ERROR = "!"


class ChecksummedBytes:
    """Bytes of which a recording keeps only the CRC-32."""

    __slots__ = ("data",)

    def __init__(self, data: bytes | bytearray) -> None:
        self.data = data


def to_json(value: Any) -> str:
    """The value as one line of JSON. Raises TypeError for a value that a recording cannot hold."""
    # Not msgspec, which has its own form for structs and bytes, and refuses lone surrogates.
    return json.dumps(value, default=_plain, separators=(",", ":"))


def to_tree(value: Any) -> Any:
    """The value as it is when it is read back from a recording: `to_json`, then parsed."""
    return json.loads(to_json(value))


def from_tree(tree: Any) -> Any:
    """The message or value that a tree stands for. Raises ValueError."""
    if isinstance(tree, list):
        return tuple(from_tree(one) for one in tree)
    if not isinstance(tree, dict):
        return tree
    if BYTES in tree:
        return to_bytes(tree)
    if CLASS not in tree:
        return {key: from_tree(one) for key, one in tree.items()}
    kind = _messages().get(tree[CLASS])
    if kind is None:
        raise ValueError(f"no message {tree[CLASS]!r}")
    try:
        return kind(**{key: from_tree(one) for key, one in tree.items() if key != CLASS})
    except TypeError as error:
        raise ValueError(f"message {tree[CLASS]}: {error}") from None


def to_bytes(tree: Any) -> bytes:
    """The bytes of `{"$": base64}`. Raises ValueError."""
    if not isinstance(tree, dict) or not isinstance(tree.get(BYTES), str):
        raise ValueError("no bytes")
    return base64.b64decode(tree[BYTES], validate=True)


def _plain(value: Any) -> Any:
    kind: type = type(value)
    if issubclass(kind, Struct):
        return {
            CLASS: kind.__name__,
            **{name: getattr(value, name) for name in kind.__struct_fields__},
        }
    if isinstance(value, Secret):
        return {BYTES: base64.b64encode(bytes(len(value))).decode()}
    if isinstance(value, bytes | bytearray | memoryview):
        return {BYTES: base64.b64encode(value).decode()}
    if isinstance(value, ChecksummedBytes):
        return zlib.crc32(value.data)
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, Sequence) and not isinstance(value, str):
        return list(value)
    if isinstance(value, BaseException):
        return {ERROR: str(value)}
    raise TypeError(f"{type(value).__name__} has no place in a recording")


@cache
def _messages() -> Mapping[str, Callable[..., Any]]:
    """What makes a message, by the name of its class."""
    found: dict[str, Callable[..., Any]] = {}
    for module in pkgutil.iter_modules(groupd.protocol.messages.__path__):
        names = vars(import_module(f"groupd.protocol.messages.{module.name}"))
        found.update(
            (name, kind)
            for name, kind in names.items()
            if isinstance(kind, type) and issubclass(kind, Struct) and kind is not Struct
        )
    return found | {CommitTopic.__name__: commit_topic}
