"""Share groups (KIP-932): ShareGroupHeartbeat (76), ShareGroupDescribe (77), and the requests about
their offsets: DescribeShareGroupOffsets (90), AlterShareGroupOffsets (91), DeleteShareGroupOffsets
(92)."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages import NO_TOPIC_ID, TopicId
from groupd.protocol.messages.consumer_group import NamedTopicPartitions, TopicPartitions
from groupd.protocol.messages.groups import OPERATIONS_NOT_ASKED


class ShareGroupHeartbeatRequest(Struct, frozen=True):
    """A field that is None is unchanged since the last heartbeat. `member_epoch`: > 0 is the
    member's current epoch, 0 joins (again), -1 leaves."""

    group_id: str
    member_id: str
    member_epoch: int
    rack_id: str | None = None
    subscribed_topic_names: tuple[str, ...] | None = None


class ShareGroupHeartbeatReply(Struct, frozen=True):
    """`assignment` None = unchanged; an empty tuple = the member has no partition."""

    error: ErrorCode = ErrorCode.NONE
    error_message: str | None = None
    member_id: str | None = None
    member_epoch: int = 0
    heartbeat_interval_ms: int = 0
    assignment: tuple[TopicPartitions, ...] | None = None


class ShareGroupDescribeRequest(Struct, frozen=True):
    group_ids: tuple[str, ...]
    include_authorized_operations: bool = False


class DescribedShareMember(Struct, frozen=True):
    member_id: str
    rack_id: str | None
    member_epoch: int
    client_id: str
    client_host: str
    subscribed_topic_names: tuple[str, ...]
    assignment: tuple[NamedTopicPartitions, ...]


class DescribedShareGroup(Struct, frozen=True):
    """`members` is a `Lazily` if there are many."""

    group_id: str
    error: ErrorCode = ErrorCode.NONE
    error_message: str | None = None
    state: str = ""
    group_epoch: int = 0
    assignment_epoch: int = 0
    assignor_name: str = ""
    members: Sequence[DescribedShareMember] = ()
    authorized_operations: int = OPERATIONS_NOT_ASKED


class ShareGroupDescribeReply(Struct, frozen=True):
    groups: Sequence[DescribedShareGroup]


# Offsets --------------------------------------------------------------------------------------


class ShareOffsetsTopic(Struct, frozen=True):
    name: str
    partitions: tuple[int, ...]


class ShareOffsetsGroup(Struct, frozen=True):
    """`topics` None = all topics of the group."""

    group_id: str
    topics: tuple[ShareOffsetsTopic, ...] | None = None


class DescribeShareGroupOffsetsRequest(Struct, frozen=True):
    groups: tuple[ShareOffsetsGroup, ...]


class DescribedShareOffset(Struct, frozen=True):
    """`start_offset` -1: nothing has been acknowledged yet. `lag` -1: unknown (KIP-1226)."""

    partition: int
    start_offset: int = -1
    leader_epoch: int = 0
    lag: int = -1
    error: ErrorCode = ErrorCode.NONE
    error_message: str | None = None


class DescribedShareOffsets(Struct, frozen=True):
    """The partitions of one topic."""

    name: str
    partitions: Sequence[DescribedShareOffset]
    topic_id: TopicId = NO_TOPIC_ID


class DescribedShareOffsetsGroup(Struct, frozen=True):
    group_id: str
    topics: Sequence[DescribedShareOffsets] = ()
    error: ErrorCode = ErrorCode.NONE
    error_message: str | None = None


class DescribeShareGroupOffsetsReply(Struct, frozen=True):
    groups: Sequence[DescribedShareOffsetsGroup]


class AlteredShareTopic(Struct, frozen=True):
    """`partitions`: (partition, new start offset)."""

    name: str
    partitions: tuple[tuple[int, int], ...]


class AlterShareGroupOffsetsRequest(Struct, frozen=True):
    group_id: str
    topics: tuple[AlteredShareTopic, ...]


class ShareOffsetResult(Struct, frozen=True):
    partition: int
    error: ErrorCode = ErrorCode.NONE
    error_message: str | None = None


class AlteredShareOffsets(Struct, frozen=True):
    """The partitions of one topic."""

    name: str
    partitions: Sequence[ShareOffsetResult]
    topic_id: TopicId = NO_TOPIC_ID


class AlterShareGroupOffsetsReply(Struct, frozen=True):
    error: ErrorCode = ErrorCode.NONE
    error_message: str | None = None
    topics: Sequence[AlteredShareOffsets] = ()


class DeleteShareGroupOffsetsRequest(Struct, frozen=True):
    """`topics`: their names."""

    group_id: str
    topics: tuple[str, ...]


class DeletedShareOffsets(Struct, frozen=True):
    """One topic."""

    name: str
    topic_id: TopicId = NO_TOPIC_ID
    error: ErrorCode = ErrorCode.NONE
    error_message: str | None = None


class DeleteShareGroupOffsetsReply(Struct, frozen=True):
    error: ErrorCode = ErrorCode.NONE
    error_message: str | None = None
    topics: Sequence[DeletedShareOffsets] = ()
