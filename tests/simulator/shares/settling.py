"""What is left to do in a simulation of share groups until everything is delivered and over."""

from __future__ import annotations

from typing import TYPE_CHECKING

from groupd.coordinator.topics.topic import bucket_of, log_name
from tests.simulator.shares.states import Place, name_of

if TYPE_CHECKING:
    from tests.simulator.shares.simulation import ShareSimulation

ANSWER_MS = 30_000
"""How long a request may wait once the faults are over."""


def log_ends(simulation: ShareSimulation) -> dict[Place, tuple[int, int]]:
    """Start and end of the log of each share-partition that a group subscribes to."""
    found: dict[Place, tuple[int, int]] = {}
    for group_id in simulation.group_ids:
        names = {
            name
            for member in simulation.members
            if member.group_id == group_id
            for name in member.topics
        }
        for topic in simulation.store.topics():
            for partition in range(topic.partitions) if topic.name in names else ():
                ends = simulation.store.end_of(log_name(topic.topic_id, partition))
                found[group_id, topic.topic_id, partition] = ends
    return found


def unsettled(simulation: ShareSimulation) -> str:
    """Why not everything that was produced is delivered and over; "" if it is."""
    for node_id in simulation.node_ids:
        node = simulation.nodes.get(node_id)
        if node is None or not node.serving:
            return f"node {node_id} does not run"
        if (why := node.parts.not_ready()) is not None:
            return f"node {node_id}: {why}"
    if why := simulation.network.unanswered(simulation.world.now_ms - ANSWER_MS):
        return why
    whys = [_unread(simulation, place, *ends) for place, ends in log_ends(simulation).items()]
    # First what has no state or no leader: it may be the reason of all others.
    return next(filter(None, sorted(whys, key=lambda why: "its end" in why)), "")


def _unread(simulation: ShareSimulation, place: Place, start: int, end: int) -> str:
    """Why not everything between these offsets is delivered and over; "" if it is."""
    group_id, topic_id, partition = place
    name = name_of(place)
    leading = [
        one for one in simulation.nodes.values() if one.serves(bucket_of(topic_id, partition))
    ]
    if not leading:
        return f"nobody leads {name}"
    if start == end:
        return ""
    leaders = leading[0].parts.share_partitions.leaders
    share = leaders.get(group_id, (topic_id, partition))
    if share is None or share.records is None:
        return f"{name} is not read at node {leading[0].node_id}"
    if simulation.ledger.is_behind(share, place):
        # It learns of the new state when a write is refused (SG-106).
        simulation.produce_to(topic_id, partition)
        return f"{name} goes on with an old state at node {leading[0].node_id}"
    if share.records.start_offset != end:
        return f"{name} starts at {share.records.start_offset}, its end is {end}"
    return ""
