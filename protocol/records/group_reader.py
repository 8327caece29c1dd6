"""Decodes the consumer group records of one log: types 3 to 8 and 16, three for every member.

The records of a member name it three times, and members of a group mostly describe themselves
alike: names and descriptions that repeat are decoded once and stand in memory once. Assignments of
one topic, which nearly all are, have decoders of their own; everything else takes the way of
`codec`, which also says what is wrong.
"""

from __future__ import annotations

from struct import Struct
from typing import Any, NamedTuple

from groupd.protocol.records.codec import (
    GROUP_KEYS,
    PAIR_KEYS,
    decode_key,
    decode_value,
)
from groupd.protocol.records.schema import (
    AssignedTopic,
    ConsumerGroupCurrentMemberKey,
    ConsumerGroupCurrentMemberValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupRegexKey,
    ConsumerGroupTargetMemberKey,
    ConsumerGroupTargetMemberValue,
    GroupMetadataKey,
    OwnedTopic,
    RecordValue,
)

NAMES_MAX = 50_000
DESCRIPTIONS_MAX = 1000
"""So many are remembered; then it starts anew."""

_INT32S = [Struct(f">{count}i") for count in range(127)]
"""Arrays whose length is one byte."""

_TARGET = Struct(">hB16sB")
_CURRENT = Struct(">hiibB16sB")
_EPOCHS_MAX = 31
"""Their tag's size is one byte up to here."""

_KINDS: dict[bytes, tuple[type[Any], bool]] = {
    number.to_bytes(2, "big"): (kind, number in PAIR_KEYS)
    for number, kind in (GROUP_KEYS | PAIR_KEYS).items()
    if kind is not GroupMetadataKey
}
"""By the first bytes of a key; whether it has a second name."""

_ONE_TOPIC = 2  # length + 1
_STRING_MAX = 0x7FFF
_NO_TAGS = b"\x00\x00"  # of the topic, of the value
_NOTHING_PENDING = b"\x01\x00"


class GroupRecord(NamedTuple):
    """`kind`: class of the key; `name`: the member id or regular expression in it, or ""."""

    kind: type[Any]
    group: str
    name: str
    value: RecordValue | None


class GroupReader:
    """Of one log."""

    __slots__ = ("_descriptions", "_groups", "_pairs", "_topic_id")

    def __init__(self) -> None:
        self._groups: dict[bytes, str] = {}
        self._pairs: dict[bytes, tuple[str, str]] = {}
        self._descriptions: dict[bytes, RecordValue | None] = {}
        self._topic_id = b""

    def read(self, key: bytes, value: bytes | None) -> GroupRecord | None:
        """None: a record of another type, for `decode_record`. Raises CorruptRecord."""
        found = _KINDS.get(key[:2])
        if found is None:
            return None
        kind, is_pair = found
        if is_pair:
            group, name = self._pairs.get(key[2:]) or self._pair(key)
        else:
            group, name = self._groups.get(key[2:]) or self._group(key), ""
        decoded = None if value is None else self._value(kind, key, value)
        # A tuple made as such is made without a call of Python.
        return tuple.__new__(GroupRecord, (kind, group, name, decoded))

    def _group(self, key: bytes) -> str:
        decoded: Any = decode_key(key)
        if len(self._groups) >= NAMES_MAX:
            self._groups.clear()
        group: str = decoded.group
        self._groups[key[2:]] = group
        return group

    def _pair(self, key: bytes) -> tuple[str, str]:
        group, name = _split(key) or _decoded(key)
        # The same object as in the keys of the group itself.
        in_key = key[2 : 4 + int.from_bytes(key[2:4], "big")]
        group = self._groups.setdefault(in_key, group)
        kept = self._pairs
        if len(kept) >= NAMES_MAX:
            kept.clear()
        pair = kept[key[2:]] = (group, name)
        return pair

    def _value(self, kind: type[Any], key: bytes, data: bytes) -> RecordValue | None:
        found: RecordValue | None = None
        if kind is ConsumerGroupMemberMetadataKey:
            return self._description(key, data)
        if kind is ConsumerGroupTargetMemberKey:
            found = self._target(data)
        elif kind is ConsumerGroupCurrentMemberKey:
            found = self._current(data)
        return decode_value(decode_key(key), data) if found is None else found

    def _description(self, key: bytes, data: bytes) -> RecordValue | None:
        kept = self._descriptions
        found = kept.get(data)
        if found is None:
            if len(kept) >= DESCRIPTIONS_MAX:
                kept.clear()
            found = kept[data] = decode_value(decode_key(key), data)
        return found

    def _target(self, data: bytes) -> ConsumerGroupTargetMemberValue | None:
        if len(data) < _TARGET.size:
            return None
        version, topics, topic_id, count = _TARGET.unpack_from(data)
        count -= 1
        end = _TARGET.size + 4 * count
        if version or topics != _ONE_TOPIC or not 0 <= count < 127 or data[end:] != _NO_TAGS:
            return None
        partitions = _INT32S[count].unpack_from(data, _TARGET.size)
        return ConsumerGroupTargetMemberValue((AssignedTopic(self._shared(topic_id), partitions),))

    def _current(self, data: bytes) -> ConsumerGroupCurrentMemberValue | None:
        if len(data) < _CURRENT.size:
            return None
        version, epoch, previous, state, topics, topic_id, count = _CURRENT.unpack_from(data)
        count -= 1
        if version or topics != _ONE_TOPIC or not 0 <= count <= _EPOCHS_MAX:
            return None
        tags = _CURRENT.size + 4 * count
        epochs = tags + 4
        # One tag, number 0: its size, the length of the array.
        if data[tags:epochs] != bytes((1, 0, 4 * count + 1, count + 1)):
            return None
        if data[epochs + 4 * count :] != _NOTHING_PENDING:
            return None
        numbers = _INT32S[count]
        owned = OwnedTopic(
            self._shared(topic_id),
            numbers.unpack_from(data, _CURRENT.size),
            numbers.unpack_from(data, epochs),
        )
        return ConsumerGroupCurrentMemberValue(epoch, previous, state, (owned,))

    def _shared(self, topic_id: bytes) -> bytes:
        if topic_id != self._topic_id:
            self._topic_id = topic_id
        return self._topic_id


def _split(key: bytes) -> tuple[str, str] | None:
    """The two strings of a key; None: `_decoded` may say what is wrong with it."""
    if len(key) < 6:
        return None
    group_bytes = int.from_bytes(key[2:4], "big")
    end = 4 + group_bytes
    name_bytes = int.from_bytes(key[end : end + 2], "big")
    name_at = end + 2
    if max(group_bytes, name_bytes) > _STRING_MAX or name_at + name_bytes != len(key):
        return None
    try:
        return key[4:end].decode(), key[name_at:].decode()
    except UnicodeDecodeError:
        return None


def _decoded(key: bytes) -> tuple[str, str]:
    """Raises CorruptRecord."""
    decoded: Any = decode_key(key)
    name = decoded.regex if type(decoded) is ConsumerGroupRegexKey else decoded.member_id
    return decoded.group, name
