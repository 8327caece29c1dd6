"""UpdateFeatures (57), v0-2. Always flexible. v1 adds validate-only and the kind of a downgrade, v2
leaves out the results of single features."""

from __future__ import annotations

from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages.quorum import (
    FeatureUpdate,
    UpdateFeaturesReply,
    UpdateFeaturesRequest,
)
from groupd.protocol.wire.encode import Writer
from groupd.protocol.wire.reader import Reader, decoder
from groupd.protocol.wire.registry import Api

_FLEXIBLE_FROM = 0
_UPGRADE, _UNSAFE_DOWNGRADE = 1, 3


@decoder(_FLEXIBLE_FROM)
def decode(reader: Reader) -> UpdateFeaturesRequest:
    timeout_ms = reader.int32()
    updates = reader.array(_update)
    validate_only = reader.version >= 1 and reader.boolean()
    reader.end()
    return UpdateFeaturesRequest(updates, validate_only, timeout_ms)


def _update(reader: Reader) -> FeatureUpdate:
    feature = reader.string()
    level = reader.int16()
    if reader.version >= 1:
        upgrade_type = reader.int8()
    else:
        upgrade_type = _UNSAFE_DOWNGRADE if reader.boolean() else _UPGRADE
    reader.end()
    return FeatureUpdate(feature, level, upgrade_type)


def encode(reply: UpdateFeaturesReply, version: int) -> bytearray:
    writer = Writer(flexible=True)
    writer.int32(0)
    writer.int16(reply.error)
    writer.nullable_string(reply.error_message)
    if version <= 1:
        writer.array_length(len(reply.features))
        for feature in reply.features:
            writer.string(feature)
            writer.int16(ErrorCode.NONE)
            writer.nullable_string(None)
            writer.end()
    writer.end()
    return writer.buffer


def failure(
    request: UpdateFeaturesRequest, code: ErrorCode, message: str | None
) -> UpdateFeaturesReply:
    return UpdateFeaturesReply(code, message)


API = Api(
    57, "UpdateFeatures", 0, 2, _FLEXIBLE_FROM, UpdateFeaturesRequest, decode, encode, failure
)
