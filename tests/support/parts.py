"""The parts of a daemon without sockets."""

from __future__ import annotations

from collections.abc import Iterable

from groupd.coordinator.cluster.local_node import LocalNode
from groupd.coordinator.config.coordinator_config import CoordinatorConfig
from groupd.coordinator.core.assignors.loader import load_assignors
from groupd.coordinator.daemon.parts import DaemonParts, assemble
from groupd.coordinator.host import Host
from groupd.coordinator.runtime.clock import Clock
from groupd.storage.log import Store


async def assembled(
    config: CoordinatorConfig,
    host: Host,
    clock: Clock,
    store: Store,
    member: LocalNode | None = None,
) -> DaemonParts:
    """Parts with the assignors of the configuration, on a store that is open."""
    assignors = load_assignors(config.consumer_assignors)
    return await assemble(config, host, clock, store, assignors, member=member)


async def loaded(
    config: CoordinatorConfig,
    host: Host,
    clock: Clock,
    store: Store,
    topics: Iterable[tuple[str, int]] = (),
) -> DaemonParts:
    """Parts that serve as a node without a cluster."""
    parts = await assembled(config, host, clock, store)
    parts.announce("127.0.0.1", 9092)
    await parts.load(topics)
    return parts
