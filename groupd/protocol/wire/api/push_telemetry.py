"""PushTelemetry (72), v0. Always flexible."""

from __future__ import annotations

from groupd.protocol.messages.telemetry import PushTelemetryReply, PushTelemetryRequest
from groupd.protocol.reader import Reader
from groupd.protocol.wire.registry import api, code_only
from groupd.protocol.writer import Writer


def read(reader: Reader) -> PushTelemetryRequest:
    client = reader.uuid()
    subscription_id = reader.int32()
    terminating = reader.boolean()
    compression = reader.int8()
    metrics = reader.bytes_()
    return PushTelemetryRequest(client, subscription_id, terminating, compression, metrics)


def write(writer: Writer, reply: PushTelemetryReply) -> None:
    writer.throttle_time()
    writer.int16(reply.error)


API = api(72, PushTelemetryRequest, "0", "0+", read, write, code_only(PushTelemetryReply))
