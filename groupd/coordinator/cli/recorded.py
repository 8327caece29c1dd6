"""The daemon that `groupd serve --record` runs."""

from __future__ import annotations

from pathlib import Path

from groupd.coordinator.daemon.daemon import Daemon
from groupd.coordinator.daemon.options import DaemonOptions
from groupd.coordinator.recording.head import SERVE, Head
from groupd.coordinator.recording.recorder import Recorder
from groupd.storage.open import create_reader


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
