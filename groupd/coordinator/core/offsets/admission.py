"""Which groups have committed offsets, and the question to a group before offsets are committed
(docs/spec/offsets-and-log.md#3)."""

from __future__ import annotations

from collections.abc import Set

from groupd.coordinator.core.group import Group, OffsetOwner
from groupd.protocol.errors import ApiError, ErrorCode
from groupd.protocol.messages.offsets import OffsetCommitRequest, TxnOffsetCommitRequest


def owner_of(group: Group | None) -> OffsetOwner:
    """The group as owner of committed offsets. Raises GROUP_ID_NOT_FOUND if there is no group, or
    its type has no committed offsets."""
    owner = None if group is None else group.offset_owner
    if owner is None:
        raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND)
    return owner


def check_group(
    group: OffsetOwner,
    request: OffsetCommitRequest | TxnOffsetCommitRequest,
    api_version: int,
    too_long: Set[tuple[str, int]],
    *,
    transactional: bool,
) -> None:
    """Raises ApiError. `too_long`: (topic, partition) of entries that are refused on their own, for
    metadata that is too long."""
    group.check_offset_commit(
        request.member_id,
        request.group_instance_id,
        request.generation_or_epoch,
        request.topics,
        api_version=api_version,
        transactional=transactional,
        skip_partition=lambda topic, partition: (topic, partition) in too_long,
    )
