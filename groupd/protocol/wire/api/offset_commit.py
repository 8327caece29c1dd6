"""OffsetCommit (8), v2-10. v2-4 carry a retention time, v3 adds throttle time, v6 the leader epoch,
v7 the instance id, v8 is flexible, v9 allows member epochs (KIP-848), v10 names topics by id
instead of name.

There are only errors of partitions: an error of the whole request is put on each partition.
"""

from __future__ import annotations

from collections.abc import Generator

from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages.offsets import OffsetCommitReply, OffsetCommitRequest
from groupd.protocol.reader import Reader
from groupd.protocol.wire.outcomes import commit_failure, read_commit_topics, write_commit_topics
from groupd.protocol.wire.registry import OF_MEMBERS, api
from groupd.protocol.writer import Writer

_ID_FROM = 10


def read(reader: Reader) -> OffsetCommitRequest:
    version = reader.version
    group_id = reader.string()
    generation_or_epoch = reader.int32()
    member_id = reader.string()
    instance_id = reader.nullable_string() if version >= 7 else None
    retention_ms = reader.int64() if version <= 4 else -1
    topics = read_commit_topics(reader, epoch_from=6, id_from=_ID_FROM)
    return OffsetCommitRequest(
        group_id, topics, generation_or_epoch, member_id, instance_id, retention_ms
    )


def write(writer: Writer, reply: OffsetCommitReply) -> Generator[None, None, None]:
    if writer.version >= 3:
        writer.throttle_time()
    yield from write_commit_topics(writer, reply.topics, id_from=_ID_FROM)


def failure(request: OffsetCommitRequest, code: ErrorCode, _: str | None) -> OffsetCommitReply:
    return OffsetCommitReply(commit_failure(request.topics, code))


API = api(8, OffsetCommitRequest, "2-10", "8+", read, write, failure, lane=OF_MEMBERS)
