"""UpdateFeatures (57), v0-2. Always flexible. v1 adds validate-only and the kind of a downgrade, v2
drops the results of single features."""

from __future__ import annotations

from collections.abc import Generator

from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages.quorum import (
    FeatureUpdate,
    UpdateFeaturesReply,
    UpdateFeaturesRequest,
)
from groupd.protocol.reader import Reader
from groupd.protocol.wire.registry import api, code_and_message
from groupd.protocol.writer import Writer

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


def write(writer: Writer, reply: UpdateFeaturesReply) -> Generator[None, None, None]:
    writer.throttle_time()
    writer.int16(reply.error)
    writer.nullable_string(reply.error_message)
    if writer.version <= 1:
        yield from writer.structs_in_steps(reply.features, _write_feature)


def _write_feature(writer: Writer, feature: str) -> None:
    writer.string(feature)
    writer.int16(ErrorCode.NONE)
    writer.nullable_string(None)


API = api(
    57, UpdateFeaturesRequest, "0-2", "0+", read, write, code_and_message(UpdateFeaturesReply)
)
