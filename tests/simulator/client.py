"""What both kinds of model clients share: a connection, one request at a time per lane, timeouts,
offset commits, and being switched off, frozen or restarted."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from groupd.coordinator.core.metadata_image import TopicImage
from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages import TopicId
from groupd.protocol.messages.offsets import (
    CommitPartition,
    OffsetCommitRequest,
    commit_topic,
)
from tests.simulator.network import Call, Connection

if TYPE_CHECKING:
    from tests.simulator.simulation import Simulation

RETRY_MS = 300
TopicPartition = tuple[TopicId, int]

RETRIABLE = frozenset(
    {
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    }
)


@dataclass(frozen=True, slots=True)
class Subscription:
    """What a client subscribes to. `regex`: "" for none. Classic clients have names only."""

    names: tuple[str, ...]
    regex: str = ""


class Client:
    """`owned`: partition -> tenure, a number that grows with every new taking of a partition by
    anybody. `tainted`: the broker handled a request of this client late or out of order, so that
    what it believes about the client may rightly differ from what the client believes."""

    def __init__(
        self,
        simulation: Simulation,
        name: str,
        group_id: str,
        instance_id: str | None,
        subscription: Subscription,
    ) -> None:
        self.simulation = simulation
        self.world = simulation.world
        self.name = name
        self.group_id = group_id
        self.instance_id = instance_id
        self.subscription = subscription
        self.member_id = ""
        self.owned: dict[TopicPartition, int] = {}
        self.tainted = False
        self.running = False
        self.frozen = False
        self.fatal = ""
        self.life = 0
        self._connection: Connection | None = None
        self._sequence = 0
        self._in_flight: dict[str, Call] = {}

    # To be told

    def start(self) -> None:
        """Begins a life of the client's process, with nothing remembered."""
        self.life += 1
        self.running, self.frozen, self.fatal = True, False, ""
        self.owned = {}
        self._in_flight = {}
        self._disconnect()
        self.world.trace("start", self.name, self.group_id, self.instance_id or "")
        self.begin()
        if self.simulation.options.commit_every_ms:
            self._commit_later()

    def begin(self) -> None:
        raise NotImplementedError

    def leave(self, *, for_a_while: bool) -> None:
        """Ends in order."""
        raise NotImplementedError

    def die(self) -> None:
        """The client's process is killed."""
        self.world.trace("die", self.name)
        self.running = False
        self.owned = {}
        self._disconnect()

    def freeze(self, for_ms: int) -> None:
        """The client does nothing for a while, and does not know it."""
        self.world.trace("freeze", self.name, for_ms)
        self.frozen = True
        self.world.after(for_ms, self._thaw, self.life)

    def subscribe(self, subscription: Subscription) -> None:
        self.world.trace("subscribe", self.name, subscription)
        self.subscription = subscription

    def say_everything(self) -> None:
        """The broker may have an old idea of the client: nothing counts as known to it."""

    def settled_at(self) -> int | None:
        """Epoch or generation when the client has nothing under way, else None."""
        raise NotImplementedError

    def commit_identity(self) -> tuple[int, str] | None:
        """(epoch or generation, member id), None if it cannot commit now."""
        raise NotImplementedError

    # Requests

    def busy(self, lane: str) -> bool:
        return lane in self._in_flight

    def rpc(
        self,
        lane: str,
        request: Any,
        version: int,
        on_reply: Callable[[Any], None],
        timeout_ms: int | None = None,
    ) -> None:
        """Sends a request. `on_reply(None)`: no answer came, the connection is gone."""
        connection = self._connect()
        if connection is None:
            self.later(RETRY_MS, on_reply, None)
            return
        self._sequence += 1
        call = Call(self.name, self._sequence, request, version, connection, lambda _: None)
        life = self.life

        def reply(message: Any) -> None:
            if self._in_flight.get(lane) is not call or self.life != life or not self.running:
                return
            if self.frozen:
                self.world.after(RETRY_MS, reply, message)
                return
            del self._in_flight[lane]
            timer.cancel()
            on_reply(message)

        def time_out() -> None:
            if self._in_flight.get(lane) is call and self.life == life and self.running:
                self.world.trace("timeout", self.name, call.sequence)
                self._disconnect()
                reply(None)

        call.on_reply = reply
        self._in_flight[lane] = call
        timer = self.world.after(timeout_ms or self.simulation.options.request_timeout_ms, time_out)
        self.simulation.network.send(call)

    def later(self, delay_ms: int, run: Callable[..., None], *arguments: Any) -> None:
        """Runs it after a delay, but only in this life; a frozen client does it when it thaws."""
        self.world.after(delay_ms, self._if_alive, self.life, run, arguments)

    def _if_alive(self, life: int, run: Callable[..., None], arguments: tuple[Any, ...]) -> None:
        if self.life != life or not self.running:
            return
        if self.frozen:
            self.world.after(RETRY_MS, self._if_alive, life, run, arguments)
        else:
            run(*arguments)

    def _thaw(self, life: int) -> None:
        if self.life == life:
            self.frozen = False

    def _connect(self) -> Connection | None:
        connection = self._connection
        if connection is None or connection.closed_ms is not None or not connection.process.alive:
            self._connection = self.simulation.network.connect()
        return self._connection

    def _disconnect(self) -> None:
        if self._connection is not None:
            self.simulation.network.close(self._connection)
            self._connection = None

    def stop_for_good(self, why: str) -> None:
        """A fatal error: the application ends."""
        self.world.trace("fatal", self.name, why)
        self.fatal = why
        self.running = False
        self.owned = {}
        self._disconnect()

    def new_member_id(self) -> str:
        return str(uuid.UUID(int=self.world.random.getrandbits(128)))

    # Owned partitions

    def take(self, partition: TopicPartition) -> None:
        if partition not in self.owned:
            self.simulation.tenures += 1
            self.owned[partition] = self.simulation.tenures

    # Offsets

    def tenure_of(self, partition: TopicPartition) -> int:
        return self.owned[partition]

    def topic_of(self, topic: TopicId) -> TopicImage | None:
        """The topic behind the first part of an owned partition."""
        return self.simulation.topics.image.by_id.get(topic)

    def _commit_later(self) -> None:
        every_ms = self.simulation.options.commit_every_ms
        self.later(self.world.between(1, 2 * every_ms), self._commit)

    def _commit(self) -> None:
        identity = self.commit_identity()
        if identity is not None and self.owned and not self.busy("commit"):
            places = sorted(self.owned)
            wanted = self.world.random.sample(places, min(len(places), self.world.between(1, 3)))
            topics = []
            by_id = self.world.chance(0.7)
            for topic_id, partition in sorted(wanted):
                image = self.topic_of(topic_id)
                if image is None:
                    continue
                tenure = self.tenure_of((topic_id, partition))
                place = (image.topic_id, partition)
                entry = CommitPartition(
                    partition, self.simulation.ledger.new_commit(self, place, tenure)
                )
                if by_id:
                    topics.append(commit_topic("", (entry,), image.topic_id))
                else:
                    topics.append(commit_topic(image.name, (entry,)))
            if topics:
                request = OffsetCommitRequest(
                    self.group_id, tuple(topics), identity[0], identity[1], self.instance_id
                )
                self.rpc("commit", request, 10 if by_id else 9, lambda reply: None)
        self._commit_later()
