"""The page of a group's partitions: who owns each one, what is committed there, and since when. The
page is made in steps."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

from groupd.coordinator.core.blocked import topic_name
from groupd.coordinator.core.group import Group
from groupd.coordinator.core.group_type import Position, Positions
from groupd.coordinator.core.group_types import type_of
from groupd.coordinator.core.metadata_image import MetadataImage
from groupd.coordinator.core.offsets.store import OffsetStore
from groupd.coordinator.core.slices import LISTED_MAX, Pace, Steps, smallest
from groupd.coordinator.core.state import ShardState
from groupd.coordinator.core.types import Instant
from groupd.protocol.messages import TopicPartition

_NOWHERE: Mapping[int, Position] = {}

Owners = dict[str, dict[int, Any]]
"""Members by topic name and partition."""

PositionsOf = Callable[[ShardState, OffsetStore, Group], Positions]
"""Returns where a group is, as far as that is known (`groupd.coordinator.lag.positions`)."""


def owned_places(
    group: Group, image: MetadataImage
) -> Iterator[tuple[Any, str, Collection[int]] | None]:
    """(member, topic name, partitions) of what the members own; a topic may come several times for
    a member. None is not an item but a point where other work may run."""
    owned_partitions = type_of(group).owned_partitions
    pace = Pace()
    for member_id in list(group.members):
        member = group.members.get(member_id)
        if member is None:
            continue  # the member has left meanwhile
        if pace.due():
            yield None
        for topic, numbers in owned_partitions(group, member_id):
            yield member, topic_name(topic, image), numbers
            if pace.due(1 + len(numbers)):
                yield None


def offsets_steps(
    state: ShardState,
    store: OffsetStore,
    group_id: str,
    positions_of: PositionsOf,
    now: Instant,
    after: TopicPartition | None = None,
    limit: int = LISTED_MAX,
) -> Steps[tuple[dict[str, Any], bool] | None]:
    """Returns the page, and whether more partitions follow; None if there is no such group.

    `partitions`: at most `limit` partitions that a member owns or that the group has a position in,
    sorted by topic and number, after the partition `after`; `members`: the members that own some of
    them.
    """
    group = state.groups.get(group_id)
    if group is None:
        return None
    owners = yield from _Owners(state, group, after, limit).steps()
    rows: list[dict[str, Any]] = []
    members: dict[str, dict[str, Any]] = {}
    more = False
    positions = positions_of(state, store, group)
    for place in _places(positions, owners, after):
        if place is None:
            yield
            continue
        if len(rows) == limit:
            more = True
            break
        topic, number = place
        owner = owners.get(topic, {}).get(number)
        in_transaction = store.is_pending(group_id, topic, number)
        row = _row(positions, place, owner, in_transaction=in_transaction)
        rows.append(row)
        if owner is not None:
            member = members.setdefault(owner.member_id, _member(owner))
            member["partitions"] += 1
            times = (member["last_commit_ms"], row["last_commit_ms"])
            member["last_commit_ms"] = max((one for one in times if one is not None), default=None)
    shown = {
        "group_id": group_id,
        "now_ms": now.wall_ms,
        "partitions": rows,
        "members": [members[member_id] for member_id in sorted(members)],
    }
    return shown, more


class _Owners:
    """Finds the owners of the partitions after `after`. It remembers those of the first `limit`
    partitions and not many more, however many the members own."""

    def __init__(
        self, state: ShardState, group: Group, after: TopicPartition | None, limit: int
    ) -> None:
        self._image = state.image
        self._group = group
        self._first = after[0] if after is not None else ""
        self._last: str | None = None
        """Topics after this one do not matter, because the page is full before them. None if there
        is no such topic yet."""
        self._limit = limit
        self._after = after
        self._found: Owners = {}
        self._count = 0
        self._count_max = 2 * limit

    def steps(self) -> Steps[Owners]:
        for owned in owned_places(self._group, self._image):
            if owned is None:
                yield
            else:
                member, topic, numbers = owned
                self._add(topic, numbers, member)
        return self._found

    def _add(self, topic: str, numbers: Any, member: Any) -> None:
        if topic < self._first or (self._last is not None and topic > self._last):
            return
        of_topic = self._found.setdefault(topic, {})
        self._count -= len(of_topic)
        of_topic.update(dict.fromkeys(numbers, member))
        self._count += len(of_topic)
        if self._count > self._count_max:
            self._forget()

    def _forget(self) -> None:
        """Forget the topics that are not needed for the page."""
        needed = self._limit + 1
        kept: Owners = {}
        for topic in sorted(self._found):
            if needed <= 0:
                break
            of_topic = kept[topic] = self._found[topic]
            self._last = topic
            needed -= len(_behind(of_topic, topic, self._after))
        else:
            self._last = None
        self._found = kept
        self._count = sum(map(len, kept.values()))
        self._count_max = max(2 * self._limit, 2 * self._count)


def _behind(numbers: Mapping[int, Any], topic: str, after: TopicPartition | None) -> list[int]:
    if after is None or topic != after[0]:
        return list(numbers)
    return [number for number in numbers if number > after[1]]


def _places(
    committed: Mapping[str, Mapping[int, Any]], owners: Owners, after: TopicPartition | None
) -> Iterator[TopicPartition | None]:
    """All partitions after `after`, in order. None is not an item but a point where other work may
    run."""
    topics = [*committed, *(topic for topic in owners if topic not in committed)]
    first = "" if after is None else after[0]
    pace = Pace()
    for topic in (yield from smallest(topics, LISTED_MAX + 2, lambda one: one >= first)):
        numbers = {**committed.get(topic, {}), **owners.get(topic, {})}
        if pace.due(1 + len(numbers)):
            yield None
        for number in sorted(_behind(numbers, topic, after)):
            yield topic, number
            if pace.due(8):
                yield None


def _row(
    positions: Positions, place: TopicPartition, owner: Any, *, in_transaction: bool
) -> dict[str, Any]:
    topic, number = place
    stored = positions.get(topic, _NOWHERE).get(number)
    return {
        "topic": topic,
        "partition": number,
        "committed_offset": None if stored is None else stored.offset,
        "last_commit_ms": None if stored is None else stored.commit_timestamp_ms,
        "in_transaction": in_transaction,
        "member_id": None if owner is None else owner.member_id,
        "client_id": None if owner is None else owner.client_id,
        "client_host": None if owner is None else owner.client_host,
    }


def _member(member: Any) -> dict[str, Any]:
    return {
        "member_id": member.member_id,
        "client_id": member.client_id,
        "client_host": member.client_host,
        "partitions": 0,
        "last_commit_ms": None,
    }
