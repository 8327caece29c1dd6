"""The cluster: its nodes, its controllers, its features, and the metrics that clients push. The
topics in it are in `metadata`."""

from __future__ import annotations

from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages.cluster import DescribeClusterReply, DescribeClusterRequest, Node
from groupd.protocol.messages.quorum import (
    DescribeQuorumReply,
    DescribeQuorumRequest,
    FeatureUpdate,
    QuorumPartition,
    QuorumReplica,
    UpdateFeaturesReply,
    UpdateFeaturesRequest,
)
from groupd.protocol.messages.telemetry import (
    GetTelemetrySubscriptionsReply,
    GetTelemetrySubscriptionsRequest,
    PushTelemetryReply,
    PushTelemetryRequest,
)
from groupd.protocol.schema import converted, struct
from groupd.protocol.wire.registry import api, code_and_message, code_only

_LISTENER = "PLAINTEXT"
_UPGRADE, _UNSAFE_DOWNGRADE = 1, 3


def _describe_cluster_failure(
    request: DescribeClusterRequest, code: ErrorCode, message: str | None
) -> DescribeClusterReply:
    return DescribeClusterReply(code, message, request.endpoint_type)


# Always flexible; v1 adds the endpoint type (KIP-919), v2 fenced brokers (KIP-1073), of which
# groupd has none.
DESCRIBE_CLUSTER = api(
    60,
    "0-2",
    "0+",
    struct(
        DescribeClusterRequest,
        "include_cluster_authorized_operations:bool endpoint_type:int8@1+ "
        "include_fenced_brokers:bool@2+",
    ),
    struct(
        DescribeClusterReply,
        "throttle error:error error_message:string? endpoint_type:int8@1+ cluster_id:string "
        "controller_id:int32 nodes:[]node cluster_authorized_operations:int32",
        node=struct(Node, "node_id:int32 host:string port:int32 rack:string? -:bool@2+"),
    ),
    _describe_cluster_failure,
)

_REPLICA = struct(
    QuorumReplica,
    "replica_id:int32 directory_id:uuid@2+ log_end_offset:int64 last_fetch_ms:int64@1+ "
    "last_caught_up_ms:int64@1+",
)
_CONTROLLER = converted(
    struct(tuple, "0:int32 1:[]listener", listener=struct(tuple, "0:string 1:string 2:uint16")),
    read=lambda found: Node(found[0], *found[1][0][1:]),
    write=lambda node: (node.node_id, ((_LISTENER, node.host, node.port),)),
)

# Always flexible. v1 adds times (KIP-836), v2 messages, directories and the controllers' addresses
# (KIP-853). groupd has no observers.
DESCRIBE_QUORUM = api(
    55,
    "0-2",
    "0+",
    struct(
        DescribeQuorumRequest,
        "topics:[]topic",
        topic=struct(tuple, "0:string 1:[]partition", partition=struct(None, "partition:int32")),
    ),
    struct(
        DescribeQuorumReply,
        "error:error error_message:string?@2+ topics:[]topic nodes:[]node@2+",
        topic=struct(
            tuple,
            "0:string 1:[]partition",
            partition=struct(
                QuorumPartition,
                "partition:int32 error:error error_message:string?@2+ leader_id:int32 "
                "leader_epoch:int32 high_watermark:int64 voters:[]replica -:[]replica",
                replica=_REPLICA,
            ),
        ),
        node=_CONTROLLER,
    ),
    code_and_message(DescribeQuorumReply),
)

# Always flexible. v1 adds validate-only and the type of an upgrade or downgrade, v2 drops the
# results of single features.
UPDATE_FEATURES = api(
    57,
    "0-2",
    "0+",
    struct(
        UpdateFeaturesRequest,
        "timeout_ms:int32 updates:[]update validate_only:bool@1+",
        update=struct(
            FeatureUpdate,
            "feature:string level:int16 upgrade_type:downgrade@0 upgrade_type:int8@1+",
            downgrade=converted(
                "bool",
                read=lambda allowed: _UNSAFE_DOWNGRADE if allowed else _UPGRADE,
                write=lambda upgrade_type: upgrade_type != _UPGRADE,
            ),
        ),
    ),
    struct(
        UpdateFeaturesReply,
        "throttle error:error error_message:string? features:[]feature@0-1",
        feature=struct(None, "feature:string -:error -:string?"),
    ),
    code_and_message(UpdateFeaturesReply),
)

# Always flexible.
GET_TELEMETRY_SUBSCRIPTIONS = api(
    71,
    "0",
    "0+",
    struct(GetTelemetrySubscriptionsRequest, "client:uuid"),
    struct(
        GetTelemetrySubscriptionsReply,
        "throttle error:error client:uuid subscription_id:int32 compressions:[]int8 "
        "push_interval_ms:int32 max_bytes:int32 delta_temporality:bool metrics:[]string",
    ),
    code_only(GetTelemetrySubscriptionsReply),
)

# Always flexible.
PUSH_TELEMETRY = api(
    72,
    "0",
    "0+",
    struct(
        PushTelemetryRequest,
        "client:uuid subscription_id:int32 terminating:bool compression:int8 metrics:bytes",
    ),
    struct(PushTelemetryReply, "throttle error:error"),
    code_only(PushTelemetryReply),
)
