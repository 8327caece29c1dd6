"""What the connections of a SASL listener share: mechanisms, the count of wrong passwords, the
thread that verifies tokens, and counters."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from msgspec import Struct

from groupd.coordinator.config.coordinator_config import CoordinatorConfig
from groupd.coordinator.runtime.clock import Clock
from groupd.coordinator.security.listeners import Listener, listener_config
from groupd.coordinator.security.sasl.authenticator import (
    AnswerVersions,
    Authenticator,
    SaslIdentity,
)
from groupd.coordinator.server.connection_stats import SaslStats
from groupd.coordinator.server.login_throttle import LoginThrottle
from groupd.coordinator.server.token_verifier_thread import TokenVerifierThread

if TYPE_CHECKING:
    from groupd.coordinator.security.sasl.enabled import EnabledMechanisms
    from groupd.coordinator.security.sasl.scram import ScramCredentials


class SaslEndpoint(Struct, frozen=True):
    """What the connections of one SASL listener share. `config`: the settings of the listener.
    `stats`, `login_throttle` and `token_verifier` are shared by all listeners."""

    listener: str
    config: CoordinatorConfig
    enabled: EnabledMechanisms
    versions: AnswerVersions
    clock: Clock
    stats: SaslStats
    login_throttle: LoginThrottle
    token_verifier: TokenVerifierThread

    def authenticator(self, before: SaslIdentity | None = None) -> Authenticator:
        """Begins a login. `before`: who the client is, if it authenticates again."""
        return Authenticator(self.enabled.by_name, self.versions, self.clock.now, before)

    def close(self) -> None:
        self.enabled.close()


class SaslEndpoints:
    """The endpoints of all SASL listeners of a broker. `credentials`: the credentials of SCRAM
    users. `secret`: the salts of unknown users are made from it. Raises ConfigError for a listener
    that cannot be served."""

    def __init__(
        self,
        config: CoordinatorConfig,
        listeners: Iterable[Listener],
        credentials: ScramCredentials,
        secret: bytes,
        versions: AnswerVersions,
        clock: Clock,
        stats: SaslStats,
    ) -> None:
        self._token_verifier = TokenVerifierThread()
        self._by_listener: dict[str, SaslEndpoint] = {}
        login_throttle = LoginThrottle(config, clock.monotonic_ms)
        try:
            for listener in listeners:
                if not listener.protocol.sasl:
                    continue
                # Imported here, because in many daemons nobody logs in.
                from groupd.coordinator.security.sasl.enabled import Sources, enabled_mechanisms

                sources = Sources(credentials, secret, lambda: clock.now().wall_ms)
                enabled = enabled_mechanisms(config, listener, sources)
                self._by_listener[listener.name] = SaslEndpoint(
                    listener.name,
                    listener_config(config, listener.name),
                    enabled,
                    versions,
                    clock,
                    stats,
                    login_throttle,
                    self._token_verifier,
                )
        except BaseException:
            self.close()
            raise

    def of(self, listener: str) -> SaslEndpoint | None:
        """The endpoint of a listener; None if its clients do not have to log in."""
        return self._by_listener.get(listener)

    def close(self) -> None:
        for endpoint in self._by_listener.values():
            endpoint.close()
        self._token_verifier.close()
