"""What the members of a group told, put in order by the monotonic clock that they share, and the
faults that a test must not find in it."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

from tests.clients.group import Group, Move, Partition, Told


@dataclass
class Timeline:
    """Everything that was told, in order of time."""

    moves: list[Move] = field(default_factory=list)
    polled: list[Told] = field(default_factory=list)
    committed: list[Told] = field(default_factory=list)

    @classmethod
    def of(cls, group: Group) -> Timeline:
        """What the group has told so far."""
        return cls(list(group.moves), list(group.polled), list(group.committed))

    def double_owners(self, since: float = 0.0) -> list[str]:
        """Every moment from `since` on at which a partition was given to somebody while another one
        had it.

        A consumer that closes may give back partitions that it was about to be told of. Twenty
        consumers that start at once are no case for the judge: librdkafka may report that it owns
        nothing while its first assignment still waits for metadata, which is taken for a revocation
        (as in Kafka), and for some milliseconds the callbacks overlap.
        """
        holder: dict[Partition, Move] = {}
        faults = []
        for move in sorted(self.moves, key=lambda one: one.at):
            for partition in move.partitions:
                other = holder.get(partition)
                if move.kind == "assigned":
                    if other is not None and move.at >= since:
                        faults.append(f"{partition}: {other} and {move}")
                    holder[partition] = move
                elif other is not None and other.member == move.member:
                    del holder[partition]
                elif other is not None and move.at >= since:
                    faults.append(f"{partition}: {move} while {other} had it")
        return faults

    def strangers(self) -> list[str]:
        """Records that a member was given of a partition that it did not have just then."""
        has: set[tuple[int, Partition]] = set()
        faults = []
        steps: list[Move | Told] = [*self.moves, *self.polled]
        for step in sorted(steps, key=lambda one: one.at):
            if isinstance(step, Told):
                faults += [
                    f"{place} at {step.at} to {step.member}"
                    for place in step.places
                    if (step.member, place[:2]) not in has
                ]
            elif step.kind == "assigned":
                has.update((step.member, partition) for partition in step.partitions)
            else:
                has.difference_update((step.member, partition) for partition in step.partitions)
        return faults

    def rewinds(self) -> list[str]:
        """Records that a member was given although it knew that offsets beyond them were
        committed."""
        committed: dict[Partition, int] = defaultdict(int)
        faults = []
        steps = [(told.at, 0, told) for told in self.committed]
        steps += [(told.at, 1, told) for told in self.polled]
        for _, kind, told in sorted(steps, key=lambda one: one[:2]):
            for topic, number, offset in told.places:
                known = committed[(topic, number)]
                if kind == 0:
                    committed[(topic, number)] = max(offset, known)
                elif offset < known:
                    faults.append(f"{topic} {number} {offset} to {told.member}, committed {known}")
        return faults

    def longest_pause_s(self, since: float, until: float) -> dict[Partition, float]:
        """The longest time between two polls that gave records of a partition, by partition."""
        last: dict[Partition, float] = {}
        longest: dict[Partition, float] = {}
        every = {place[:2] for told in self.polled for place in told.places}
        for told in sorted(self.polled, key=lambda one: one.at):
            if since <= told.at <= until:
                for partition in {place[:2] for place in told.places}:
                    pause = told.at - last.get(partition, since)
                    longest[partition] = max(pause, longest.get(partition, 0.0))
                    last[partition] = told.at
        return {
            partition: max(longest.get(partition, 0.0), until - last.get(partition, since))
            for partition in every
        }
