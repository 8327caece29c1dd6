"""What the connections of a SASL listener share: mechanisms, limits, the thread that judges tokens,
and counters."""

from __future__ import annotations

import asyncio
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
from groupd.coordinator.security.sasl.scram import Credentials
from groupd.coordinator.server.connection_stats import SaslStats
from groupd.coordinator.server.recent_failures import RecentFailures

ADDRESSES_MAX = 10_000
"""Addresses whose failed logins are remembered."""


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
    """What the connections of one listener share. `config`: the settings as they hold there.
    `stats`, `failures` and `judge` are those of all listeners."""

    def __init__(
        self,
        listener: str,
        config: CoordinatorConfig,
        enabled: EnabledMechanisms,
        versions: AnswerVersions,
        clock: Clock,
        stats: SaslStats,
        failures: RecentFailures,
        judge: Judge,
    ) -> None:
        self.listener = listener
        self.config = config
        self.clock = clock
        self.stats = stats
        self._failures = failures
        self.judge = judge
        self._enabled = enabled
        self._versions = versions

    def limit_reached(self, host: str) -> str | None:
        """The limit that keeps `host` from logging in now; None if it may."""
        if self._failures.waits_s(_address(host)):
            return "groupd.authentication.failures.per.ip"
        return None

    def count_failure(self, host: str) -> None:
        """A client of `host` has failed to log in."""
        self._failures.add(_address(host))

    def authenticator(self, before: Identity | None = None) -> Authenticator:
        """A new login. `before`: who the client is, if it authenticates again."""
        return Authenticator(self._enabled.by_name, self._versions, self.clock.now, before)

    def close(self) -> None:
        self._enabled.close()


class SaslEndpoints:
    """The endpoints of all SASL listeners of a broker. `credentials`: those of SCRAM users.
    `secret`: for the salts of unknown ones. Raises ConfigError for a listener that cannot be
    served."""

    def __init__(
        self,
        config: CoordinatorConfig,
        listeners: Iterable[Listener],
        credentials: Credentials,
        secret: bytes,
        versions: AnswerVersions,
        clock: Clock,
        stats: SaslStats,
    ) -> None:
        self._judge = Judge()
        self._by_listener: dict[str, SaslEndpoint] = {}
        sources = Sources(credentials, secret, lambda: clock.now().wall_ms)
        failures = RecentFailures(
            config.authentication_failures_per_ip,
            ADDRESSES_MAX,
            lambda: clock.monotonic_ms() / 1000,
        )
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
        """The endpoint of a listener; None: its clients do not have to say who they are."""
        return self._by_listener.get(listener)

    def close(self) -> None:
        for endpoint in self._by_listener.values():
            endpoint.close()
        self._judge.close()


def _address(host: str) -> str:
    return host.removeprefix("/")
