"""TxnOffsetCommit (28), v0-6. v2 adds the leader epoch, v3 is flexible and adds generation, member
id and instance id, v4 and v5 change errors and transactions only (KIP-890), v6 names topics by id
(KIP-1319).

There are only errors of partitions: an error of the whole request is put on each partition.
"""

from __future__ import annotations

from collections.abc import Generator

from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages.offsets import TxnOffsetCommitReply, TxnOffsetCommitRequest
from groupd.protocol.reader import Reader
from groupd.protocol.wire.outcomes import commit_failure, read_commit_topics, write_commit_topics
from groupd.protocol.wire.registry import api
from groupd.protocol.writer import Writer

_ID_FROM = 6


def read(reader: Reader) -> TxnOffsetCommitRequest:
    with_member = reader.version >= 3
    return TxnOffsetCommitRequest(
        transactional_id=reader.string(),
        group_id=reader.string(),
        producer_id=reader.int64(),
        producer_epoch=reader.int16(),
        generation_or_epoch=reader.int32() if with_member else -1,
        member_id=reader.string() if with_member else "",
        group_instance_id=reader.nullable_string() if with_member else None,
        topics=read_commit_topics(reader, epoch_from=2, id_from=_ID_FROM),
    )


def write(writer: Writer, reply: TxnOffsetCommitReply) -> Generator[None, None, None]:
    writer.throttle_time()
    yield from write_commit_topics(writer, reply.topics, id_from=_ID_FROM)


def failure(
    request: TxnOffsetCommitRequest, code: ErrorCode, _: str | None
) -> TxnOffsetCommitReply:
    return TxnOffsetCommitReply(commit_failure(request.topics, code))


API = api(28, TxnOffsetCommitRequest, "0-6", "3+", read, write, failure)
