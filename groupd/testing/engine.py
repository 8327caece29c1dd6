"""An embedded broker with everything that tests need from it, on one event loop.

The engine owns the daemon, its clock, its store and its watchers, and all of them are used on the
loop that started the engine. `groupd.testing.operations` acts on it on behalf of a thread, another
process or an HTTP client. A restart makes a new daemon and keeps the clock, the store and the
watchers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from msgspec import Struct, field

from groupd.coordinator.config.coordinator_config import PROFILES, CoordinatorConfig, with_settings
from groupd.coordinator.config.settings import ConfigError
from groupd.coordinator.core.group import Group
from groupd.coordinator.core.types import Event
from groupd.coordinator.daemon.daemon import Daemon
from groupd.coordinator.daemon.options import DaemonOptions
from groupd.coordinator.faults.errors import RequestRefused
from groupd.coordinator.faults.layer import Fault, FaultLayer, FaultTable
from groupd.coordinator.faults.spec import FaultSpec
from groupd.coordinator.faults.topics import topics_of
from groupd.coordinator.faults.traffic import OBSERVED, Liveness, Traffic, submit_own
from groupd.coordinator.host import Host
from groupd.coordinator.runtime.broker import Broker
from groupd.coordinator.runtime.clock import SystemClock
from groupd.coordinator.runtime.pause_aware_clock import PauseAwareClock
from groupd.coordinator.runtime.shard_runtime import inspect
from groupd.coordinator.runtime.shard_state import CoordinatorState
from groupd.coordinator.runtime.timeline import timeline_text
from groupd.coordinator.server.slot import Requests
from groupd.coordinator.share_partitions.counts import ShareEvent
from groupd.coordinator.share_partitions.share_partition import SharePartition
from groupd.coordinator.suggest import did_you_mean
from groupd.coordinator.topics.catalogue import TopicCatalogue
from groupd.coordinator.topics.partition import ReadableLog
from groupd.coordinator.topics.topic import Topic
from groupd.protocol.messages import TopicId
from groupd.protocol.records.schema import OffsetCommitKey, OffsetCommitValue, Record
from groupd.protocol.wire.registry import Api
from groupd.testing.answers import GroupDescription
from groupd.testing.clients import Clients, Denials
from groupd.testing.clock import ControlledClock
from groupd.testing.history import ClientObserver, History
from groupd.testing.invariants import Invariants
from groupd.testing.security import Secured, SecurityOptions
from groupd.testing.share_history import ShareHistory
from groupd.testing.store import SHARE_STATE_LOG, WatchedStore
from groupd.testing.users_and_acls import add_users_and_acls
from groupd.testing.watch import Watch

if TYPE_CHECKING:
    from groupd.coordinator.admin.http_messages import ControlHandler

SETTLE_TURNS = 3
"""For how many idle turns of the event loop `settle` waits. In these turns data that has arrived on
sockets is read, and scheduled callbacks run."""


class HarnessOptions(Struct, frozen=True):
    """The arguments of `GroupCoordinator.start`. They may be sent to another process."""

    topics: Mapping[str, int] = field(default_factory=dict)
    config: Mapping[str, object] = field(default_factory=dict)
    profile: str = "test"
    clock: str | float = "real"
    listen: tuple[str, int] = ("127.0.0.1", 0)
    admin: tuple[str, int] | None = None
    control: bool = False
    advertised: tuple[str, int] | None = None
    record: str | None = None
    """The file to record to; None = no recording."""
    record_max_bytes: int = 1 << 30
    """The size of the file at which the recording ends."""
    security: SecurityOptions = field(default_factory=SecurityOptions)


class Engine:
    """One embedded broker."""

    def __init__(
        self,
        options: HarnessOptions,
        config: CoordinatorConfig | None = None,
    ) -> None:
        self.options = options
        self.secured = Secured(options.security, options.listen[0])
        """The users, certificates and tokens of the clients."""
        self.config = config or make_config(options)
        self._heard = PauseAwareClock()
        """The clock of the sockets. It runs in real time, also when the clock of the groups is
        stopped or moved."""
        self.clock = ControlledClock(options.clock, self._heard.monotonic_ms)
        self.clock.before_timer = self._before_timer
        self.store = WatchedStore()
        self.watch = Watch()
        self.liveness = Liveness(lambda: self.broker)
        self.faults = FaultTable(self.watch.changed)
        self.history = History()
        self._observer = ClientObserver(self.history, self.clock.now, self._catalogue, self._owns)
        self.clients = Clients(SystemClock().now, self._observer.asked)
        self.denials = Denials()
        self.invariants = Invariants(
            self.group, lambda group: timeline_text(self.history.of(group))
        )
        self.shares = ShareHistory(self.invariants.report)
        """What became of the records of share groups."""
        self.offsets: dict[tuple[str, str, int], OffsetCommitValue] = {}
        """The committed offsets that are durable, by (group, topic, partition)."""
        self.kafka = options.listen
        self.kafka_addresses: Mapping[str, tuple[str, int]] = {}
        self.admin = options.admin
        self.control: ControlHandler | None = None
        """Answers the requests to `/control` of the admin port."""
        self.keep_connected = True
        self.host = _host(options)
        """Every call that changes something in the broker goes through `host.call`, so that it is
        recorded."""
        self._restarting = asyncio.Lock()
        self._topics = dict(options.topics)
        self._daemon: Daemon | None = None
        self._traffic: Traffic | None = None
        self._unsecured = True
        """Whether the next start has to create the users and ACLs of the options."""
        self._attach_store()

    # Start, stop and restart

    async def start(self) -> None:
        """Start the broker. Raises coordinator.daemon.daemon.CannotStart."""
        daemon = Daemon(
            DaemonOptions(
                listen=self.kafka,
                advertised=self.options.advertised,
                admin=self.admin,
                topics=tuple(self._topics.items()),
                config=with_settings(self.config, self.secured.config(self.kafka)),
            ),
            self.clock,
            socket_clock=self._heard,
            heard=self._heard,
            store=self.store,
            wrap=self._wrap,
            control=self.control,
            host=self.host,
        )
        await daemon.start()
        self._daemon = daemon
        self.kafka = daemon.kafka_address
        self.kafka_addresses = daemon.kafka_addresses
        if self.admin is not None:
            self.admin = daemon.admin_address
        daemon.parts.security.audit.listeners.append(self.denials.note)
        self.broker.events.listeners += (self._on_events, self.invariants.on_events)
        self.broker.events.listeners.append(self.watch.changed)
        self.broker.progress_listeners.append(self.watch.changed)
        daemon.parts.data_plane.catalogue.add_listener(self.watch.changed)
        daemon.parts.share_partitions.counts.listeners.append(self._on_share)
        if self._unsecured:
            self._unsecured = False
            await add_users_and_acls(self.ask, self.secured)
        self.watch.changed()

    async def stop(self) -> None:
        """Stop the broker for good. A second call does nothing."""
        try:
            await self._stop()
        finally:
            self.secured.close()
            await self.host.close()

    async def _stop(self) -> None:
        if self._daemon is not None:
            self.release_appends()  # otherwise appends that are held would never end
        daemon, self._daemon = self._daemon, None
        if daemon is not None:
            await daemon.stop()
        self.clock.close()

    async def restart(self, *, lose_memory: bool) -> None:
        """Stop the broker and start it again on the same port, with the same logs, or with empty
        logs and no topics."""
        async with self._restarting:
            await self._restart(lose_memory=lose_memory)

    async def _restart(self, *, lose_memory: bool) -> None:
        await self._stop()
        self._topics = {}
        self.shares.locks_gone()
        self.liveness.forget()
        self.clients.forget()
        if lose_memory:
            self.store = WatchedStore(self.store.known_cluster_id)
            self._attach_store()
            self._unsecured = True
            self.offsets.clear()
            self.invariants.reset()
            self.shares.reset()
            if self._traffic is not None:
                self._traffic.epochs.clear()
        await self.start()

    def _wrap(self, requests: Requests) -> Requests:
        epochs = {} if self._traffic is None else self._traffic.epochs
        self._traffic = Traffic(requests, self.liveness, self.watch.changed, self._observer.replied)
        self._traffic.epochs = epochs
        clock = self.host.clock(self.clock)
        layer = FaultLayer(
            self._traffic, self.faults, clock, self.liveness, self._topics_of, self._on_fault
        )
        return self.clients.wrap(layer)

    def _topics_of(self, request: Any) -> Iterator[str]:
        parts = self.daemon.parts
        return topics_of(request, parts.data_plane, parts.share_partitions)

    def _attach_store(self) -> None:
        self.store.listeners += (self._note_offsets, self.invariants.on_records)
        self.store.share_state_listeners.append(self.shares.on_state)

    # The state of the broker

    @property
    def running(self) -> bool:
        """Whether the broker runs; False while it restarts."""
        return self._daemon is not None

    @property
    def daemon(self) -> Daemon:
        if self._daemon is None:
            raise RequestRefused("the broker is not running")
        return self._daemon

    @property
    def broker(self) -> Broker:
        return self.daemon.broker

    def group(self, group_id: str) -> Group | None:
        """The live group; None if there is none, or while its shard does not serve."""
        shard = self.broker.own_shard_of(group_id)
        if shard is None or shard.state is not CoordinatorState.ACTIVE:
            return None
        return shard.shard.state.groups.get(group_id)

    def describe(self, group_id: str) -> GroupDescription | None:
        """The group as `/groups/{id}` of the admin port shows it."""
        shard = self.broker.own_shard_of(group_id)
        if shard is None or shard.state is not CoordinatorState.ACTIVE:
            return None
        found = inspect(shard, group_id, self.clock.now())
        return cast("GroupDescription | None", found)

    def share_partitions(self, group_id: str) -> list[SharePartition]:
        """The share-partitions of a group that its members read, by topic and partition."""
        loaded = self.daemon.parts.share_partitions.leaders.of_group(group_id)
        return sorted(
            [one for one in loaded if not one.closed],
            key=lambda one: (self.topic_name(one.partition.topic_id), one.partition.partition),
        )

    def rests(self, group_id: str) -> bool:
        """Whether everything that the coordinator knows of the group is durable."""
        shard = self.broker.own_shard_of(group_id)
        return shard is not None and shard.is_settled(group_id)

    def acknowledged(self, group_id: str, member_id: str) -> int:
        """The highest epoch that the member has named in a heartbeat; 0 if it has named none."""
        return 0 if self._traffic is None else self._traffic.epochs.get((group_id, member_id), 0)

    def topic_name(self, topic_id: TopicId) -> str:
        """The name of a topic; its id as text if it was deleted."""
        topic = self._catalogue().topic_by_id(topic_id)
        return topic_id.hex() if topic is None else topic.name

    def _catalogue(self) -> TopicCatalogue:
        return self.daemon.parts.data_plane.catalogue

    def _owns(self, group_id: str, topic: str, partition: int) -> bool:
        shown = self.describe(group_id)
        members = [] if shown is None else shown["members"]
        return any(partition in member["owned"].get(topic, ()) for member in members)

    async def ask(self, request: Any, api_version: int) -> Any:
        """Send a request to the broker as a client would, and return the reply. Raises
        RequestRefused."""
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

        def resolve(reply: Any) -> None:
            if not future.done():
                future.set_result(reply)

        def submit() -> None:
            submit_own(self.broker, request, api_version, self.host.answered(resolve))

        self.host.call("ask", submit, request=request, version=api_version)
        reply = await future
        if isinstance(reply, RequestRefused):
            raise reply
        if isinstance(request, OBSERVED):
            self._observer.replied(request, reply)
        return reply

    async def settle(self) -> None:
        """Wait until everything that has come in is durable and answered. Does not wait for
        requests that a fault holds back, nor for appends that are held."""
        turns = 0
        while turns < SETTLE_TURNS:
            await asyncio.sleep(0)
            cleaning = self.daemon.parts.topic_cleaner.busy
            if (self.broker.idle and not cleaning) or self.store.held_appends:
                turns += 1
            else:
                turns = 0

    async def end_transactions(self) -> None:
        """Wait for the markers of the transactions whose producers know that they have ended."""
        while self.daemon.parts.transactions.ending and not self.store.held_appends:
            await asyncio.sleep(0)

    async def advance(self, ms: int, *, keep_connected: bool) -> int:
        """See `Operations.advance`."""
        self.keep_connected = keep_connected
        await self.settle()
        fired = await self.clock.advance(ms, self._settle_effects)
        await self.settle()
        return fired

    async def _settle_effects(self) -> None:
        """Settle, but only if there is something to wait for: advancing by days of retention fires
        thousands of timers, and most of them do nothing."""
        if self.broker.writer.busy or self.daemon.parts.topic_cleaner.busy:
            await self.settle()

    async def readable(self, topic: Topic, partition: int) -> ReadableLog:
        """The log of a topic's partition. It is opened if it is not open yet."""
        partitions = self.daemon.parts.data_plane.partitions
        return await self.host.wait_for(
            "open-log",
            lambda: partitions.readable(topic, partition),
            topic=topic.name,
            partition=partition,
        )

    # Faults and failing appends

    def add_fault(self, spec: FaultSpec) -> int:
        """Add a fault and return its number."""
        return self.host.call("fault", lambda: self.faults.add(spec).number, spec=spec)

    def release_fault(self, number: int) -> int:
        """See `FaultTable.release`."""
        release = self.faults.release
        return self.host.call("release-fault", lambda: release(number), fault=number)

    def remove_fault(self, number: int) -> None:
        self.host.call("remove-fault", lambda: self.faults.remove(number), fault=number)

    def silence(self, group_id: str, member_id: str) -> None:
        """Count the member as silent until its next heartbeat gets through: `advance` does not
        renew its session."""
        key = (group_id, member_id)
        self.host.call("silence", lambda: self.liveness.silence(key), member=key)

    def fail_append(self, *, applied: bool) -> None:
        """Let the next append fail. With `applied` the records are written all the same."""
        fail = self.store.fail_next_append
        self.host.call("fail-append", lambda: fail(applied=applied), applied=applied)

    def fail_share_state(self, *, applied: bool) -> None:
        """Let the share coordinator's next append fail, as `fail_append`."""
        fail, log = self.store.fail_next_append, SHARE_STATE_LOG
        call = self.host.call
        call("fail-append", lambda: fail(applied=applied, log=log), applied=applied, log=log)

    def forget_share_group(self, group_id: str) -> None:
        """See `ShareRequests.forget_group`."""
        forget = self.daemon.parts.share_partitions.forget_group
        self.host.call("forget-share-group", lambda: forget(group_id), group=group_id)
        self.shares.locks_gone(group_id)
        self.watch.changed()

    def hold_appends(self) -> None:
        self.host.call("hold-appends", lambda: self.store.hold_appends())

    def release_appends(self) -> None:
        self.host.call("release-appends", lambda: self.store.release_appends())

    # Listeners

    def _before_timer(self, monotonic_ms: int) -> None:
        if self.keep_connected and self._daemon is not None:
            self.host.call("renew", lambda: self.liveness.renew(monotonic_ms), ms=monotonic_ms)

    def _on_events(self, _: int, events: Sequence[Event]) -> None:
        wall_ms = self.clock.now().wall_ms
        for event in events:
            self.history.add(event, wall_ms)

    def _on_share(self, event: ShareEvent) -> None:
        self.shares.on_event(event)
        self.watch.changed()

    def _on_fault(self, fault: Fault, api: Api, request: Any) -> None:
        self._observer.faulted(request, fault.number, fault.spec, api.name)

    def _note_offsets(self, records: Sequence[Record]) -> None:
        for record in records:
            if isinstance(record.key, OffsetCommitKey):
                place = (record.key.group, record.key.topic, record.key.partition)
                if isinstance(record.value, OffsetCommitValue):
                    self.offsets[place] = record.value
                else:
                    self.offsets.pop(place, None)


def make_config(options: HarnessOptions) -> CoordinatorConfig:
    """The configuration: the profile's settings, then those of `config`. Raises ConfigError."""
    if options.profile not in PROFILES:
        hint = did_you_mean(options.profile, PROFILES)
        raise ConfigError(f"profile {options.profile!r}{hint}: must be {' or '.join(PROFILES)}")
    settings = {
        key: str(value).lower() if isinstance(value, bool) else str(value)
        for key, value in options.config.items()
    }
    return with_settings(PROFILES[options.profile], settings)


def _host(options: HarnessOptions) -> Host:
    if options.record is None:
        return Host()
    from groupd.coordinator.recording.head import HARNESS, Head
    from groupd.coordinator.recording.recorder import Recorder

    return Recorder(options.record, Head(HARNESS), bytes_max=options.record_max_bytes)
