"""The question to a group before its offsets are committed
(docs/spec/offsets-and-log.md#3.1 and #3.4)."""

from __future__ import annotations

from collections.abc import Set

from groupd.coordinator.core.group import Group
from groupd.protocol.messages.offsets import OffsetCommitRequest, TxnOffsetCommitRequest


def check_group(
    group: Group,
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
