"""Administrators: they create, grow and delete topics, delete records, and change or delete the
offsets of groups and whole groups. Mostly they stop the members of a group before, and often they
start them again, or ask for the next thing, before there is an answer."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from groupd.coordinator.topics.topic import bucket_of, log_name
from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages.data import DeleteRecordsRequest, DeleteRecordsTopic
from groupd.protocol.messages.groups import DeleteGroupsRequest
from groupd.protocol.messages.share_group import (
    AlteredShareTopic,
    AlterShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequest,
)
from groupd.protocol.messages.topics import (
    CreatePartitionsRequest,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    GrownTopic,
    NewTopic,
)
from tests.simulator.shares.node import VERSIONS

if TYPE_CHECKING:
    from tests.simulator.shares.member import ShareMemberClient
    from tests.simulator.shares.simulation import ShareSimulation

PARTITIONS_MAX = 4
REFUSALS_MAX = 10
RETRY_MS = 500


class Administrators:
    def __init__(self, simulation: ShareSimulation) -> None:
        world = self._world = simulation.world
        self._simulation = simulation
        self._topics_every_ms = world.random.choice([0, 2000, 8000])
        self._groups_every_ms = world.random.choice([0, 2000, 6000])
        self._emptied: set[str] = set()

    def begin(self) -> None:
        for every_ms, run in (
            (self._topics_every_ms, self._change_topics),
            (self._groups_every_ms, self._change_group),
        ):
            if every_ms:
                self._world.after(self._world.between(0, 2 * every_ms), self._again, every_ms, run)

    def may_start(self, group_id: str) -> bool:
        """Whether members of a group may start."""
        return group_id not in self._emptied or self._simulation.faults.healed

    def _again(self, every_ms: int, run: Callable[[], None]) -> None:
        if not self._simulation.faults.healed:
            self._world.after(self._world.between(1, 2 * every_ms), self._again, every_ms, run)
            run()

    def _ask(
        self, node_id: int | None, request: Any, then: Callable[[Any], None] = lambda reply: None
    ) -> None:
        connection = self._simulation.connect(node_id, "administrator")
        if connection is not None:
            version = VERSIONS[type(request)]
            self._simulation.network.send(connection, request, version, then)

    # Topics and records

    def _change_topics(self) -> None:
        simulation, world = self._simulation, self._world
        name = world.random.choice(simulation.topic_names)
        topic = next((one for one in simulation.store.topics() if one.name == name), None)
        node_id = world.random.choice(simulation.node_ids)
        what = world.random.choice(["grow", "delete", "records", "records"])
        if topic is None:
            self._ask(node_id, CreateTopicsRequest((NewTopic(name, world.between(1, 2)),)))
        elif what == "delete":
            self._ask(node_id, DeleteTopicsRequest(((None, topic.topic_id),)))
        elif what == "grow":
            more = min(topic.partitions + world.between(1, 2), PARTITIONS_MAX)
            self._ask(node_id, CreatePartitionsRequest((GrownTopic(name, more),)))
        else:
            partition = world.between(0, topic.partitions - 1)
            _, end = simulation.store.end_of(log_name(topic.topic_id, partition))
            offset = world.random.choice([-1, world.between(0, end)])
            leader = simulation.leader_of(bucket_of(topic.topic_id, partition))
            below = DeleteRecordsTopic(name, ((partition, offset),))
            self._ask(leader, DeleteRecordsRequest((below,)))

    # Groups

    def _change_group(self) -> None:
        world = self._world
        group_id = world.random.choice(self._simulation.group_ids)
        if group_id in self._emptied or world.chance(0.2):
            self._operate(group_id, REFUSALS_MAX)
            return
        self._emptied.add(group_id)
        for member in self._members(group_id):
            if member.running:
                member.die() if world.chance(0.2) else member.leave()
        world.after(world.between(0, 1500), self._operate, group_id, 0)
        if world.chance(0.3):
            world.after(world.between(0, 4000), self._operate, group_id, 0)
        # The answer may be lost, or come later than the members.
        patience_ms = world.random.choice([3000, 15_000])
        world.after(world.between(1000, patience_ms), self._release, group_id)

    def _members(self, group_id: str) -> list[ShareMemberClient]:
        return [one for one in self._simulation.members if one.group_id == group_id]

    def _operate(self, group_id: str, refused: int) -> None:
        """Ask for something of a group, which may not be empty yet. `refused`: how often it was."""
        world = self._world
        if self._simulation.faults.healed:
            return

        def answered(reply: Any) -> None:
            error = reply.results[0].error if hasattr(reply, "results") else reply.error
            if error is ErrorCode.NON_EMPTY_GROUP and refused < REFUSALS_MAX:
                world.after(RETRY_MS, self._operate, group_id, refused + 1)
            elif error is not ErrorCode.NON_EMPTY_GROUP:
                world.after(world.between(0, 500), self._release, group_id)

        request = self._request(group_id)
        if isinstance(request, DeleteGroupsRequest) and self._simulation.in_use(group_id):
            # As in Kafka a leader of this group would go on with its state until a write of it is
            # refused, also for members of the next group of the name.
            world.after(RETRY_MS, self._operate, group_id, refused)
            return
        self._ask(self._simulation.coordinator_of(group_id), request, answered)

    def _request(self, group_id: str) -> Any:
        simulation, world = self._simulation, self._world
        kind = world.random.choice(["alter", "alter", "offsets", "group"])
        if kind == "group":
            return DeleteGroupsRequest((group_id,))
        topics = [one for one in simulation.store.topics() if world.chance(0.8)]
        if kind == "offsets":
            return DeleteShareGroupOffsetsRequest(group_id, tuple(one.name for one in topics))
        altered = []
        for topic in topics:
            ends = [
                simulation.store.end_of(log_name(topic.topic_id, one))[1]
                for one in range(topic.partitions)
            ]
            offsets = tuple(
                (one, world.between(0, end)) for one, end in enumerate(ends) if world.chance(0.8)
            )
            altered.append(AlteredShareTopic(topic.name, offsets))
        return AlterShareGroupOffsetsRequest(group_id, tuple(altered))

    def _release(self, group_id: str) -> None:
        """The members of a group start again."""
        if group_id in self._emptied:
            self._emptied.discard(group_id)
            for member in self._members(group_id):
                self._world.after(self._world.between(0, 1000), self._start, member)

    def _start(self, member: ShareMemberClient) -> None:
        if not member.running:
            member.start()
