"""A member of a share group, as a client library makes it: heartbeats to the group's coordinator,
and a session with each node that leads partitions of its assignment.

What it has acquired it accepts, releases, rejects or renews after a while, together or one by one;
some of it it forgets, and some it acknowledges long after its locks are over.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field

from groupd.coordinator.topics.topic import bucket_of
from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages import TopicId
from groupd.protocol.messages.share_fetch import (
    ACCEPT,
    BATCH_OPTIMIZED,
    GAP,
    RECORD_LIMIT,
    REJECT,
    RELEASE,
    RENEW,
    AcknowledgedPartition,
    AcknowledgedTopic,
    AcknowledgementBatch,
    AcquiredRecords,
    ForgottenShareTopic,
    ShareAcknowledgeReply,
    ShareAcknowledgeRequest,
    ShareFetchReply,
    ShareFetchRequest,
)
from groupd.protocol.messages.share_group import (
    ShareGroupHeartbeatReply,
    ShareGroupHeartbeatRequest,
)
from tests.simulator.shares.network import ClientConnection

if TYPE_CHECKING:
    from tests.simulator.shares.simulation import ShareSimulation

RETRY_MS = 200
TIMEOUT_MS = 4000
IDLE_MS = 300

Partition = tuple[TopicId, int]


class Link(Struct, eq=False):
    """What a member has to do with one node. `epoch`: of its next request; 0: it has no session.
    `known`: the partitions of the session. `ready`: acknowledgements that were not sent yet."""

    node_id: int
    connection: ClientConnection | None = None
    epoch: int = 0
    busy: bool = False
    known: set[Partition] = field(default_factory=set)
    ready: list[tuple[Partition, AcknowledgementBatch]] = field(default_factory=list)
    renewals: list[tuple[Partition, AcknowledgementBatch]] = field(default_factory=list)


class ShareMemberClient:
    def __init__(
        self, simulation: ShareSimulation, name: str, group_id: str, topics: tuple[str, ...]
    ) -> None:
        self.name = name
        self.group_id = group_id
        self.running = self.frozen = False
        self.member_id = ""
        self.assigned: frozenset[Partition] = frozenset()
        self._simulation = simulation
        self._world = simulation.world
        self.topics = topics
        self._life = 0
        self._left = False
        self.in_group_until_ms = -1
        """Until then it is a member for sure, if it does not leave."""
        self._epoch = 0
        self._names_told = False
        self._links: dict[int, Link] = {}
        self._coordinator: ClientConnection | None = None

    # Life

    def start(self) -> None:
        """Begin a life, often under the member id of the last one if that has not left."""
        if not self._simulation.administrators.may_start(self.group_id):
            return
        self._life += 1
        self.running, self.frozen = True, False
        if not self.member_id or self._left or self._world.chance(0.6):
            self.member_id = f"{self.name}.{self._life}"
        self._world.trace("start", self.name, self.member_id)
        self.assigned = frozenset()
        self._epoch = 0
        self._left = False
        self._later(0, self._heartbeat)

    def die(self) -> None:
        """The process is killed."""
        self._world.trace("die", self.name)
        self.running = False
        for link in self._links.values():
            self._hang_up(link)
        self._links = {}
        if self._coordinator is not None:
            self._simulation.network.close(self._coordinator)
            self._coordinator = None

    def leave(self) -> None:
        """End in order: the sessions first, then the group. Nobody waits for the answers."""
        self._world.trace("leave", self.name)
        for link in self._links.values():
            if link.connection is not None and link.epoch and not link.busy:
                link.epoch = -1
                self._acknowledge(link)
        self._left, self.in_group_until_ms = True, -1
        self._send_heartbeat(-1)
        self._world.after(2 * RETRY_MS, self._die_in, self._life)

    def _die_in(self, life: int) -> None:
        if self._life == life and self.running:
            self.die()
            if self._simulation.faults.healed:
                self.start()

    def freeze(self, for_ms: int) -> None:
        self._world.trace("freeze", self.name, for_ms)
        self.frozen = True
        self._world.after(for_ms, self._thaw, self._life)

    def _thaw(self, life: int) -> None:
        if self._life == life:
            self.frozen = False

    def reconnect(self) -> None:
        """Lose the connection to one node, and what was acquired on it."""
        if self._links:
            link = self._world.random.choice(list(self._links.values()))
            self._world.trace("reconnect", self.name, link.node_id)
            self._hang_up(link)

    def _later(self, delay_ms: int, run: Callable[..., None], *arguments: Any) -> None:
        self._world.after(delay_ms, self._if_alive, self._life, run, arguments)

    def _if_alive(self, life: int, run: Callable[..., None], arguments: tuple[Any, ...]) -> None:
        if self._life != life or not self.running:
            return
        if self.frozen:
            self._world.after(RETRY_MS, self._if_alive, life, run, arguments)
        else:
            run(*arguments)

    def _ask(
        self,
        connection: ClientConnection,
        request: Any,
        version: int,
        on_reply: Callable[[Any], None],
    ) -> None:
        """Send a request. `on_reply(None)`: there is no answer in time."""
        answered: list[bool] = []

        def reply(message: Any) -> None:
            if not answered:
                answered.append(True)
                self._later(0, on_reply, message)

        self._simulation.network.send(connection, request, version, reply)
        self._later(TIMEOUT_MS, reply, None)

    # Heartbeats

    def _heartbeat(self) -> None:
        self._send_heartbeat(self._epoch)

    def _send_heartbeat(self, epoch: int) -> None:
        node_id = self._simulation.coordinator_of(self.group_id)
        connection = self._coordinator
        if connection is None or connection.closed or connection.node.node_id != node_id:
            if connection is not None:
                self._simulation.network.close(connection)
            connection = self._coordinator = self._simulation.connect(node_id, self.name)
        if connection is None:
            self._later(RETRY_MS, self._heartbeat)
            return
        names = None if self._names_told and epoch else self.topics
        request = ShareGroupHeartbeatRequest(
            self.group_id, self.member_id, epoch, subscribed_topic_names=names
        )
        sent_ms = self._world.now_ms
        self._ask(connection, request, 1, lambda reply: self._on_heartbeat(reply, sent_ms))

    def _on_heartbeat(self, reply: ShareGroupHeartbeatReply | None, sent_ms: int) -> None:
        if reply is None:
            if self._coordinator is not None:
                self._simulation.network.close(self._coordinator)
                self._coordinator = None
            self._names_told = False
            self._later(RETRY_MS, self._heartbeat)
            return
        if reply.error is ErrorCode.NONE:
            if reply.member_epoch < 0:
                return
            self._epoch = reply.member_epoch
            self._names_told = True
            if not self._left:
                self.in_group_until_ms = sent_ms + self._simulation.session_ms
            if reply.assignment is not None:
                self.assigned = frozenset(
                    (topic.topic_id, one) for topic in reply.assignment for one in topic.partitions
                )
            self._pump()
            self._later(reply.heartbeat_interval_ms, self._heartbeat)
            return
        if reply.error in (
            ErrorCode.UNKNOWN_MEMBER_ID,
            ErrorCode.FENCED_MEMBER_EPOCH,
            ErrorCode.GROUP_ID_NOT_FOUND,
        ):
            self._epoch, self.in_group_until_ms = 0, -1
            self.assigned = frozenset()
        self._names_told = False
        self._later(RETRY_MS, self._heartbeat)

    # Sessions

    def _pump(self) -> None:
        """See to it that each leader of assigned partitions is asked."""
        for node_id in sorted({*self._leaders(), *self._links}):
            link = self._links.setdefault(node_id, Link(node_id))
            if not link.busy:
                link.busy = True
                self._later(0, self._next, link)

    def _leaders(self) -> set[int]:
        found = {self._simulation.leader_of(bucket_of(*place)) for place in sorted(self.assigned)}
        return {node_id for node_id in found if node_id is not None}

    def _wanted(self, link: Link) -> set[Partition]:
        leader = self._simulation.leader_of
        return {one for one in sorted(self.assigned) if leader(bucket_of(*one)) == link.node_id}

    def _hang_up(self, link: Link) -> None:
        if link.connection is not None:
            self._simulation.network.close(link.connection)
        link.connection, link.epoch = None, 0
        link.known.clear()
        link.ready.clear()
        link.renewals.clear()

    def _next(self, link: Link) -> None:
        """Send the next request to a node."""
        link.busy = False
        if self._links.get(link.node_id) is not link:
            return
        if link.connection is None or link.connection.closed:
            self._hang_up(link)
            link.connection = self._simulation.connect(link.node_id, self.name)
        wanted = self._wanted(link)
        if link.connection is None or not (wanted or link.known):
            link.busy = True
            self._later(IDLE_MS, self._next, link)
            return
        link.busy = True
        may_ack_alone = bool(link.epoch and (link.ready or link.renewals))
        if may_ack_alone and (link.renewals or self._world.chance(0.5)):
            self._acknowledge(link)
        else:
            self._fetch(link, wanted)

    def _acknowledge(self, link: Link) -> None:
        renews = bool(link.renewals)
        acks = link.renewals if renews else link.ready
        request = ShareAcknowledgeRequest(
            self.group_id,
            self.member_id,
            link.epoch,
            is_renew_ack=renews,
            topics=_topics((), acks),
        )
        acks.clear()
        self._send(link, request)

    def _fetch(self, link: Link, wanted: set[Partition]) -> None:
        world, healed = self._world, self._simulation.faults.healed
        opens = link.epoch == 0
        acks = [] if opens else link.ready
        new = wanted if opens else wanted - link.known
        gone = set() if opens else link.known - wanted
        request = ShareFetchRequest(
            self.group_id,
            self.member_id,
            link.epoch,
            max_wait_ms=world.random.choice([0, 100, 500]),
            min_bytes=1 if healed else world.random.choice([0, 1, 1, 200]),
            max_bytes=1 << 20 if healed else world.random.choice([1, 500, 1 << 20]),
            max_records=500 if healed else world.random.choice([1, 5, 20, 500]),
            batch_size=world.random.choice([1, 5, 500]),
            acquire_mode=world.random.choice([BATCH_OPTIMIZED, RECORD_LIMIT]),
            topics=_topics(sorted(new), acks),
            forgotten=tuple(
                ForgottenShareTopic(topic_id, (one,)) for topic_id, one in sorted(gone)
            ),
        )
        if not opens:
            link.ready.clear()
        link.known = set(wanted)
        self._send(link, request)

    def _send(self, link: Link, request: ShareFetchRequest | ShareAcknowledgeRequest) -> None:
        assert link.connection is not None
        connection = link.connection

        def on_reply(reply: Any) -> None:
            if link.connection is connection:
                self._on_reply(link, reply)
            else:
                self._next(link)

        self._ask(connection, request, 2, on_reply)

    def _on_reply(self, link: Link, reply: ShareFetchReply | ShareAcknowledgeReply | None) -> None:
        if reply is None:
            self._hang_up(link)
        elif reply.error is not ErrorCode.NONE:
            # A session that the node does not know, or not so: begin another one.
            link.epoch = 0
            link.known.clear()
            link.ready.clear()
            link.renewals.clear()
        else:
            link.epoch = max(1, link.epoch + 1)
            if isinstance(reply, ShareFetchReply):
                for topic in reply.topics:
                    for one in topic.partitions:
                        self._take(link, (topic.topic_id, one.partition), one.acquired)
        failed = reply is None or reply.error is not ErrorCode.NONE
        pause_ms = RETRY_MS if failed else self._simulation.fetch_pause_ms()
        self._later(pause_ms, self._next, link)

    # Work on records

    def _take(self, link: Link, place: Partition, acquired: Iterable[AcquiredRecords]) -> None:
        for one in acquired:
            first, last = one.first_offset, one.last_offset
            if not self._simulation.faults.healed and last > first and self._world.chance(0.2):
                cut = self._world.between(first, last - 1)
                self._plan(link, place, first, cut)
                first = cut + 1
            self._plan(link, place, first, last)

    def _plan(self, link: Link, place: Partition, first: int, last: int) -> None:
        if not self._simulation.faults.healed and self._world.chance(0.05):
            return  # nobody cares for these any more
        delay_ms = self._simulation.work_ms()
        self._later(delay_ms, self._worked, link, link.connection, place, first, last)

    def _worked(
        self,
        link: Link,
        connection: ClientConnection | None,
        place: Partition,
        first: int,
        last: int,
    ) -> None:
        """The application is through with these records."""
        if link.connection is not connection or not link.epoch:
            return
        world = self._world
        if self._simulation.faults.healed:
            types = bytes([ACCEPT])
        elif world.chance(0.15):
            renewal = place, AcknowledgementBatch(first, last, bytes([RENEW]))
            link.renewals.append(renewal)
            self._plan(link, place, first, last)
            return
        elif world.chance(0.7):
            types = bytes([world.random.choice([ACCEPT, ACCEPT, RELEASE, REJECT])])
        else:
            kinds = [ACCEPT, ACCEPT, ACCEPT, RELEASE, REJECT, GAP]
            types = bytes(world.random.choices(kinds, k=last - first + 1))
        link.ready.append((place, AcknowledgementBatch(first, last, types)))


def _topics(
    new: Sequence[Partition], acks: Iterable[tuple[Partition, AcknowledgementBatch]]
) -> tuple[AcknowledgedTopic, ...]:
    """An entry for each partition, with its acknowledgements in the order of their offsets."""
    found: dict[Partition, list[AcknowledgementBatch]] = {one: [] for one in new}
    for place, batch in acks:
        found.setdefault(place, []).append(batch)
    return tuple(
        AcknowledgedTopic(
            topic_id,
            (AcknowledgedPartition(one, tuple(sorted(batches, key=lambda b: b.first_offset))),),
        )
        for (topic_id, one), batches in found.items()
    )
