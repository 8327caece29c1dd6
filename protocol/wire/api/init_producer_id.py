"""InitProducerId (22), v0-6.

v2 is flexible, v3 adds the producer id and epoch to resume with, v4 and v5 add error codes only,
v6 two-phase commit (KIP-939; still marked unstable in Kafka).
"""

from __future__ import annotations

from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages.data import InitProducerIdReply, InitProducerIdRequest
from groupd.protocol.wire.encode import Writer
from groupd.protocol.wire.reader import Reader, decoder
from groupd.protocol.wire.registry import Api

_FLEXIBLE_FROM = 2


@decoder(_FLEXIBLE_FROM)
def decode(reader: Reader) -> InitProducerIdRequest:
    request = InitProducerIdRequest(
        transactional_id=reader.nullable_string(),
        transaction_timeout_ms=reader.int32(),
        producer_id=reader.int64() if reader.version >= 3 else -1,
        producer_epoch=reader.int16() if reader.version >= 3 else -1,
        enable_2pc=reader.version >= 6 and reader.boolean(),
        keep_prepared_txn=reader.version >= 6 and reader.boolean(),
    )
    reader.end()
    return request


def encode(reply: InitProducerIdReply, version: int) -> bytearray:
    writer = Writer(flexible=version >= _FLEXIBLE_FROM)
    writer.int32(0)
    writer.int16(reply.error)
    writer.int64(reply.producer_id)
    writer.int16(reply.producer_epoch)
    if version >= 6:
        writer.int64(reply.ongoing_txn_producer_id)
        writer.int16(reply.ongoing_txn_producer_epoch)
    writer.end()
    return writer.buffer


def failure(_: InitProducerIdRequest, code: ErrorCode, __: str | None) -> InitProducerIdReply:
    return InitProducerIdReply(code)


API = Api(
    22, "InitProducerId", 0, 6, _FLEXIBLE_FROM, InitProducerIdRequest, decode, encode, failure
)
