"""AlterClientQuotas (49), v0-1 (KIP-546). v1 is flexible."""

from __future__ import annotations

from collections.abc import Generator

from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages.lazily import mapped
from groupd.protocol.messages.quotas import (
    AlterClientQuotasReply,
    AlterClientQuotasRequest,
    AlteredQuota,
    EntityPart,
    QuotaAlteration,
    QuotaOperation,
)
from groupd.protocol.reader import Reader
from groupd.protocol.wire.registry import api
from groupd.protocol.writer import Writer


def read(reader: Reader) -> AlterClientQuotasRequest:
    entries = reader.structs(_entry)
    validate_only = reader.boolean()
    return AlterClientQuotasRequest(entries, validate_only)


def _entry(reader: Reader) -> QuotaAlteration:
    entity = reader.structs(_part)
    operations = reader.structs(_operation)
    return QuotaAlteration(entity, operations)


def _part(reader: Reader) -> EntityPart:
    entity_type = reader.string()
    name = reader.nullable_string()
    return entity_type, name


def _operation(reader: Reader) -> QuotaOperation:
    key = reader.string()
    value = reader.float64()
    remove = reader.boolean()
    return QuotaOperation(key, value, remove)


def write(writer: Writer, reply: AlterClientQuotasReply) -> Generator[None, None, None]:
    writer.throttle_time()
    yield from writer.long_structs_in_steps(reply.entries, _write_entry)


def _write_entry(writer: Writer, entry: AlteredQuota) -> Generator[None, None, None]:
    writer.int16(entry.error)
    writer.nullable_string(entry.error_message)
    yield from writer.structs_in_steps(entry.entity, _write_part)


def _write_part(writer: Writer, part: EntityPart) -> None:
    entity_type, name = part
    writer.string(entity_type)
    writer.nullable_string(name)


def failure(
    request: AlterClientQuotasRequest, code: ErrorCode, message: str | None
) -> AlterClientQuotasReply:
    return AlterClientQuotasReply(
        mapped(lambda entry: AlteredQuota(entry.entity, code, message), request.entries)
    )


API = api(49, AlterClientQuotasRequest, "0-1", "1+", read, write, failure)
