"""InitProducerId (22), v0-5.

v2 is flexible, v3 adds the producer id and epoch to resume with, v4 and v5 add error codes only.
v6, two-phase commit (KIP-939), is unstable in Kafka 4.4: its brokers do not offer it.
"""

from __future__ import annotations

from groupd.protocol.messages.data import InitProducerIdReply, InitProducerIdRequest
from groupd.protocol.reader import Reader
from groupd.protocol.wire.registry import api, code_only
from groupd.protocol.writer import Writer


def read(reader: Reader) -> InitProducerIdRequest:
    return InitProducerIdRequest(
        transactional_id=reader.nullable_string(),
        transaction_timeout_ms=reader.int32(),
        producer_id=reader.int64() if reader.version >= 3 else -1,
        producer_epoch=reader.int16() if reader.version >= 3 else -1,
    )


def write(writer: Writer, reply: InitProducerIdReply) -> None:
    writer.throttle_time()
    writer.int16(reply.error)
    writer.int64(reply.producer_id)
    writer.int16(reply.producer_epoch)


API = api(22, InitProducerIdRequest, "0-5", "2+", read, write, code_only(InitProducerIdReply))
