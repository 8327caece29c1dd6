"""What `groupd serve --control` runs: an embedded broker under test control instead of a daemon."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import cast

import structlog

from groupd.coordinator.admin.places import is_loopback
from groupd.coordinator.cli.errors import UsageError
from groupd.coordinator.daemon.options import DaemonOptions
from groupd.coordinator.host import Host
from groupd.testing.control_api import ControlApi
from groupd.testing.engine import Engine, HarnessOptions
from groupd.testing.operations import Operations
from groupd.testing.security import (
    MECHANISMS,
    PLAIN,
    SecurityOptions,
    SecurityProtocol,
)
from groupd.testing.security import (
    SECURITY_PROTOCOLS as SECURITY_PROTOCOLS,
)

log = structlog.get_logger("groupd.control")

MEMORY = "memory://"


class ControlledDaemon:
    """The parts of a `Daemon` that `serve` needs. `recording`: the file and its largest size in
    bytes. Raises UsageError for flags that do not go together."""

    def __init__(
        self,
        options: DaemonOptions,
        *,
        anywhere: bool,
        recording: tuple[Path, int] | None = None,
        security: str = "PLAINTEXT",
    ) -> None:
        assert options.admin is not None
        host = options.admin[0]
        if not anywhere and not is_loopback(host):
            raise UsageError(
                f"--control with --admin {host}: whoever reaches it can do anything; use a "
                "loopback address, or --control-anywhere if that is meant"
            )
        if options.store_url not in (None, MEMORY):
            raise UsageError(f"--control with --store: the store under test control is {MEMORY}")
        harness = HarnessOptions(
            topics=dict(options.topics),
            listen=options.listen,
            admin=options.admin,
            control=True,
            advertised=options.advertised,
            security=SecurityOptions(
                cast("SecurityProtocol", security),
                mechanisms=tuple(one for one in MECHANISMS if one != PLAIN),
            ),
        )
        recorder = None if recording is None else _recorder(*recording)
        self._engine = Engine(harness, config=options.config, host=recorder)
        self._engine.control = ControlApi(Operations(self._engine))
        self._public = not is_loopback(host)

    async def start(self) -> None:
        """Raises coordinator.daemon.daemon.CannotStart."""
        try:
            await self._engine.start()
        except BaseException:
            await self._engine.stop()
            raise
        log.warning(
            "control API is on: the store is in memory, and whoever reaches it can do anything",
            admin=self.admin_address,
            reachable="from other machines" if self._public else "from this machine",
        )

    async def stop(self) -> None:
        await self._engine.stop()

    async def lost(self) -> str:
        """Never returns: no other process can take over a store in memory."""
        never: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        return await never

    @property
    def has_certificates(self) -> bool:
        return self._engine.daemon.has_certificates

    def reload_certificates(self) -> None:
        self._engine.daemon.reload_certificates()

    @property
    def kafka_addresses(self) -> Mapping[str, tuple[str, int]]:
        return self._engine.kafka_addresses

    @property
    def admin_address(self) -> tuple[str, int]:
        assert self._engine.admin is not None
        return self._engine.admin


def _recorder(path: Path, bytes_max: int) -> Host:
    from groupd.coordinator.recording.head import HARNESS, Head
    from groupd.coordinator.recording.recorder import Recorder

    return Recorder(path, Head(HARNESS), bytes_max=bytes_max)
