"""How many groups there are, by state: the one metric that needs a walk over all groups, which is
done in slices before a scrape, not in it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator

from groupd.coordinator.core.slices import chunks
from groupd.coordinator.runtime.broker import Broker

AT_ONCE = 500


class GroupCounts:
    """`by_state`: (group type, state) -> groups."""

    __slots__ = ("by_state", "offsets")

    def __init__(self) -> None:
        self.by_state: Counter[tuple[str, str]] = Counter()
        self.offsets = 0


def count_steps(broker: Broker) -> Generator[None, None, GroupCounts]:
    """Stops after every few hundred groups. A group counts once, with the state it has when it is
    come to; with one of those that go meanwhile that is the last one it had."""
    counts = GroupCounts()
    for shard in broker.shards:
        counts.offsets += shard.shard.offset_count()
        for groups in chunks(list(shard.shard.state.groups.values()), AT_ONCE):
            counts.by_state.update((group.type_name, group.state_name()) for group in groups)
            if len(groups) == AT_ONCE:
                yield
        yield
    return counts
