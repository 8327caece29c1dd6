"""What the connections of a SASL listener share: mechanisms, limits, the thread that judges tokens,
and counters."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from groupd.coordinator.config import CoordinatorConfig
from groupd.coordinator.runtime.clock import Clock
from groupd.coordinator.security.listeners import Listener, listener_config
from groupd.coordinator.security.sasl.authenticator import AnswerVersions, Authenticator, Identity
from groupd.coordinator.security.sasl.enabled import (
    EnabledMechanisms,
    Sources,
    enabled_mechanisms,
)
from groupd.coordinator.security.sasl.mechanism import Rejected, Step
from groupd.coordinator.security.sasl.scram import FindCredential
from groupd.coordinator.server.connection_stats import SaslStats

WINDOW_MS = 10_000
"""In which failed authentications of an address are counted."""

ADDRESSES_MAX = 10_000
"""Addresses that are counted; with more of them the count begins again."""


class LoginFailures:
    """How often the clients of an address have failed to log in lately. `limit`: in a window; 0: no
    limit."""

    def __init__(self, limit: int, clock: Clock) -> None:
        self._limit = limit
        self._clock = clock
        self._until_ms = 0
        self._failed: Counter[str] = Counter()

    def add(self, host: str) -> None:
        self._begin_window()
        if host in self._failed or len(self._failed) < ADDRESSES_MAX:
            self._failed[host] += 1
        else:
            self._failed.clear()

    def too_many(self, host: str) -> bool:
        """Whether `host` may not log in before the window is over."""
        if not (self._limit and self._failed):
            return False
        self._begin_window()
        return self._failed[host] >= self._limit

    def _begin_window(self) -> None:
        now_ms = self._clock.monotonic_ms()
        if now_ms >= self._until_ms:
            self._failed.clear()
            self._until_ms = now_ms + WINDOW_MS


class Judge:
    """Runs what takes too long for the event loop in one thread, in order."""

    def __init__(self) -> None:
        self._thread: ThreadPoolExecutor | None = None

    def run(self, work: Callable[[], Step], done: Callable[[Step], None]) -> None:
        """Calls `done` in a later turn of the running loop."""
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, "sasl")
        future = asyncio.get_running_loop().run_in_executor(self._thread, work)
        future.add_done_callback(partial(_tell, done))

    def close(self) -> None:
        if self._thread is not None:
            self._thread.shutdown(wait=False, cancel_futures=True)


def _tell(done: Callable[[Step], None], future: asyncio.Future[Step]) -> None:
    if future.cancelled():
        return
    error = future.exception()
    if error is not None:
        # A bug of ours. The text of the error may hold a part of the token.
        done(Rejected("Authentication failed", f"cannot be judged: {type(error).__name__}"))
    else:
        done(future.result())


class SaslEndpoint:
    """Of one listener. `config`: as it holds there. `stats`, `failures` and `judge` are those of
    all listeners."""

    def __init__(
        self,
        listener: str,
        config: CoordinatorConfig,
        enabled: EnabledMechanisms,
        versions: AnswerVersions,
        clock: Clock,
        stats: SaslStats,
        failures: LoginFailures,
        judge: Judge,
    ) -> None:
        self.listener = listener
        self.config = config
        self.clock = clock
        self.stats = stats
        self.failures = failures
        self.judge = judge
        self._enabled = enabled
        self._versions = versions

    def limit_reached(self, host: str) -> str | None:
        """What forbids `host` to log in now; None if it may."""
        if self.failures.too_many(host):
            return "groupd.authentication.failures.per.ip"
        return None

    def authenticator(self, before: Identity | None = None) -> Authenticator:
        """`before`: who the client is, if it authenticates again."""
        return Authenticator(self._enabled.by_name, self._versions, self.clock.now, before)

    def close(self) -> None:
        self._enabled.close()


class SaslEndpoints:
    """Those of all SASL listeners of a broker. `credential`: of SCRAM users. `secret`: for the
    salts of unknown ones. Raises ConfigError for a listener that cannot be served."""

    def __init__(
        self,
        config: CoordinatorConfig,
        listeners: Iterable[Listener],
        credential: FindCredential,
        secret: bytes,
        versions: AnswerVersions,
        clock: Clock,
        stats: SaslStats,
    ) -> None:
        self._judge = Judge()
        self._by_listener: dict[str, SaslEndpoint] = {}
        sources = Sources(credential, secret, lambda: clock.now().wall_ms)
        failures = LoginFailures(config.authentication_failures_per_ip, clock)
        try:
            for listener in listeners:
                if not listener.protocol.sasl:
                    continue
                enabled = enabled_mechanisms(config, listener, sources)
                self._by_listener[listener.name] = SaslEndpoint(
                    listener.name,
                    listener_config(config, listener.name),
                    enabled,
                    versions,
                    clock,
                    stats,
                    failures,
                    self._judge,
                )
        except BaseException:
            self.close()
            raise

    def of(self, listener: str) -> SaslEndpoint | None:
        """None: the clients of that listener do not have to say who they are."""
        return self._by_listener.get(listener)

    def close(self) -> None:
        for endpoint in self._by_listener.values():
            endpoint.close()
        self._judge.close()
