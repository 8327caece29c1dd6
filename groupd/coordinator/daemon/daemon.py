"""The daemon: its start and its stop. It makes the parts that touch the outside world: the store
and the ports. What lies between them is made in `parts`."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import structlog

from groupd.coordinator.advertised import advertised_address
from groupd.coordinator.cluster.node_id import CannotJoin
from groupd.coordinator.config.settings import ConfigError
from groupd.coordinator.core.assignors.api import PartitionAssignor
from groupd.coordinator.core.assignors.loader import load_assignors
from groupd.coordinator.daemon.options import DaemonOptions
from groupd.coordinator.daemon.parts import DaemonParts, assemble
from groupd.coordinator.failures import DaemonFailed
from groupd.coordinator.host import Host
from groupd.coordinator.runtime.broker import Broker
from groupd.coordinator.runtime.clock import Clock, SystemClock, pause
from groupd.coordinator.runtime.loop_stalls import LoopStalls
from groupd.coordinator.runtime.pause_aware_clock import PauseAwareClock
from groupd.coordinator.security.listeners import Listener, listeners_of
from groupd.coordinator.security.users import first_users, salt_secret
from groupd.coordinator.server.connection_stats import ConnectionStats
from groupd.coordinator.server.kafka_ports import KafkaPorts
from groupd.coordinator.server.listener import CannotListen
from groupd.coordinator.server.sasl_endpoint import SaslEndpoints
from groupd.coordinator.server.shared_resources import shared_resources
from groupd.coordinator.server.slot import Requests
from groupd.coordinator.tracing.tracing import Tracing
from groupd.storage.log import LogError, Store, StoreNotReady, StoreRefused
from groupd.storage.open import create_store, database_file
from groupd.storage.private_files import open_to_others

if TYPE_CHECKING:
    from groupd.coordinator.admin.http_messages import ControlHandler
    from groupd.coordinator.cluster.local_node import LocalNode
    from groupd.coordinator.daemon.admin_port import DaemonAdmin
    from groupd.coordinator.security.tls import ListenerTls

log = structlog.get_logger("groupd.daemon")

AGAIN_MS = 500
"""The pause between two attempts to open the store."""


async def opened(open_store: Callable[[], Awaitable[Store]], limit_ms: int, clock: Clock) -> Store:
    """Returns what `open_store()` returns. It is called again while it raises StoreNotReady. Raises
    DaemonFailed after `limit_ms`. Any other exception of `open_store` is raised at once, because
    waiting does not help."""
    until_ms, told = clock.monotonic_ms() + limit_ms, False
    while True:
        try:
            return await open_store()
        except StoreNotReady as not_yet:
            if clock.monotonic_ms() >= until_ms:
                raise DaemonFailed(str(not_yet)) from not_yet
            if not told:
                log.warning("waiting for the store", reason=str(not_yet), most_s=limit_ms // 1000)
                told = True
            await pause(clock, AGAIN_MS)


# The daemon ---------------------------------------------------------------------------------

# The order of a start: store (lock, schema), in a cluster the node's id, parts, ports, shards,
# transactions, joining the cluster, topics of the command line. Shards load while the ports are
# already open, so early clients get COORDINATOR_LOAD_IN_PROGRESS.
#
# The order of a stop: in a cluster the hand-over, then no new requests, markers under way are
# written, long polls end, what is under way becomes durable and is answered, and the store is
# closed.


class CannotStart(Exception):
    """The daemon cannot start. `str()` is one line that says what is wrong and how to fix it."""


class Daemon:
    """One broker process: everything between `start` and `stop`.

    For embedders: `clock` is the time of groups, offsets and records, by default `heard`.
    `socket_clock` is the time of the sockets, by default the same as `clock`. Long polls stay in
    real time. `store` is used instead of the one that `options.store_url` names. `wrap(requests)`
    may return an object between the connections and the broker: it sees every decoded request, and
    may watch for repeated heartbeats (`Slot.watchers`). `control` answers requests to `/control` of
    the admin port. `host`: clock, identifiers, store and loop.
    """

    def __init__(
        self,
        options: DaemonOptions,
        clock: Clock | None = None,
        *,
        socket_clock: Clock | None = None,
        heard: PauseAwareClock | None = None,
        store: Store | None = None,
        wrap: Callable[[Requests], Requests] | None = None,
        control: ControlHandler | None = None,
        host: Host | None = None,
    ) -> None:
        self.options = options
        self.kafka_addresses: Mapping[str, tuple[str, int]] = {}
        """Name of the listener -> its address, in order."""
        self.connections = ConnectionStats()
        self._host = host or Host()
        self._stalls = LoopStalls(heard)
        self._clock: Clock = clock or self._stalls.clock
        self._socket_clock: Clock = socket_clock or self._clock
        self._given_store = store
        self._wrap = wrap
        self._control = control
        self._store: Store | None = None
        """The store, which must be closed in any case; None until there is one."""
        self._parts: DaemonParts | None = None
        self._member: LocalNode | None = None
        self._ports: KafkaPorts | None = None
        self._tls: Mapping[str, ListenerTls] = {}
        self._admin: DaemonAdmin | None = None
        self._tracing: Tracing | None = None
        self._stopping = False

    @property
    def kafka_address(self) -> tuple[str, int]:
        """The address of the first listener; set once the ports are open."""
        return next(iter(self.kafka_addresses.values()), ("", 0))

    @property
    def admin_address(self) -> tuple[str, int]:
        """The address of the admin port; set once it is open."""
        return ("", 0) if self._admin is None else self._admin.address

    @property
    def parts(self) -> DaemonParts:
        """The parts; set once the store has been read."""
        assert self._parts is not None
        return self._parts

    @property
    def broker(self) -> Broker:
        return self.parts.broker

    # Start --------------------------------------------------------------------------------

    async def start(self) -> None:
        """Start to serve. Raises CannotStart, DaemonFailed. After an exception, also if it is
        cancelled, everything is closed again."""
        trouble = "opened"
        host, options = self._host, self.options
        try:
            listeners = self._checked_listeners()
            tracing = self._tracing = Tracing(options.config)
            if options.admin is not None:
                # Imported only if needed: an embedded broker mostly has no admin port.
                from groupd.coordinator.daemon.admin_port import DaemonAdmin

                self._admin = DaemonAdmin(
                    options, options.admin, host, self.connections, self._stalls, self._control
                )
            assignors = load_assignors(options.config.consumer_assignors)
            clock = host.clock(self._clock)  # before the store is opened: a recorder needs it
            self._store = self._given_store or create_store(
                options.store_url, options.data_dir, shared=options.cluster
            )
            self._warn_of_readers()
            store = self._store = await self._opened(self._store)
            trouble = "read"
            await self._connect_to_cluster(listeners)
            await host.run("assemble", lambda: self._assemble(store, assignors, clock))
            parts = self.parts
            tracing.follow(parts.broker.events.listeners, parts.config.node_id)
            await self._add_first_users()
            self._stalls.start()
            await self._open_ports(listeners)
            topics = options.topics
            await host.run("load", lambda: parts.load(topics), topics=topics)
            parts.cleaner.start()
        except BaseException as error:  # also a cancelled start, and bugs of ours
            await self._abandon()
            if isinstance(error, CannotListen | StoreRefused | ConfigError | CannotJoin):
                raise CannotStart(str(error)) from error
            if isinstance(error, LogError):
                raise CannotStart(f"the store cannot be {trouble}: {error}") from error
            raise
        log.info("serving", kafka=dict(self.kafka_addresses), admin=self.admin_address)

    async def _opened(self, store: Store) -> Store:
        """Open the store. Raises DaemonFailed, StoreRefused, LogError."""
        config = self.options.config
        return await opened(
            lambda: self._host.open(store, config), config.store_wait_ms, SystemClock()
        )

    def _checked_listeners(self) -> tuple[Listener, ...]:
        """Returns the listeners of the settings. Raises ConfigError."""
        options = self.options
        listeners = listeners_of(options.config, options.listen, options.advertised)
        protected = [one for one in listeners if one.protocol.tls]
        if protected:
            from groupd.coordinator.security.tls import ListenerTls

            self._tls = {one.name: ListenerTls(options.config, one) for one in protected}
        return listeners

    async def _add_first_users(self) -> None:
        """Add the users of `scram_users_file` that do not exist yet. Raises ConfigError,
        LogError."""
        users, file = self.parts.security.users, self.options.config.scram_users_file
        new = await asyncio.to_thread(first_users, Path(file), users) if file else {}
        if new:
            facts = [(*key, credential.iterations) for key, credential in new.items()]
            await self._host.run("add-users", lambda: users.add(new), users=facts)
            log.info("users made", users=sorted({user for user, _ in new}), file=file)

    def _warn_of_readers(self) -> None:
        database = None
        if self._given_store is None and self.options.store_url != "memory://":
            database = database_file(self.options.store_url, self.options.data_dir)
        files = [] if database is None else open_to_others(database)
        if files:
            log.warning("every user of this machine may read what clients store", files=files)

    async def _assemble(
        self, store: Store, assignors: Mapping[str, PartitionAssignor], clock: Clock
    ) -> None:
        self._parts = await assemble(
            self.options.config,
            self._host,
            clock,
            store,
            assignors,
            member=self._member,
            wrap=self._wrap,
        )

    async def _connect_to_cluster(self, listeners: tuple[Listener, ...]) -> None:
        """If this is a node of a cluster, find out which one. Raises StoreRefused, ConfigError,
        LogError."""
        if not self.options.cluster:
            return
        from groupd.coordinator.cluster.local_node import member_of
        from groupd.coordinator.security.inter_broker import inter_broker_listener, peer_security

        config = self.options.config
        used = inter_broker_listener(config, listeners)
        security = peer_security(config, used, self._tls.get(used.name))
        assert self._store is not None
        self._member = member_of(config, self._store, self.options.data_dir, used.name, security)
        await self._member.connect()

    async def _open_ports(self, listeners: tuple[Listener, ...]) -> None:
        """Open the listeners and the admin port. Raises CannotListen, ConfigError, LogError."""
        parts, clock, secret = self.parts, self._socket_clock, b""
        if any(listener.protocol.sasl for listener in listeners):
            assert self._store is not None
            secret = await salt_secret(self._store, parts.catalogue_changes)
        sasl = SaslEndpoints(
            parts.config,
            listeners,
            parts.security.users,
            secret,
            parts.versions.reply,
            clock,
            self.connections.sasl,
        )
        self._ports = KafkaPorts(
            parts.config,
            clock,
            parts.requests,
            self.connections,
            shared_resources(parts.config, self._stalls, parts.broker.work, clock),
            self._host.connection,
            parts.security.access,
            sasl,
            parts.metering,
            self._tls,
        )
        bound = self.kafka_addresses = await self._ports.open(listeners)
        told = [
            (one.name, *advertised_address(one.host, bound[one.name], one.advertised))
            for one in listeners
        ]
        node, several = told[0][1:], tuple(told) if self.options.config.listeners else ()
        if self._member is not None:
            self._member.listeners = tuple(told)
        announce = partial(self.parts.announce, *node, several)
        self._host.call("announce", announce, node=node, listeners=several)
        if self._admin is not None:
            await self._admin.open(parts, self.kafka_addresses, self._member, self._not_ready)

    def _not_ready(self) -> str | None:
        return "stopping" if self._stopping else self.parts.not_ready()

    @property
    def has_certificates(self) -> bool:
        """Whether a listener has TLS."""
        return bool(self._tls)

    def reload_certificates(self) -> None:
        """Read the certificates of the listeners again, for new connections."""
        if self._ports is not None:
            self._ports.reload_certificates()

    # Stop ---------------------------------------------------------------------------------

    async def stop(self) -> None:
        """Finish and answer what is under way, then close everything. A second call does
        nothing."""
        if self._stopping:
            return
        self._stopping = True
        try:
            if self._member is not None:
                # Before anything else: clients are sent to other nodes as long as they have
                # connections.
                await self._member.stop()
        finally:
            self._refuse_clients()
        try:
            await self._finish()
        finally:
            await self._end()
        log.info("stopped")

    async def _abandon(self) -> None:
        """Give up ports and locks after a start that has failed."""
        self._stopping = True
        self._refuse_clients()
        try:
            await self._finish()
        finally:
            if self._member is not None:
                await self._member.stop()
            await self._end()

    def _refuse_clients(self) -> None:
        if self._ports is not None:
            self._ports.close_listeners()
            self._ports.stop_reading()

    async def _finish(self) -> None:
        if self._parts is not None:
            await self._parts.cleaner.close()
            await self._host.run("finish", self._parts.finish)

    async def _end(self) -> None:
        tracing = self._tracing
        await asyncio.gather(self._close(), *([] if tracing is None else [tracing.stop()]))

    async def _close(self) -> None:
        try:
            if self._ports is not None:
                await self._ports.close_connections()
            if self._admin is not None:
                await self._admin.close()
            if self._store is not None:
                await self._store.close()
        finally:
            self._stalls.stop()

    async def lost(self) -> str:
        """Wait until another process has taken over the store, and with it the groups. Returns one
        line that says so."""
        assert self._store is not None
        return await (self._store if self._member is None else self._member).lost()
