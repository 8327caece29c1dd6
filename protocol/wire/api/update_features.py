"""UpdateFeatures (57), v0-2. Always flexible. v1 adds validate-only and the kind of a downgrade, v2
drops the results of single features."""

from __future__ import annotations

from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages.quorum import (
    FeatureUpdate,
    UpdateFeaturesReply,
    UpdateFeaturesRequest,
)
from groupd.protocol.primitives import Reader, Writer
from groupd.protocol.wire.registry import api, code_and_message

_UPGRADE, _UNSAFE_DOWNGRADE = 1, 3


def read(reader: Reader) -> UpdateFeaturesRequest:
    timeout_ms = reader.int32()
    updates = reader.structs(_update)
    validate_only = reader.version >= 1 and reader.boolean()
    return UpdateFeaturesRequest(updates, validate_only, timeout_ms)


def _update(reader: Reader) -> FeatureUpdate:
    feature = reader.string()
    level = reader.int16()
    if reader.version >= 1:
        upgrade_type = reader.int8()
    else:
        upgrade_type = _UNSAFE_DOWNGRADE if reader.boolean() else _UPGRADE
    return FeatureUpdate(feature, level, upgrade_type)


def write(writer: Writer, reply: UpdateFeaturesReply) -> None:
    writer.int32(0)
    writer.int16(reply.error)
    writer.nullable_string(reply.error_message)
    if writer.version <= 1:
        for feature in writer.structs(reply.features):
            writer.string(feature)
            writer.int16(ErrorCode.NONE)
            writer.nullable_string(None)


API = api(
    57, UpdateFeaturesRequest, "0-2", "0+", read, write, code_and_message(UpdateFeaturesReply)
)
