"""The daemon: wires store, shards, data plane and sockets; the only place that makes adapters.

Order of a start: store (lock, schema), topics, ports, shards, topics of the command line. Shards
load while the port is already open, so early clients get COORDINATOR_LOAD_IN_PROGRESS. Order of a
stop: no new requests, long polls end, what is under way becomes durable and is answered, store.
"""

from __future__ import annotations

import gc
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import structlog

from coordinator.config import CoordinatorConfig
from coordinator.core.assignors.api import AssignorError
from coordinator.core.assignors.loader import load_assignors
from coordinator.core.group_configs import GroupConfigs
from coordinator.core.shard import GroupCoordinatorShard
from coordinator.core.state import ShardState
from coordinator.runtime.broker import Broker
from coordinator.runtime.clock import Clock, SystemClock
from coordinator.runtime.ids import new_id, new_topic_id
from coordinator.runtime.offsets_view import OffsetsView
from coordinator.runtime.routes import group_routes
from coordinator.server.admin_http import AdminServer
from coordinator.server.admin_routes import AdminRoutes
from coordinator.server.connection import ConnectionStats
from coordinator.server.frontend import Frontend
from coordinator.server.listener import CannotListen, KafkaListener, cannot_listen
from coordinator.server.metrics import make_registry
from coordinator.topics.data_plane import DataPlane
from storage.log import LogError, Store, StoreRefused
from storage.open import create_store

log = structlog.get_logger("groupd.daemon")


class CannotStart(Exception):
    """`str()` is one line that says what and how to mend it."""


@dataclass(frozen=True)
class DaemonOptions:
    """What the command line decides. Addresses are (host, port); port 0 = any free one."""

    listen: tuple[str, int] = ("127.0.0.1", 9092)
    advertised: tuple[str, int] | None = None
    admin: tuple[str, int] = ("127.0.0.1", 9644)
    data_dir: Path = Path("groupd-data")
    store_url: str | None = None
    topics: tuple[tuple[str, int], ...] = ()
    config: CoordinatorConfig = field(default_factory=CoordinatorConfig)
