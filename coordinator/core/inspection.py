"""What an operator sees of a group, and why it waits: plain JSON-friendly data, read only.

It shows the latest state, which may be ahead of what is durable by the writes that are under way.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Any

from groupd.coordinator.core.group_types import type_of
from groupd.coordinator.core.offsets.store import OffsetStore
from groupd.coordinator.core.state import ShardState
from groupd.coordinator.core.types import Instant
from groupd.coordinator.core.waiting import Wait, topic_name, wait

LONG_MEMBERS = 50

PARTITIONS_MAX = 10_000
"""More partitions of one group are not shown."""


def list_group_summaries(state: ShardState) -> list[dict[str, Any]]:
    """Id, type and state of every group, by id."""
    return [
        {"group_id": group_id, "type": group.type_name, "state": group.state_name()}
        for group_id, group in sorted(state.groups.items())
    ]


def is_long(state: ShardState, group_id: str) -> bool:
    """Whether there is much to show of the group."""
    group = state.groups.get(group_id)
    return group is not None and len(group.members) > LONG_MEMBERS


def inspect_group(state: ShardState, group_id: str, now: Instant) -> dict[str, Any] | None:
    """`inspect_group_lazily`, with lists."""
    shown = inspect_group_lazily(state, group_id, now)
    return None if shown is None else with_lists(shown)


def with_lists(shown: dict[str, Any]) -> dict[str, Any]:
    """Its iterators as lists, without stops."""
    return {
        name: [item for item in value if item is not None] if isinstance(value, Iterator) else value
        for name, value in shown.items()
    }


def inspect_group_lazily(state: ShardState, group_id: str, now: Instant) -> dict[str, Any] | None:
    """None when there is no such group. `deadlines`: what runs, and in how many ms. What may be
    long is an iterator, where None is a stop and no item."""
    group = state.groups.get(group_id)
    if group is None:
        return None
    group_type = type_of(group)
    return {
        "group_id": group_id,
        "type": group.type_name,
        "state": group.state_name(),
        **group_type.inspect(state, group, now),
        "config_overrides": dict(sorted(state.group_configs.get(group_id, {}).items())),
        "deadlines": chain(_timers(state, group_id, now), group_type.awaited(state, group, now)),
    }


def _timers(state: ShardState, group_id: str, now: Instant) -> Iterator[dict[str, Any]]:
    for (kind, _, member_id), due in state.deadlines.of_group(group_id):
        yield {"kind": kind, "member_id": member_id, "in_ms": due - now.monotonic_ms}


def open_transactions(store: OffsetStore, group_id: str) -> Iterator[Wait]:
    """One entry for each producer whose open transaction holds offsets of the group. OffsetFetch
    with `require_stable` waits for these."""
    by_producer: dict[int, list[tuple[str, int]]] = {}
    for place, producers in store.pending(group_id).items():
        for producer_id in producers:
            by_producer.setdefault(producer_id, []).append(place)
    for producer_id, places in sorted(by_producer.items()):
        topic, partition = min(places)
        more = f" and {len(places) - 1} more" if len(places) > 1 else ""
        yield wait(
            f"offsets of {topic}-{partition}{more} wait for the end of the transaction of "
            f"producer {producer_id}"
        )


def inspect_offsets(
    state: ShardState,
    store: OffsetStore,
    group_id: str,
    owned_since: Mapping[str, int],
    now: Instant,
) -> dict[str, Any] | None:
    """Who owns each partition of a group, what is committed there, and since when.

    None when there is no such group. `partitions`: all that a member owns or that an offset is
    committed for, by topic and number; `members`: those that own some. `owned_since`: member id ->
    wall ms of the last time it was given partitions, as far as that is known."""
    group = state.groups.get(group_id)
    if group is None:
        return None
    places_of = type_of(group).places
    owners = {
        (topic_name(topic, state.image), partition): member
        for member_id, member in group.members.items()
        for topic, partition in places_of(group, member_id)
    }
    committed = store.topics(group_id)
    places = {(topic, number) for topic, numbers in committed.items() for number in numbers}
    shown = sorted(places | owners.keys())[:PARTITIONS_MAX]
    partitions = []
    members: dict[str, dict[str, Any]] = {}
    for topic, number in shown:
        owner = owners.get((topic, number))
        stored = store.get(group_id, topic, number)
        commit_ms = None if stored is None else stored.commit_timestamp_ms
        partitions.append(
            {
                "topic": topic,
                "partition": number,
                "committed_offset": None if stored is None else stored.offset,
                "last_commit_ms": commit_ms,
                "in_transaction": store.is_pending(group_id, topic, number),
                "member_id": None if owner is None else owner.member_id,
                "client_id": None if owner is None else owner.client_id,
                "client_host": None if owner is None else owner.client_host,
            }
        )
        if owner is not None:
            member = members.setdefault(owner.member_id, _member(owner, owned_since))
            member["partitions"] += 1
            member["last_commit_ms"] = max(
                (one for one in (member["last_commit_ms"], commit_ms) if one is not None),
                default=None,
            )
    return {
        "group_id": group_id,
        "now_ms": now.wall_ms,
        "partitions": partitions,
        "members": [members[member_id] for member_id in sorted(members)],
        "left_out": len(places | owners.keys()) - len(shown),
    }


def _member(member: Any, owned_since: Mapping[str, int]) -> dict[str, Any]:
    return {
        "member_id": member.member_id,
        "client_id": member.client_id,
        "client_host": member.client_host,
        "partitions": 0,
        "last_commit_ms": None,
        "owned_since_ms": owned_since.get(member.member_id),
    }
