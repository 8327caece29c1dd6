"""Which process the tests talk to: groupd, or with GROUPD_PEER=kafka a real broker. With
GROUPD_PEER=cluster groupd is three nodes over one PostgreSQL."""

from __future__ import annotations

import atexit
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar, cast

from tests.support.cluster import ClusterOfDaemons
from tests.support.daemon import Daemon
from tests.support.kafka_broker import KafkaBroker
from tests.support.postgres import PostgresServer

Peer = Daemon | KafkaBroker
Startable = TypeVar("Startable", Daemon, KafkaBroker, Peer)

_SERVERS: list[PostgresServer] = []
"""The server of all clusters of this process, once there is one."""

SESSION_TIMEOUT_MS = 6000
FAST_SETTINGS = {
    "group.consumer.session.timeout.ms": str(SESSION_TIMEOUT_MS),
    "group.consumer.heartbeat.interval.ms": "300",
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.assignment.interval.ms": "0",
    "group.share.session.timeout.ms": str(SESSION_TIMEOUT_MS),
    "group.share.heartbeat.interval.ms": "300",
    "group.share.min.session.timeout.ms": "1000",
    "group.share.min.heartbeat.interval.ms": "100",
    "group.share.assignment.interval.ms": "0",
    "group.share.min.record.lock.duration.ms": "1000",
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "1000",
    "auto.create.topics.enable": "false",
}
"""Short timeouts. Some values come before their bounds on purpose: the order of --set must not
matter."""


def peer_kind() -> str:
    """`groupd`, `cluster` or `kafka`, from GROUPD_PEER."""
    kind = os.environ.get("GROUPD_PEER", "groupd")
    known = ("groupd", "cluster", "kafka")
    assert kind in known, f"GROUPD_PEER={kind}: must be one of {', '.join(known)}"
    return kind


def make_peer(
    directory: Path,
    *,
    topics: Mapping[str, int] | None = None,
    settings: Mapping[str, str] | None = None,
    store: str | None = None,
) -> Peer:
    """A peer that is not started yet, with FAST_SETTINGS under `settings`; groupd on the store
    with that URL."""
    merged = {**FAST_SETTINGS, **(settings or {})}
    if peer_kind() == "kafka":
        return KafkaBroker(directory, topics=topics, settings=merged)
    if peer_kind() == "cluster" and store is None:
        # It has all that tests ask of a daemon: its first node answers for it.
        return cast(Daemon, _cluster(directory, topics, merged))
    arguments = ["--store", store] if store else []
    return Daemon(directory, topics=topics, settings=merged, arguments=arguments)


def _cluster(
    directory: Path, topics: Mapping[str, int] | None, settings: Mapping[str, str]
) -> ClusterOfDaemons:
    if not _SERVERS:
        server = PostgresServer()
        server.start()
        atexit.register(server.close)
        _SERVERS.append(server)
    url = _SERVERS[0].url(_SERVERS[0].new_database())
    return ClusterOfDaemons(directory, url, topics=topics, settings=settings)


@contextmanager
def running(peer: Startable) -> Iterator[Startable]:
    """Starts the peer. It must stop cleanly at the end, unless the block has failed."""
    try:
        peer.start()
        yield peer
        peer.stop()
    finally:
        peer.close()
