"""OffsetFetch (9), v1-10.

v2 adds the top-level error and null topics for "all", v3 throttle time, v5 the leader epoch, v6 is
flexible, v7 adds require_stable (KIP-447), v8 asks for many groups (KIP-709), v9 adds member id and
epoch (KIP-848), v10 names topics by id instead of name.

The place of a group's error differs: v1 has it on each requested partition, v2-7 at the top, v8 and
later on the group. From v2 on a group with an error has no topics. Only the request says what was
asked for, so a failed group carries both (`group_failure`), and the encoder drops the one that its
version does not use.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from itertools import islice
from struct import Struct

from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages.lazily import mapped
from groupd.protocol.messages.offsets import (
    FetchedGroup,
    FetchedOffset,
    FetchedTopic,
    FetchTopic,
    OffsetFetchGroup,
    OffsetFetchReply,
    OffsetFetchRequest,
)
from groupd.protocol.schema import absent, converted, lone, struct
from groupd.protocol.wire.registry import OF_MEMBERS, api, on_each
from groupd.protocol.writer import STEP, Writer

_INT16 = Struct(">h").pack
# Partition, offset and, from v5 on, leader epoch.
_OFFSET = Struct(">iq").pack
_OFFSET_WITH_EPOCH = Struct(">iqi").pack
# The same with empty metadata ("\0\0", or "\1" if flexible), error and tagged fields.
_BARE_OFFSET = Struct(">iq2xh").pack
_BARE_OFFSET_WITH_EPOCH = Struct(">iqi2xh").pack
_BARE_OFFSET_FLEXIBLE = Struct(">iqiBhx").pack


def _write(writer: Writer, reply: OffsetFetchReply) -> Generator[None, None, None]:
    version = writer.version
    if version >= 3:
        writer.throttle_time()
    if version < 8:
        group = reply.groups[0]
        yield from _write_topics(writer, group, 0)
        if version >= 2:
            writer.int16(group.error)
        return
    written = 0
    for group in writer.structs(reply.groups):
        if written > STEP:
            yield
            written = 0
        writer.string(group.group_id)
        written = 1 + (yield from _write_topics(writer, group, written))
        writer.int16(group.error)


def _write_topics(writer: Writer, group: FetchedGroup, written: int) -> Generator[None, None, int]:
    """Writes the topics of a group. `written`: how many items were written since the last stop.
    Returns that number at the end. It does not stop after the last topic: most replies fit into one
    step and are sent at once."""
    topics = group.topics if group.error == ErrorCode.NONE or writer.version == 1 else ()
    for topic in writer.structs(topics):
        if written > STEP:
            yield
            written = 0
        if writer.version >= 10:
            writer.uuid(topic.topic_id)
        else:
            writer.string(topic.name)
        writer.array_length(len(topic.partitions))
        if len(topic.partitions) <= STEP:
            _write_offsets(writer, topic.partitions)
        else:
            rest = iter(topic.partitions)
            while some := tuple(islice(rest, STEP)):
                _write_offsets(writer, some)
                yield
        written += len(topic.partitions) + 1
    return written


def _write_offsets(writer: Writer, offsets: Sequence[FetchedOffset]) -> None:
    buffer = writer.buffer
    for p in offsets:
        if p.metadata:
            if writer.version >= 5:
                buffer += _OFFSET_WITH_EPOCH(p.partition, p.offset, p.leader_epoch)
            else:
                buffer += _OFFSET(p.partition, p.offset)
            writer.string(p.metadata)
            buffer += _INT16(p.error)
            writer.end()
        elif writer.flexible:
            buffer += _BARE_OFFSET_FLEXIBLE(p.partition, p.offset, p.leader_epoch, 1, p.error)
        elif writer.version >= 5:
            buffer += _BARE_OFFSET_WITH_EPOCH(p.partition, p.offset, p.leader_epoch, p.error)
        else:
            buffer += _BARE_OFFSET(p.partition, p.offset, p.error)


def group_failure(group: OffsetFetchGroup, code: ErrorCode) -> FetchedGroup:
    """Returns the answer for a group that failed as a whole, for every version."""

    def failed(topic: FetchTopic) -> FetchedTopic:
        offsets = mapped(lambda number: FetchedOffset(number, error=code), topic.partitions)
        return FetchedTopic(topic.name, offsets, topic.topic_id)

    return FetchedGroup(group.group_id, mapped(failed, group.topics or ()), code)


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
    on_each(OffsetFetchReply, "groups", lambda group, code, _: group_failure(group, code)),
    write=_write,
    lane=OF_MEMBERS,
)
