"""Liveness: once all faults are over, every group settles and every partition has one owner."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from groupd.coordinator.core.classic_group.group import ClassicGroup
from groupd.coordinator.core.consumer_group.group import ConsumerGroup
from groupd.coordinator.runtime.shard_state import CoordinatorState
from groupd.protocol.messages.classic_group import JoinGroupRequest, SyncGroupRequest
from tests.simulator.client import Client

if TYPE_CHECKING:
    from tests.simulator.simulation import Simulation


def unsettled(simulation: Simulation) -> str:
    """Why the system has not converged yet; "" if it has."""
    process = simulation.process
    if process is None or not process.alive:
        return "the process is down"
    for runtime in process.broker.shards:
        if runtime.state is not CoordinatorState.ACTIVE:
            return f"shard {runtime.partition} is {runtime.state.value}"
    if process.broker.served.loading:
        return "the logs of shards are being opened"
    for group_id in simulation.group_ids:
        running = [one for one in simulation.clients if one.group_id == group_id and one.running]
        why = _unsettled_group(simulation, group_id, running) if running else ""
        if why:
            return f"{group_id}: {why}"
    return ""


def _unsettled_group(simulation: Simulation, group_id: str, running: list[Client]) -> str:
    assert simulation.process is not None
    group = simulation.process.group(group_id)
    if not isinstance(group, ConsumerGroup | ClassicGroup):
        return "no such group"
    if group.state_name() != "Stable":
        return f"state {group.state_name()}"
    expected = {client.member_id: client.name for client in running}
    if group.members.keys() != expected.keys():
        strangers = sorted(group.members.keys() - expected.keys())
        missing = sorted(expected[one] for one in expected.keys() - group.members.keys())
        return f"members {strangers} too many, {missing} missing"
    epoch = group.group_epoch if isinstance(group, ConsumerGroup) else group.generation
    for client in running:
        if client.settled_at() != epoch:
            return f"{client.name} is at {client.settled_at()}, the group at {epoch}"
    return _wrongly_owned(simulation, running)


def _wrongly_owned(simulation: Simulation, running: list[Client]) -> str:
    owners: dict[tuple[str, int], str] = {}
    wanted: set[tuple[str, int]] = set()
    for client in running:
        subscribed = _topics(simulation, client)
        wanted.update((name, n) for name, count in subscribed.items() for n in range(count))
        for first, number in client.owned:
            topic = client.topic_of(first)
            if topic is None or topic.name not in subscribed:
                return f"{client.name} owns what it does not subscribe to: {first!r}"
            other = owners.setdefault((topic.name, number), client.name)
            if other != client.name:
                return f"{topic.name}-{number} is owned by {other} and {client.name}"
    if owners.keys() != wanted:
        return f"partitions without owner: {sorted(wanted - owners.keys())}"
    return ""


def _topics(simulation: Simulation, client: Client) -> dict[str, int]:
    pattern = client.subscription.regex
    return {
        name: topic.partitions
        for name, topic in simulation.topics.image.by_name.items()
        if name in client.subscription.names or (pattern and re.fullmatch(pattern, name))
    }


def leaked(simulation: Simulation, older_than_ms: int) -> str:
    """Requests that nobody will answer although their client waits; "" if there are none. A Join
    or Sync goes unanswered, as in Kafka, when a late one of the same member takes its place."""
    late = {client.name for client in simulation.clients if client.tainted}
    for connection in simulation.network.connections:
        if connection.closed_ms is not None:
            continue
        for call in connection.waiting.values():
            age_ms = simulation.world.now_ms - call.sent_ms
            parks = isinstance(call.request, JoinGroupRequest | SyncGroupRequest)
            replaced = call.client in late and parks
            if age_ms > older_than_ms and not call.copy and not replaced:
                return f"a request of {call.client} waits for {age_ms} ms: {call.request}"
    return ""
