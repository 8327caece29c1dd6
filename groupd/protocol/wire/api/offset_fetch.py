"""OffsetFetch (9), v1-10.

v2 adds the top-level error and null topics for "all", v3 throttle time, v5 the leader epoch, v6 is
flexible, v7 adds require_stable (KIP-447), v8 asks for many groups (KIP-709), v9 adds member id and
epoch (KIP-848), v10 names topics by id instead of name.

The place of a group's error differs: v1 has it on each requested partition, v2-7 at the top, v8 and
later on the group. From v2 on a group with an error has no topics. Only the request says what was
asked for, so a failed group carries both (`failed_fetch`), and the encoder drops the one that its
version does not use.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from itertools import islice, repeat
from struct import Struct

from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages.offsets import (
    FetchedGroup,
    FetchedOffset,
    FetchedRows,
    FetchedTopic,
    FetchTopic,
    OffsetFetchGroup,
    OffsetFetchReply,
    OffsetFetchRequest,
    failed_fetch,
)
from groupd.protocol.primitives import INT16, INT32
from groupd.protocol.schema import absent, converted, lone, struct
from groupd.protocol.wire.registry import OF_MEMBERS, api, on_each
from groupd.protocol.writer import STEP, Writer

# Partition, offset and, from v5 on, leader epoch.
_OFFSET = Struct(">iq").pack
_OFFSET_WITH_EPOCH = Struct(">iqi").pack
# The same with empty metadata and without an error.
_BARE = Struct(">iq4x").pack
_BARE_WITH_EPOCH = Struct(">iqi4x").pack
_BARE_FLEXIBLE = Struct(">iqi4s").pack
_FLEXIBLE_END = b"\x01\x00\x00\x00"
"""Length of the metadata + 1, error, number of tagged fields."""


def _write(writer: Writer, reply: OffsetFetchReply) -> Generator[None, None, None]:
    """It does not stop after the last topic: most replies fit into one step and are sent at
    once."""
    version, buffer, written = writer.version, writer.buffer, 0
    if version >= 3:
        buffer += INT32.pack(writer.throttle_ms)
    if version >= 8:
        writer.array_length(len(reply.groups))
    for group in reply.groups:
        if written > STEP:
            yield
            written = 0
        if version >= 8:
            writer.string(group.group_id)
        topics = group.topics if group.error == ErrorCode.NONE or version == 1 else ()
        writer.array_length(len(topics))
        for topic in topics:
            if written > STEP:
                yield
                written = 0
            if version >= 10:
                buffer += topic.topic_id
            else:
                writer.string(topic.name)
            rows = topic.partitions
            count = len(rows)
            writer.array_length(count)
            if count <= STEP:
                _write_offsets(writer, rows)
            else:
                yield from _write_many(writer, rows)
            written += count + 1
            writer.end()
        if version >= 2:
            buffer += INT16.pack(group.error)
        if version >= 8:
            writer.end()
        written += 1


def _write_many(writer: Writer, offsets: Sequence[FetchedOffset]) -> Generator[None, None, None]:
    rest = iter(offsets)
    while some := tuple(islice(rest, STEP)):
        _write_offsets(writer, some)
        yield


def _write_offsets(writer: Writer, offsets: Sequence[FetchedOffset]) -> None:
    buffer, version = writer.buffer, writer.version
    if isinstance(offsets, FetchedRows) and not any(offsets.metadata):
        numbers, found, epochs = offsets.numbers, offsets.offsets, offsets.leader_epochs
        if writer.flexible:
            rows = map(_BARE_FLEXIBLE, numbers, found, epochs, repeat(_FLEXIBLE_END))
        elif version >= 5:
            rows = map(_BARE_WITH_EPOCH, numbers, found, epochs)
        else:
            rows = map(_BARE, numbers, found)
        buffer += b"".join(rows)
        return
    for p in offsets:
        if version >= 5:
            buffer += _OFFSET_WITH_EPOCH(p.partition, p.offset, p.leader_epoch)
        else:
            buffer += _OFFSET(p.partition, p.offset)
        writer.string(p.metadata)
        buffer += INT16.pack(p.error)
        writer.end()


def _with_stable(
    read: tuple[tuple[OffsetFetchGroup, ...], bool],
) -> tuple[OffsetFetchGroup, ...]:
    """Returns the groups. On the wire one flag says for all of them whether they must be stable."""
    groups, require_stable = read
    if not require_stable:
        return groups
    return tuple(
        [OffsetFetchGroup(g.group_id, g.topics, g.member_id, g.member_epoch, True) for g in groups]
    )


_TOPIC = struct(FetchTopic, "name:string@0-9 topic_id:uuid@10+ partitions:[]int32")
_FETCHED = struct(
    FetchedTopic,
    "name:string@0-9 topic_id:uuid@10+ partitions:[]offset",
    offset=struct(
        FetchedOffset,
        "partition:int32 offset:int64 leader_epoch:int32@5+ metadata:metadata error:error",
        metadata=converted("string?", read=lambda metadata: metadata or ""),
    ),
)

OFFSET_FETCH = api(
    9,
    "1-10",
    "6+",
    struct(
        OffsetFetchRequest,
        "groups:only@0-7 groups:groups@8+",
        only=lone(
            struct(
                OffsetFetchGroup,
                "group_id:string topics:[]topic@0-1 topics:[]topic?@2+ require_stable:bool@7",
                topic=_TOPIC,
            )
        ),
        groups=converted(
            struct(
                tuple,
                "0:[]group 1:bool",
                group=struct(
                    OffsetFetchGroup,
                    "group_id:string member_id:string?@9+ member_epoch:int32@9+ topics:[]topic?",
                    topic=_TOPIC,
                ),
            ).codec(ends=False),
            read=_with_stable,
            write=lambda groups: (groups, any(group.require_stable for group in groups)),
        ),
    ),
    struct(
        OffsetFetchReply,
        "throttle@3+ groups:only@0-7 groups:[]group@8+",
        only=lone(
            struct(
                FetchedGroup,
                "group_id:unnamed topics:[]topic error:error@2+",
                unnamed=absent(""),
                topic=_FETCHED,
            )
        ),
        group=struct(FetchedGroup, "group_id:string topics:[]topic error:error", topic=_FETCHED),
    ),
    on_each(OffsetFetchReply, "groups", lambda group, code, _: failed_fetch(group, code)),
    write=_write,
    lane=OF_MEMBERS,
)
