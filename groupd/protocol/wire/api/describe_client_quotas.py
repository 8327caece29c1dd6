"""DescribeClientQuotas (48), v0-1 (KIP-546). v1 is flexible."""

from __future__ import annotations

from collections.abc import Generator

from groupd.protocol.messages.quotas import (
    DescribeClientQuotasReply,
    DescribeClientQuotasRequest,
    DescribedQuota,
    QuotaFilter,
)
from groupd.protocol.reader import Reader
from groupd.protocol.wire.registry import api, code_and_message
from groupd.protocol.writer import Writer


def read(reader: Reader) -> DescribeClientQuotasRequest:
    components = reader.structs(_component)
    strict = reader.boolean()
    return DescribeClientQuotasRequest(components, strict)


def _component(reader: Reader) -> QuotaFilter:
    entity_type = reader.string()
    match_type = reader.int8()
    match = reader.nullable_string()
    return QuotaFilter(entity_type, match_type, match)


def write(writer: Writer, reply: DescribeClientQuotasReply) -> Generator[None, None, None]:
    writer.throttle_time()
    writer.int16(reply.error)
    writer.nullable_string(reply.error_message)
    if reply.entries is None:
        writer.null_array()
        return
    yield from writer.structs_in_steps(reply.entries, _write_entry)


def _write_entry(writer: Writer, entry: DescribedQuota) -> None:
    for entity_type, name in writer.structs(entry.entity):
        writer.string(entity_type)
        writer.nullable_string(name)
    for key, value in writer.structs(entry.values):
        writer.string(key)
        writer.float64(value)


API = api(
    48,
    DescribeClientQuotasRequest,
    "0-1",
    "1+",
    read,
    write,
    code_and_message(DescribeClientQuotasReply),
)
