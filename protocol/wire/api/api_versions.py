"""ApiVersions (18), v0-5. v1 adds throttle time, v3 is flexible and adds the client's software
in the request and features in the reply, v4 may carry features whose minimum is 0, v5 says in the
request which node of which cluster the client means to have reached (KIP-1242).

Rules: the reply header is always v0. A request of an unknown version is answered with a v0 body
(`unsupported_version_body`), because the client cannot know our versions yet (KIP-511). Older
clients fail on a supported feature whose minimum is 0, so v3 leaves it out (KAFKA-17011).
A finalized feature at level 0 means "disabled" and is left out in every version.
"""

from __future__ import annotations

from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages.cluster import ApiRange, ApiVersionsReply, ApiVersionsRequest, Feature
from groupd.protocol.wire.encode import Writer
from groupd.protocol.wire.reader import Reader, decoder
from groupd.protocol.wire.registry import Api

_FLEXIBLE_FROM = 3
_MAX_VERSION = 5
_OWN_RANGE = ApiRange(18, 0, _MAX_VERSION)
_NO_FEATURES_EPOCH = -1


@decoder(_FLEXIBLE_FROM)
def decode(reader: Reader) -> ApiVersionsRequest:
    if reader.version < 3:
        return ApiVersionsRequest()
    name, software_version = reader.string(), reader.string()
    cluster_id, node_id = None, -1
    if reader.version >= 5:
        cluster_id, node_id = reader.nullable_string(), reader.int32()
    reader.end()
    return ApiVersionsRequest(name, software_version, cluster_id, node_id)


def encode(reply: ApiVersionsReply, version: int) -> bytearray:
    writer = Writer(flexible=version >= _FLEXIBLE_FROM)
    writer.int16(reply.error)
    writer.array_length(len(reply.api_keys))
    for api in reply.api_keys:
        writer.int16(api.api_key)
        writer.int16(api.min_version)
        writer.int16(api.max_version)
        writer.end()
    if version >= 1:
        writer.int32(0)
    if version >= 3:
        writer.tagged(_tagged_fields(reply, version))
    return writer.buffer


def _tagged_fields(reply: ApiVersionsReply, version: int) -> list[tuple[int, bytes]]:
    supported = [f for f in reply.features if version >= 4 or f.min_version != 0]
    finalized = [f for f in reply.features if f.level != 0]
    fields = []
    if supported:
        fields.append((0, _supported_features(supported)))
    if reply.features_epoch != _NO_FEATURES_EPOCH:
        fields.append((1, reply.features_epoch.to_bytes(8, "big", signed=True)))
    if finalized:
        fields.append((2, _finalized_features(finalized)))
    return fields


def _supported_features(features: list[Feature]) -> bytes:
    writer = Writer(flexible=True)
    writer.array_length(len(features))
    for feature in features:
        writer.string(feature.name)
        writer.int16(feature.min_version)
        writer.int16(feature.max_version)
        writer.end()
    return bytes(writer.buffer)


def _finalized_features(features: list[Feature]) -> bytes:
    writer = Writer(flexible=True)
    writer.array_length(len(features))
    for feature in features:
        writer.string(feature.name)
        # Kafka writes the level as both ends of the range, the maximum first.
        writer.int16(feature.level)
        writer.int16(feature.level)
        writer.end()
    return bytes(writer.buffer)


def failure(_: ApiVersionsRequest, code: ErrorCode, __: str | None) -> ApiVersionsReply:
    """UNSUPPORTED_VERSION carries the range of ApiVersions itself, other errors nothing."""
    ranges = (_OWN_RANGE,) if code == ErrorCode.UNSUPPORTED_VERSION else ()
    return ApiVersionsReply(code, ranges, features_epoch=_NO_FEATURES_EPOCH)


def unsupported_version_body() -> bytearray:
    """The v0 body that answers a request of a version we do not serve."""
    return encode(failure(ApiVersionsRequest(), ErrorCode.UNSUPPORTED_VERSION, None), 0)


API = Api(
    _OWN_RANGE.api_key,
    "ApiVersions",
    _OWN_RANGE.min_version,
    _OWN_RANGE.max_version,
    _FLEXIBLE_FROM,
    ApiVersionsRequest,
    decode,
    encode,
    failure,
)
