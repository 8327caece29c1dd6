"""ListPartitionReassignments (46), v0. Always flexible. The list is empty: nothing ever moves."""

from __future__ import annotations

from groupd.protocol.messages.replicas import (
    ListPartitionReassignmentsReply,
    ListPartitionReassignmentsRequest,
)
from groupd.protocol.reader import Reader
from groupd.protocol.wire.outcomes import read_named_partitions
from groupd.protocol.wire.registry import api, code_and_message
from groupd.protocol.writer import Writer


def read(reader: Reader) -> ListPartitionReassignmentsRequest:
    timeout_ms = reader.int32()
    topics = reader.nullable_structs(read_named_partitions)
    return ListPartitionReassignmentsRequest(topics, timeout_ms)


def write(writer: Writer, reply: ListPartitionReassignmentsReply) -> None:
    writer.throttle_time()
    writer.int16(reply.error)
    writer.nullable_string(reply.error_message)
    writer.array_length(0)


API = api(
    46,
    ListPartitionReassignmentsRequest,
    "0",
    "0+",
    read,
    write,
    code_and_message(ListPartitionReassignmentsReply),
)
