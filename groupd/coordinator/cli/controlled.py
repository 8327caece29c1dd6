"""The daemons that `groupd serve --control` and `--record` run: an embedded broker under test
control, and a daemon that is recorded."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import cast

import structlog

from groupd.coordinator.admin.admin_limits import is_loopback
from groupd.coordinator.cli.parse import UsageError, one_of
from groupd.coordinator.cli.serve_flags import ServeFlags
from groupd.coordinator.daemon.daemon import Daemon
from groupd.coordinator.daemon.options import DaemonOptions
from groupd.coordinator.recording.head import SERVE, Head
from groupd.coordinator.recording.recorder import Recorder
from groupd.storage.open import create_reader
from groupd.testing.control_api import ControlApi
from groupd.testing.engine import Engine, HarnessOptions
from groupd.testing.operations import Operations
from groupd.testing.security import (
    MECHANISMS,
    PLAIN,
    SECURITY_PROTOCOLS,
    ProtocolName,
    SecurityOptions,
)


class RecordedDaemon(Daemon):
    """A daemon that records every input to `path`. Raises StoreRefused."""

    def __init__(self, options: DaemonOptions, path: Path, bytes_max: int) -> None:
        head = Head(SERVE, lambda: create_reader(options.store_url, options.data_dir))
        self._recorder = Recorder(path, head, bytes_max=bytes_max)
        super().__init__(options, host=self._recorder)

    async def start(self) -> None:
        try:
            await super().start()
        except BaseException:
            await self._recorder.close()
            raise

    async def stop(self) -> None:
        try:
            await super().stop()
        finally:
            await self._recorder.close()


log = structlog.get_logger("groupd.control")

MEMORY = "memory://"


class ControlledDaemon:
    """The part of a `Daemon` that `serve` needs, around an embedded broker. Raises UsageError for
    flags that exclude each other."""

    def __init__(self, options: DaemonOptions, flags: ServeFlags) -> None:
        assert options.admin is not None
        host = options.admin[0]
        security = one_of(flags.control_security, "--control-security", SECURITY_PROTOCOLS)
        if not flags.control_anywhere and not is_loopback(host):
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
            record=None if flags.record is None else str(flags.record),
            record_max_bytes=flags.record_max << 20,
            security=SecurityOptions(
                cast(ProtocolName, security),
                mechanisms=tuple(one for one in MECHANISMS if one != PLAIN),
            ),
        )
        self._engine = Engine(harness, options.config)
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
        return await self._engine.store.lost()

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
