"""The cluster as clients see it: ApiVersions (18), Metadata (3), DescribeCluster (60),
DescribeTopicPartitions (75)."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages import NO_TOPIC_ID, TopicId
from groupd.protocol.messages.groups import OPERATIONS_NOT_ASKED
from groupd.protocol.messages.throttled import Throttled


class ApiVersionsRequest(Struct, frozen=True):
    """`cluster_id` and `node_id`: the cluster and the node that the client wants to talk to; None
    and -1 if the client does not say."""

    client_software_name: str = ""
    client_software_version: str = ""
    cluster_id: str | None = None
    node_id: int = -1


class ApiRange(Struct, frozen=True):
    api_key: int
    min_version: int
    max_version: int


class Feature(Struct, frozen=True):
    """A finalized feature. `level`: its finalized level; `min_version`, `max_version`:
    supported."""

    name: str
    level: int
    min_version: int
    max_version: int


class ApiVersionsReply(Struct, frozen=True):
    """`features_epoch`: -1 = not known."""

    error: ErrorCode = ErrorCode.NONE
    api_keys: tuple[ApiRange, ...] = ()
    features: tuple[Feature, ...] = ()
    features_epoch: int = -1


class Node(Struct, frozen=True):
    """`listeners`: (listener name, host, port), if the node has several listeners. `host` and
    `port` are those of the first one."""

    node_id: int
    host: str
    port: int
    rack: str | None = None
    listeners: tuple[tuple[str, str, int], ...] = ()

    def on(self, listener: str) -> Node:
        """The node with the address of that listener (`docs/spec/security.md#1.1`)."""
        for name, host, port in self.listeners:
            if name == listener:
                return Node(self.node_id, host, port, self.rack)
        return Node(self.node_id, self.host, self.port, self.rack) if self.listeners else self


class MetadataRequest(Struct, frozen=True):
    """`topics` None = all. A topic is given by name or, from v10 on, by id with name None."""

    topics: tuple[tuple[str | None, TopicId], ...] | None
    allow_auto_topic_creation: bool = True
    include_cluster_authorized_operations: bool = False
    include_topic_authorized_operations: bool = False


class PartitionRun(Struct, frozen=True):
    """The partitions from `first` to `end` - 1 of a topic, which all have the same leader and
    replicas. `leader` is -1 while there is no leader; `error` says so too, in replies that need it.
    `replicas`, `isr` and `offline` (replicas on nodes that are gone) are node ids."""

    first: int
    end: int
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    error: ErrorCode = ErrorCode.NONE
    offline: tuple[int, ...] = ()


class TopicInfo(Struct, frozen=True):
    """`name` is None only if an unknown id was asked for. `partitions` are in order."""

    name: str | None
    topic_id: TopicId = NO_TOPIC_ID
    error: ErrorCode = ErrorCode.NONE
    internal: bool = False
    partitions: tuple[PartitionRun, ...] = ()
    authorized_operations: int = OPERATIONS_NOT_ASKED

    @property
    def partition_count(self) -> int:
        return sum([run.end - run.first for run in self.partitions])


class MetadataReply(Throttled, frozen=True):
    """`topics` is a `Lazily` if the request asked for all topics."""

    nodes: tuple[Node, ...]
    cluster_id: str | None
    controller_id: int
    topics: Sequence[TopicInfo]
    cluster_authorized_operations: int = OPERATIONS_NOT_ASKED
    error: ErrorCode = ErrorCode.NONE


class DescribeClusterRequest(Struct, frozen=True):
    include_cluster_authorized_operations: bool = False
    endpoint_type: int = 1
    include_fenced_brokers: bool = False


class DescribeClusterReply(Struct, frozen=True):
    error: ErrorCode = ErrorCode.NONE
    error_message: str | None = None
    endpoint_type: int = 1
    cluster_id: str = ""
    controller_id: int = -1
    nodes: tuple[Node, ...] = ()
    cluster_authorized_operations: int = OPERATIONS_NOT_ASKED


class DescribeTopicPartitionsRequest(Struct, frozen=True):
    """`cursor` = (topic, partition) to start at, None = from the start."""

    topics: tuple[str, ...]
    response_partition_limit: int = 2000
    cursor: tuple[str, int] | None = None


class DescribeTopicPartitionsReply(Struct, frozen=True):
    topics: Sequence[TopicInfo]
    next_cursor: tuple[str, int] | None = None
