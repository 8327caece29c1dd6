"""The cluster as clients see it: ApiVersions (18), Metadata (3), DescribeCluster (60),
DescribeTopicPartitions (75)."""

from __future__ import annotations

from groupd.protocol.errors import ErrorCode
from groupd.protocol.frozen import dataclass
from groupd.protocol.messages import NO_TOPIC_ID, TopicId
from groupd.protocol.messages.groups import OPERATIONS_NOT_ASKED


@dataclass(frozen=True, slots=True)
class ApiVersionsRequest:
    """`cluster_id`, `node_id`: whom the client means to have reached; None and -1: nobody in
    particular."""

    client_software_name: str = ""
    client_software_version: str = ""
    cluster_id: str | None = None
    node_id: int = -1


@dataclass(frozen=True, slots=True)
class ApiRange:
    api_key: int
    min_version: int
    max_version: int


@dataclass(frozen=True, slots=True)
class Feature:
    """A finalized feature; `min_version` is the supported minimum."""

    name: str
    level: int
    min_version: int
    max_version: int


@dataclass(frozen=True, slots=True)
class ApiVersionsReply:
    error: ErrorCode = ErrorCode.NONE
    api_keys: tuple[ApiRange, ...] = ()
    features: tuple[Feature, ...] = ()
    features_epoch: int = 0


@dataclass(frozen=True, slots=True)
class Node:
    node_id: int
    host: str
    port: int
    rack: str | None = None


@dataclass(frozen=True, slots=True)
class MetadataRequest:
    """`topics` None = all. A topic is given by name, or from v10 by id with name None."""

    topics: tuple[tuple[str | None, TopicId], ...] | None
    allow_auto_topic_creation: bool = True
    include_cluster_authorized_operations: bool = False
    include_topic_authorized_operations: bool = False


@dataclass(frozen=True, slots=True)
class PartitionInfo:
    """`replicas` and `isr` are node ids."""

    partition: int
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    error: ErrorCode = ErrorCode.NONE


@dataclass(frozen=True, slots=True)
class TopicInfo:
    """`name` None only where a topic was asked for by an unknown id."""

    name: str | None
    topic_id: TopicId = NO_TOPIC_ID
    error: ErrorCode = ErrorCode.NONE
    internal: bool = False
    partitions: tuple[PartitionInfo, ...] = ()
    authorized_operations: int = OPERATIONS_NOT_ASKED


@dataclass(frozen=True, slots=True)
class MetadataReply:
    nodes: tuple[Node, ...]
    cluster_id: str | None
    controller_id: int
    topics: tuple[TopicInfo, ...]
    cluster_authorized_operations: int = OPERATIONS_NOT_ASKED
    error: ErrorCode = ErrorCode.NONE


@dataclass(frozen=True, slots=True)
class DescribeClusterRequest:
    include_cluster_authorized_operations: bool = False
    endpoint_type: int = 1
    include_fenced_brokers: bool = False


@dataclass(frozen=True, slots=True)
class DescribeClusterReply:
    error: ErrorCode = ErrorCode.NONE
    error_message: str | None = None
    endpoint_type: int = 1
    cluster_id: str = ""
    controller_id: int = -1
    nodes: tuple[Node, ...] = ()
    cluster_authorized_operations: int = OPERATIONS_NOT_ASKED


@dataclass(frozen=True, slots=True)
class DescribeTopicPartitionsRequest:
    """`cursor` = (topic, partition) to start at, None = from the start."""

    topics: tuple[str, ...]
    response_partition_limit: int = 2000
    cursor: tuple[str, int] | None = None


@dataclass(frozen=True, slots=True)
class DescribeTopicPartitionsReply:
    topics: tuple[TopicInfo, ...]
    next_cursor: tuple[str, int] | None = None
