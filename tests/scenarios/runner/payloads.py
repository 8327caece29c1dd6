"""The embedded consumer protocol and other opaque bytes of the classic APIs.

`<foo,bar>` is a subscription (version 0), `<foo|foo:0-2>` one that owns partitions (version 1),
`{foo:0-2}` an assignment, `{foo:0-2}!abc` one with user data; anything else is its own text.
"""

from __future__ import annotations

from collections.abc import Callable
from struct import error as StructError
from struct import pack, unpack_from

from tests.scenarios.runner.backend import Names
from tests.scenarios.runner.command import Partitions, partitions_of, show_partitions


def make_bytes(names: Names, text: str) -> bytes:
    if text.startswith("<"):
        topics, _, owned = text[1:-1].partition("|")
        return _subscription(names, [one for one in topics.split(",") if one], owned)
    if text.startswith("{"):
        partitions, _, data = text.partition("!")
        user_data = pack(">i", len(data)) + data.encode() if data else pack(">i", -1)
        return pack(">h", 0) + _partitions(names, partitions_of(partitions)) + user_data
    return text.encode()


def _subscription(names: Names, topics: list[str], owned: str) -> bytes:
    version = 1 if owned else 0
    data = pack(">hi", version, len(topics))
    data += b"".join(_string(names.out(topic)) for topic in topics) + pack(">i", -1)
    return data + (_partitions(names, partitions_of(owned)) if owned else b"")


def _partitions(names: Names, partitions: Partitions) -> bytes:
    data = pack(">i", len(partitions))
    for topic, numbers in partitions.items():
        data += _string(names.out(topic)) + pack(f">i{len(numbers)}i", len(numbers), *numbers)
    return data


def _string(text: str) -> bytes:
    return pack(">h", len(text)) + text.encode()


def show_assignment(data: bytes, names: Names) -> str:
    """The reverse of `make_bytes`."""
    return _show(data, names, _read_assignment)


def show_subscription(data: bytes, names: Names) -> str:
    """The reverse of `make_bytes`."""
    return _show(data, names, _read_subscription)


def _show(data: bytes, names: Names, read: Callable[[bytes, Names], str | None]) -> str:
    if data[:1] == b"\x00":
        try:
            shown = read(data, names)
        except (StructError, UnicodeDecodeError):
            shown = None
        if shown is not None:
            return shown
    return f'"{data.decode(errors="replace")}"'


def _read_assignment(data: bytes, names: Names) -> str | None:
    partitions, at = _read_partitions(data, 2, names)
    (size,) = unpack_from(">i", data, at)
    user_data = data[at + 4 :].decode()
    if len(user_data) != max(size, 0):
        return None
    return show_partitions(partitions) + (f"!{user_data}" if user_data else "")


def _read_subscription(data: bytes, names: Names) -> str | None:
    version, count = unpack_from(">hi", data)
    topics, at = [], 6
    for _ in range(count):
        topic, at = _read_string(data, at)
        topics.append(names.back(topic))
    at += 4  # the length of absent user data
    owned = ""
    if version >= 1:
        partitions, at = _read_partitions(data, at, names)
        owned = "|" + show_partitions(partitions)[1:-1]
    return f"<{','.join(topics)}{owned}>" if at == len(data) else None


def _read_partitions(data: bytes, at: int, names: Names) -> tuple[Partitions, int]:
    found: Partitions = {}
    (count,) = unpack_from(">i", data, at)
    at += 4
    for _ in range(count):
        topic, at = _read_string(data, at)
        (size,) = unpack_from(">i", data, at)
        found[names.back(topic)] = list(unpack_from(f">{max(size, 0)}i", data, at + 4))
        at += 4 + 4 * size
    return found, at


def _read_string(data: bytes, at: int) -> tuple[str, int]:
    (length,) = unpack_from(">h", data, at)
    return data[at + 2 : at + 2 + length].decode(), at + 2 + length
