"""The embedded consumer protocol and other opaque bytes of the classic APIs.

`<foo,bar>` is a subscription (version 0), `<foo|foo:0-2>` one that owns partitions (version 1),
`{foo:0-2}` an assignment; anything else is its own text.
"""

from __future__ import annotations

from struct import error as StructError
from struct import pack, unpack_from

from tests.scenarios.runner.backend import Names
from tests.scenarios.runner.command import Partitions, partitions_of, show_partitions


def make_bytes(names: Names, text: str) -> bytes:
    if text.startswith("<"):
        topics, _, owned = text[1:-1].partition("|")
        return _subscription(names, [one for one in topics.split(",") if one], owned)
    if text.startswith("{"):
        return pack(">h", 0) + _partitions(names, partitions_of(text)) + pack(">i", -1)
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


def show_bytes(data: bytes, names: Names | None = None) -> str:
    """An assignment as `{...}`, other text in quotes, a subscription by its size only."""
    if data[:1] == b"\x00":
        assignment = _read_assignment(data, names or Names())
        return assignment if assignment is not None else f"<{len(data)} bytes>"
    return f'"{data.decode(errors="replace")}"'


def _read_assignment(data: bytes, names: Names) -> str | None:
    """None if it is not an assignment of the consumer protocol."""
    found: Partitions = {}
    at = 6
    try:
        for _ in range(unpack_from(">i", data, 2)[0]):
            (length,) = unpack_from(">h", data, at)
            topic = data[at + 2 : at + 2 + length].decode()
            at += 2 + length
            (count,) = unpack_from(">i", data, at)
            numbers = unpack_from(f">{count}i", data, at + 4)
            at += 4 + 4 * count
            found[names.back(topic)] = list(numbers)
        rest = data[at:]
    except (StructError, UnicodeDecodeError):
        return None
    return show_partitions(found) if len(rest) == 4 else None
