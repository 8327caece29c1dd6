"""OffsetDelete (47), v0, never flexible (KIP-496). The error comes before the throttle time."""

from __future__ import annotations

from collections.abc import Generator

from groupd.protocol.messages.offsets import FetchTopic, OffsetDeleteReply, OffsetDeleteRequest
from groupd.protocol.reader import Reader
from groupd.protocol.wire.outcomes import write_commit_topics
from groupd.protocol.wire.registry import api, code_only
from groupd.protocol.writer import Writer


def read(reader: Reader) -> OffsetDeleteRequest:
    return OffsetDeleteRequest(reader.string(), reader.array(_read_topic))


def _read_topic(reader: Reader) -> FetchTopic:
    # The structs of the array have only the partition, so they can be read as an int32 array.
    return FetchTopic(reader.string(), reader.int32_array())


def write(writer: Writer, reply: OffsetDeleteReply) -> Generator[None, None, None]:
    writer.int16(reply.error)
    writer.throttle_time()
    yield from write_commit_topics(writer, reply.topics)


API = api(47, OffsetDeleteRequest, "0", "none", read, write, code_only(OffsetDeleteReply))
