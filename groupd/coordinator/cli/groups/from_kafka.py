"""Describes the groups of any Kafka cluster, in the same form as an admin port does.

Facts that Kafka does not tell are None or absent: ages of records, judgements, rebalances, and what
a group waits for.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct

from groupd.coordinator.cli.command_errors import fail, note
from groupd.coordinator.cli.groups.share import SHARE
from groupd.coordinator.cli.kafka import calls
from groupd.coordinator.cli.kafka.calls import (
    FoundGroup,
    KafkaGroup,
    KafkaMember,
    describe_groups,
    list_groups,
)
from groupd.coordinator.cli.kafka.cluster import KafkaCluster
from groupd.coordinator.cli.kafka.connection import BlockingConnection, KafkaError
from groupd.coordinator.core.slices import run_through
from groupd.coordinator.lag.rows import add_lag
from groupd.coordinator.moves.plan import Current, Ranges
from groupd.protocol.messages import TopicPartition


class _Found(Struct, frozen=True):
    """A group as its coordinator describes it. `described` None: groups of this type are not
    described here. A share group has start offsets in place of committed offsets, and `lags`: the
    lag of each partition as its broker counts it, which leaves out finished records; None: not
    known."""

    listed: FoundGroup
    described: KafkaGroup | None
    committed: Mapping[TopicPartition, Current]
    lags: Mapping[TopicPartition, int | None] = {}

    @property
    def members(self) -> tuple[KafkaMember, ...]:
        return () if self.described is None else self.described.members

    @property
    def owners(self) -> dict[TopicPartition, KafkaMember | None]:
        """The member that has a partition; None if several members of a share group have it."""
        found: dict[TopicPartition, KafkaMember | None] = {}
        for member in self.members:
            for topic, numbers in member.owned.items():
                for number in numbers:
                    place = topic, number
                    found[place] = None if place in found else member
        return found

    @property
    def type_name(self) -> str | None:
        described = None if self.described is None else self.described.group_type
        return self.listed.group_type or described


def group_rows(cluster: KafkaCluster, *, lag: bool) -> list[dict[str, Any]]:
    """Returns a row for each group of all brokers. `lag`: rows have `members` and `lag`, too. If a
    broker does not answer, or a group may not be described, a line is printed on stderr."""
    rows: list[dict[str, Any]] = []
    found: list[_Found] = []
    for node_id, address in sorted(cluster.brokers().items()):
        try:
            broker = cluster.at(address)
            listed = list_groups(broker)
            if lag:
                found += _all_found(broker, listed)
        except KafkaError as error:
            note(f"broker {node_id} is not asked: {error}")
            continue
        if not lag:
            rows += [_row(one, one.group_type) for one in listed.values()]
    bounds = cluster.bounds({place for one in found for place in _places(one)})
    return rows + [
        {
            **_row(one.listed, one.type_name),
            "members": None if one.described is None else len(one.members),
            "lag": _total(_offsets(one, bounds, 0)["partitions"]),
        }
        for one in found
    ]


def group_page(
    cluster: KafkaCluster, group_id: str, now_ms: int
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Returns the group, and its offsets. Without such a group the command ends with exit code
    1."""
    coordinator = cluster.coordinator(group_id)
    listed = list_groups(coordinator).get(group_id)
    if listed is None:
        fail(f"no group {group_id}")
    (found,) = _all_found(coordinator, {group_id: listed})
    described = found.described
    facts: dict[str, Any] = _row(listed, found.type_name)
    if described is not None:
        facts |= {
            "group_epoch": described.group_epoch,
            "assignment_epoch": described.assignment_epoch,
            "protocol_type": listed.protocol_type,
            "protocol_name": described.assignor,
        }
    shown = {**facts, "members": [_member(one) for one in found.members]}
    return shown, _offsets(found, cluster.bounds(_places(found)), now_ms)


def _all_found(broker: BlockingConnection, listed: Mapping[str, FoundGroup]) -> Iterator[_Found]:
    described = describe_groups(broker, list(listed.values()))
    for one in listed.values():
        committed: Mapping[TopicPartition, Current] = {}
        lags: Mapping[TopicPartition, int | None] = {}
        try:
            if one.group_type == SHARE:
                found = calls.share_offsets(broker, one.group_id)
                committed = {
                    at: Current(it.start_offset, it.leader_epoch) for at, it in found.items()
                }
                lags = {at: it.lag if it.lag >= 0 else None for at, it in found.items()}
            else:
                committed = calls.fetch_offsets(broker, one.group_id)
        except KafkaError as error:
            note(str(error))
        yield _Found(one, described.get(one.group_id), committed, lags)


def _places(found: _Found) -> list[TopicPartition]:
    return sorted({*found.committed, *found.owners})


def _row(listed: FoundGroup, type_name: str | None) -> dict[str, Any]:
    return {"group_id": listed.group_id, "type": type_name, "state": listed.state}


def _offsets(found: _Found, bounds: Ranges, now_ms: int) -> dict[str, Any]:
    owners = found.owners
    partitions = [
        _partition(place, found.committed.get(place), owners.get(place)) for place in _places(found)
    ]
    shown = {
        "group_id": found.listed.group_id,
        "now_ms": now_ms,
        "partitions": partitions,
        "members": [
            {
                **_identity(member),
                "partitions": sum(map(len, member.owned.values())),
                "last_commit_ms": None,
            }
            for member in found.members
        ],
    }
    for row in partitions:
        at = row["topic"], row["partition"]
        if at in found.lags:
            row["end_offset"] = bounds[at][1] if at in bounds else None
            row["lag"] = found.lags[at]
    run_through(add_lag(shown, lambda *at: None if at in found.lags else bounds.get(at)))
    return shown


def _partition(
    place: TopicPartition, committed: Current | None, owner: KafkaMember | None
) -> dict[str, Any]:
    topic, number = place
    return {
        "topic": topic,
        "partition": number,
        "committed_offset": None if committed is None else committed.offset,
        "last_commit_ms": None,
        "in_transaction": False,
        **_identity(owner),
    }


def _member(member: KafkaMember) -> dict[str, Any]:
    return {
        **_identity(member),
        "instance_id": member.instance_id,
        "member_epoch": member.epoch,
        "owned": {topic: sorted(numbers) for topic, numbers in sorted(member.owned.items())},
    }


def _identity(member: KafkaMember | None) -> dict[str, str | None]:
    return {
        "member_id": None if member is None else member.member_id,
        "client_id": None if member is None else member.client_id,
        "client_host": None if member is None else member.client_host,
    }


def _total(rows: list[dict[str, Any]]) -> int | None:
    known = [row["lag"] for row in rows if row["lag"] is not None]
    return sum(known) if known else None
