"""Runs an assignor of the coordinator over a group in the state that the log shows, and measures
how balanced an assignment is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import sqrt
from uuid import UUID

from msgspec import Struct

from groupd.coordinator.core.assignors.api import (
    Assignment,
    AssignorError,
    MemberSpec,
    PartitionAssignor,
    SubscriptionType,
)
from groupd.coordinator.core.assignors.spec import AssignmentSpec
from groupd.pipeline.fold.state import (
    CLASSIC,
    FoldedGroup,
    MemberInterval,
    OwnedPartition,
    TopicNames,
)

# Fewest moves -------------------------------------------------------------------------------

# The minimum is exact where all members have the same subscription. Of P partitions on N members
# each member gets P // N, and P % N members get one more. A member that owned c of the still
# existing partitions can keep min(c, P // N), and as many members as there are extra partitions can
# keep one more. Every partition that had an owner and that no member can keep must move. No
# balanced assignment moves fewer, and there is one that moves exactly as many. For mixed
# subscriptions there is no such formula; there the minimum is what the `uniform` assignor moves
# from the same start.


def minimal_moves(loads_before: Sequence[int], owned_before: int, partitions: int) -> int:
    """The fewest partitions that have to move. `loads_before`: for every present member the number
    of partitions that it owned before, 0 for new members. `owned_before`: the number of still
    existing partitions that had an owner, members that are gone included."""
    if not loads_before:
        return 0
    quota, extras = divmod(partitions, len(loads_before))
    kept = sum(min(load, quota) for load in loads_before)
    kept += min(extras, sum(load > quota for load in loads_before))
    return owned_before - kept


def deviation(loads: Sequence[int]) -> float:
    """The standard deviation of the numbers of partitions over all members; 0 without members."""
    if not loads:
        return 0.0
    mean = sum(loads) / len(loads)
    return sqrt(sum((load - mean) ** 2 for load in loads) / len(loads))


# Runs of an assignor ------------------------------------------------------------------------

# A run assigns the partitions of the recorded target. As long as there are members, that target has
# every partition of every subscribed topic. So a run follows the growth of topics without knowing
# their numbers of partitions.


class Universe(Struct, frozen=True):
    """A `TopicDescriber` for the topics of a recorded target, with the topic ids of the log."""

    counts: Mapping[bytes, int]
    names: Mapping[bytes, str | None]

    def num_partitions(self, topic_id: bytes) -> int:
        return self.counts.get(topic_id, -1)

    def name(self, topic_id: bytes) -> str | None:
        return self.names.get(topic_id)

    def racks(self, topic_id: bytes, partition: int) -> frozenset[str]:
        return frozenset()  # racks are not in the log


def universe_of(places: Iterable[OwnedPartition], protocol: str, topics: TopicNames) -> Universe:
    counts: dict[str, int] = {}
    for topic, partition in places:
        counts[topic] = max(counts.get(topic, 0), partition + 1)
    names = {one: one if protocol == CLASSIC else topics.name(one) for one in counts}
    raw = {one: _raw(one, protocol) for one in counts}
    return Universe(
        {raw[one]: counts[one] for one in sorted(counts)}, {raw[one]: names[one] for one in counts}
    )


def subscriptions(group: FoldedGroup, universe: Universe) -> dict[str, frozenset[bytes]]:
    """Topic ids by member. If a topic's name is not known, every member counts as its subscriber if
    all subscriptions are the same; else the members do to which the target gives partitions of
    it."""
    homogeneous = group.is_homogeneous()
    everything = frozenset(universe.counts)
    found: dict[str, frozenset[bytes]] = {}
    for member_id, member in group.members.items():
        if homogeneous:
            found[member_id] = everything
            continue
        names = group.subscription_of(member)
        targets = {topic for topic, _ in group.target_of.get(member_id, ())}
        own = {_raw(topic, group.protocol) for topic in targets}
        found[member_id] = frozenset(
            one
            for one, name in universe.names.items()
            if (name in names if name is not None else one in own)
        )
    return found


def assign(
    assignor: PartitionAssignor,
    group: FoldedGroup,
    prior: Mapping[str, Iterable[OwnedPartition]],
    universe: Universe,
) -> dict[str, set[OwnedPartition]]:
    """Runs the assignor; returns partitions by member id. `prior`: the partitions that each member
    has. Raises AssignorError, also if the assignor fails or assigns what it must not."""
    subscribed = subscriptions(group, universe)
    homogeneous = len(set(subscribed.values())) < 2 and group.is_homogeneous()
    specs = {
        member_id: _spec(group, group.members[member_id], subscribed[member_id], prior)
        for member_id in sorted(group.members)
    }
    kind = SubscriptionType.HOMOGENEOUS if homogeneous else SubscriptionType.HETEROGENEOUS
    try:
        given = assignor.assign(AssignmentSpec(specs, kind), universe)
        return _checked(given, specs, universe, group.protocol)
    except AssignorError:
        raise
    except Exception as error:  # a plug-in may raise anything; the result row shows it
        raise AssignorError(f"{type(error).__name__}: {error}") from error


def _spec(
    group: FoldedGroup,
    member: MemberInterval,
    topic_ids: frozenset[bytes],
    prior: Mapping[str, Iterable[OwnedPartition]],
) -> MemberSpec:
    assigned: dict[bytes, list[int]] = {}
    for topic, partition in sorted(prior.get(member.member_id, ())):
        assigned.setdefault(_raw(topic, group.protocol), []).append(partition)
    return MemberSpec(
        topic_ids,
        {topic: tuple(assigned[topic]) for topic in sorted(assigned)},
        member.instance_id,
        member.rack_id,
    )


def _checked(
    given: Mapping[str, Assignment],
    specs: Mapping[str, MemberSpec],
    universe: Universe,
    protocol: str,
) -> dict[str, set[OwnedPartition]]:
    taken: set[OwnedPartition] = set()
    targets: dict[str, set[OwnedPartition]] = {}
    for member_id in given.keys() - specs.keys():
        raise AssignorError(f"{member_id} is not a member of the group")
    for member_id, spec in specs.items():
        mine = targets[member_id] = set()
        for topic, partitions in given.get(member_id, {}).items():
            if topic not in spec.topic_ids:
                raise AssignorError(f"{member_id} got partitions it is not subscribed to")
            for partition in partitions:
                place = (_text(topic, protocol), partition)
                if place in taken or not 0 <= partition < universe.num_partitions(topic):
                    raise AssignorError(f"{member_id} got partition {partition} twice or for none")
                taken.add(place)
                mine.add(place)
    return targets


def _raw(topic: str, protocol: str) -> bytes:
    return topic.encode() if protocol == CLASSIC else UUID(topic).bytes


def _text(topic: bytes, protocol: str) -> str:
    return topic.decode() if protocol == CLASSIC else str(UUID(bytes=topic))
