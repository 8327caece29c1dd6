"""May this member commit or fetch offsets? (offsets spec 3.1 "Consumer", 3.2; KIP-1251)"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from groupd.coordinator.core.consumer_group.member import ConsumerGroupMember
from groupd.protocol.errors import ApiError, ErrorCode
from groupd.protocol.messages.offsets import CommitTopic

FIRST_CONSUMER_COMMIT_VERSION = 9
"""OffsetCommit versions below cannot carry the errors of the consumer protocol."""


def check_commit(
    member: ConsumerGroupMember,
    received_epoch: int,
    topics: Sequence[CommitTopic],
    *,
    api_version: int | None,
    skip_partition: Callable[[str, int], bool],
) -> None:
    """Rules 4-7 for a known member: a late commit passes while every partition has been with the
    member since the epoch it was sent at. `api_version` of OffsetCommit; None = transactional,
    where the caller translates the code for old versions. Raises ApiError."""
    too_old = api_version is not None and api_version < FIRST_CONSUMER_COMMIT_VERSION
    if too_old and member.classic is None:
        raise ApiError(
            ErrorCode.UNSUPPORTED_VERSION,
            "Members on the consumer protocol must commit with OffsetCommit v9 or later.",
        )
    if received_epoch == member.member_epoch:
        return
    if received_epoch > member.member_epoch:
        raise _stale(member, received_epoch)
    for topic in topics:
        assigned = member.assigned.get(topic.topic_id, {})
        pending = member.pending_revocation.get(topic.topic_id, {})
        for partition in topic.partitions:
            if skip_partition(topic.name, partition.partition):
                continue
            since = assigned.get(partition.partition, pending.get(partition.partition))
            if since is None or received_epoch < since:
                raise _stale(member, received_epoch)


def check_fetch(member: ConsumerGroupMember, received_epoch: int) -> None:
    """Any difference is stale: what was fetched must be what will be consumed from."""
    if received_epoch != member.member_epoch:
        raise _stale(member, received_epoch)


def _stale(member: ConsumerGroupMember, received: int) -> ApiError:
    code = ErrorCode.ILLEGAL_GENERATION if member.classic else ErrorCode.STALE_MEMBER_EPOCH
    return ApiError(
        code, f"Epoch {received} is stale: member {member.member_id} is at {member.member_epoch}."
    )
