"""ApiVersions (18): the versions and features that a server offers. The reply header is always v0.

A request of an unknown version is answered with a v0 body (`unsupported_version_body`), because the
client cannot know the server's versions yet (KIP-511). Older clients fail on a supported feature
whose minimum is 0, so such features are left out up to v3 (KAFKA-17011). A finalized feature at
level 0 is disabled, and is left out in every version. A client that reads the reply here keeps no
levels.
"""

from __future__ import annotations

from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages.cluster import ApiRange, ApiVersionsReply, ApiVersionsRequest, Feature
from groupd.protocol.schema import absent, array, of_whole, struct
from groupd.protocol.wire.registry import api


def versions_failure(_: ApiVersionsRequest, code: ErrorCode, __: str | None) -> ApiVersionsReply:
    """With UNSUPPORTED_VERSION the reply has the version range of ApiVersions itself, with other
    errors it has none."""
    own = ApiRange(API_VERSIONS.key, API_VERSIONS.min_version, API_VERSIONS.max_version)
    return ApiVersionsReply(code, (own,) if code == ErrorCode.UNSUPPORTED_VERSION else ())


def unsupported_version_body() -> bytes | bytearray:
    """Returns the v0 body that answers a request of a version that groupd does not serve."""
    refusal = versions_failure(ApiVersionsRequest(), ErrorCode.UNSUPPORTED_VERSION, None)
    return API_VERSIONS.encode(refusal, 0)


_SUPPORTED = array(
    struct(
        Feature,
        "name:string level:unknown min_version:int16 max_version:int16",
        unknown=absent(0),
    )
)

# v1 adds throttle time, v3 is flexible and adds the client's software to the request and features
# to the reply, v4 may carry features whose minimum is 0, v5 has in the request the cluster id and
# node id that the client wants to talk to (KIP-1242).
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
        "error:error api_keys:[]range throttle@1+ features:above_0@3#0 features:supported@4+#0 "
        "features_epoch:int64@3+#1 -:finalized@3+#2",
        range=struct(ApiRange, "api_key:int16 min_version:int16 max_version:int16"),
        above_0=of_whole(
            _SUPPORTED, lambda reply: tuple([one for one in reply.features if one.min_version])
        ),
        supported=_SUPPORTED,
        # Kafka writes the level as both ends of a range, the maximum first.
        finalized=of_whole(
            array(struct(Feature, "name:string level:int16 level:int16")),
            lambda reply: tuple([one for one in reply.features if one.level]),
        ),
    ),
    versions_failure,
)
