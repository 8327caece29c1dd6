"""What people see of the share-partitions of a group: the console, the admin port, the harness."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

from msgspec import Struct

from groupd.coordinator.core.slices import Steps
from groupd.coordinator.share_partitions.in_flight import InFlightRange
from groupd.coordinator.share_partitions.leaders import ShareLeaders
from groupd.coordinator.share_partitions.share_partition import SharePartition
from groupd.protocol.messages import TopicId

RANGES_MAX = 1000


class SharePartitionView(Struct, frozen=True):
    """A share-partition as it is at its leader. `end_offset`: the last offset in flight; below
    `start_offset` if none is. `next_offset`: where its members read next. `finished`: how many
    records from the start offset on are over. `ranges`: the records in flight, from the first on,
    at most `RANGES_MAX`."""

    topic_id: TopicId
    partition: int
    start_offset: int
    end_offset: int
    next_offset: int
    finished: int
    lock_timeouts: int
    ranges: Sequence[InFlightRange]


def view_of(share: SharePartition) -> SharePartitionView | None:
    """What is known of a share-partition; None while it is not loaded."""
    records, partition = share.records, share.partition
    if records is None:
        return None
    return SharePartitionView(
        partition.topic_id,
        partition.partition,
        records.start_offset,
        records.start_offset + records.in_flight - 1,
        records.next_offset,
        records.delivery_complete_count,
        share.lock_timeouts,
        list(islice(records.ranges(), RANGES_MAX)),
    )


def share_partitions_of(leaders: ShareLeaders, group_id: str) -> Steps[list[SharePartitionView]]:
    """The share-partitions of a group that are loaded here, by topic and partition."""
    views: list[SharePartitionView] = []
    found = [
        (one.partition.topic_id, one.partition.partition) for one in leaders.of_group(group_id)
    ]
    for key in sorted(found):
        yield
        share = leaders.get(group_id, key)
        view = None if share is None else view_of(share)
        if view is not None:
            views.append(view)
    return views
