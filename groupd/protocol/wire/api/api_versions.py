"""ApiVersions (18), v0-5. v1 adds throttle time, v3 is flexible and adds the client's software in
the request and features in the reply, v4 may carry features whose minimum is 0, v5 says in the
request which node of which cluster the client means to have reached (KIP-1242).

The reply header is always v0. A request of an unknown version is answered with a v0 body
(`unsupported_version_body`), because the client cannot know our versions yet (KIP-511). Older
clients fail on a supported feature whose minimum is 0, so v3 leaves it out (KAFKA-17011). A
finalized feature at level 0 means "disabled" and is left out in every version.
"""

from __future__ import annotations

from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages.cluster import ApiRange, ApiVersionsReply, ApiVersionsRequest, Feature
from groupd.protocol.reader import Reader
from groupd.protocol.wire.registry import api
from groupd.protocol.wire.schema import absent, array, struct
from groupd.protocol.writer import Writer

_NO_FEATURES_EPOCH = -1


def _read(reader: Reader) -> ApiVersionsRequest:
    if reader.version < 3:
        return ApiVersionsRequest()
    name, software_version = reader.string(), reader.string()
    cluster_id, node_id = None, -1
    if reader.version >= 5:
        cluster_id, node_id = reader.nullable_string(), reader.int32()
    return ApiVersionsRequest(name, software_version, cluster_id, node_id)


def _write(writer: Writer, reply: ApiVersionsReply) -> None:
    writer.int16(reply.error)
    for served in writer.structs(reply.api_keys):
        writer.int16(served.api_key)
        writer.int16(served.min_version)
        writer.int16(served.max_version)
    if writer.version >= 1:
        writer.throttle_time()
    if writer.version >= 3:
        _write_tagged_fields(writer, reply)


def _write_tagged_fields(writer: Writer, reply: ApiVersionsReply) -> None:
    supported = [f for f in reply.features if writer.version >= 4 or f.min_version != 0]
    finalized = [f for f in reply.features if f.level != 0]
    if supported:
        writer.tagged_field(0, _supported_features(supported))
    if reply.features_epoch != _NO_FEATURES_EPOCH:
        writer.tagged_field(1, reply.features_epoch.to_bytes(8, "big", signed=True))
    if finalized:
        writer.tagged_field(2, _finalized_features(finalized))


def _supported_features(features: list[Feature]) -> bytes:
    writer = Writer(flexible=True)
    for feature in writer.structs(features):
        writer.string(feature.name)
        writer.int16(feature.min_version)
        writer.int16(feature.max_version)
    return bytes(writer.buffer)


def _finalized_features(features: list[Feature]) -> bytes:
    writer = Writer(flexible=True)
    for feature in writer.structs(features):
        writer.string(feature.name)
        # Kafka writes the level as both ends of the range, the maximum first.
        writer.int16(feature.level)
        writer.int16(feature.level)
    return bytes(writer.buffer)


def versions_failure(_: ApiVersionsRequest, code: ErrorCode, __: str | None) -> ApiVersionsReply:
    """UNSUPPORTED_VERSION carries the version range of ApiVersions itself, other errors carry
    nothing."""
    own = ApiRange(API_VERSIONS.key, API_VERSIONS.min_version, API_VERSIONS.max_version)
    ranges = (own,) if code == ErrorCode.UNSUPPORTED_VERSION else ()
    return ApiVersionsReply(code, ranges, features_epoch=_NO_FEATURES_EPOCH)


def unsupported_version_body() -> bytes | bytearray:
    """The v0 body that answers a request of a version that groupd does not serve."""
    refusal = versions_failure(ApiVersionsRequest(), ErrorCode.UNSUPPORTED_VERSION, None)
    return API_VERSIONS.encode(refusal, 0)


API_VERSIONS = api(
    18,
    "0-5",
    "3+",
    struct(
        ApiVersionsRequest,
        "client_software_name:string@3+ client_software_version:string@3+ cluster_id:string?@5+ "
        "node_id:int32@5+",
    ),
    struct(
        ApiVersionsReply,
        "error:error api_keys:[]range throttle@1+ features:supported@3+#0 "
        "features_epoch:int64@3+#1",
        range=struct(ApiRange, "api_key:int16 min_version:int16 max_version:int16"),
        supported=array(
            struct(
                Feature,
                "name:string level:unknown min_version:int16 max_version:int16",
                unknown=absent(0),
            )
        ),
    ),
    versions_failure,
    read=_read,
    write=_write,
)
