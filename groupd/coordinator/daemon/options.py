"""The settings of a daemon that come from the command line."""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct, field

from groupd.coordinator.config.coordinator_config import CoordinatorConfig


class DaemonOptions(Struct, frozen=True):
    """Settings from the command line. Addresses are (host, port); port 0 = any free one. `admin`
    None: no admin port."""

    listen: tuple[str, int]
    admin: tuple[str, int] | None
    advertised: tuple[str, int] | None = None
    data_dir: Path = Path("groupd-data")
    store_url: str | None = None
    topics: tuple[tuple[str, int], ...] = ()
    config: CoordinatorConfig = field(default_factory=CoordinatorConfig)
    cluster: bool = False
    """Whether this is a node of the cluster of all daemons that use the same store."""
