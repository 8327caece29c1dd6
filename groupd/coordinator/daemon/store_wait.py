"""Opens a store whose server may not be up yet: one that starts together with groupd."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import structlog

from groupd.coordinator.failures import DaemonFailed
from groupd.coordinator.runtime.clock import Clock, pause
from groupd.storage.log import Store, StoreNotReady

log = structlog.get_logger("groupd.daemon")

AGAIN_MS = 500
"""How long after an attempt the server is asked again."""


async def opened(open_store: Callable[[], Awaitable[Store]], limit_ms: int, clock: Clock) -> Store:
    """What `open_store()` gives; it is called again while it raises StoreNotReady. Raises
    DaemonFailed after `limit_ms`, and at once what else `open_store` raises: no time mends that."""
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
