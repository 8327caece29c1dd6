"""The mechanisms that a listener has enabled, made from its settings
(`docs/spec/security.md#2.3`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import structlog
from msgspec import Struct

from groupd.coordinator.config.coordinator_config import CoordinatorConfig
from groupd.coordinator.config.settings import MECHANISMS, ConfigError
from groupd.coordinator.security.listeners import Listener, listener_config
from groupd.coordinator.security.sasl import jaas
from groupd.coordinator.security.sasl.authenticator import Enabled
from groupd.coordinator.security.sasl.mechanisms import PLAIN, Mechanism, PlainMechanism
from groupd.coordinator.security.sasl.scram import ScramCredentials, ScramServer
from groupd.coordinator.security.scram_credentials import MECHANISMS as SCRAM_MECHANISMS

OAUTHBEARER = "OAUTHBEARER"

_MODULES = {
    PLAIN: jaas.PLAIN_MODULE,
    **dict.fromkeys(SCRAM_MECHANISMS, jaas.SCRAM_MODULE),
    OAUTHBEARER: jaas.OAUTHBEARER_MODULE,
}

log = structlog.get_logger("groupd.sasl")


class Sources(Struct, frozen=True):
    """What mechanisms need besides settings. `credentials`: the credentials of SCRAM users.
    `secret`: see `ScramServer`. `wall_ms()`: the time now."""

    credentials: ScramCredentials
    secret: bytes
    wall_ms: Callable[[], int]


class EnabledMechanisms:
    """The mechanisms by name, in the order of `sasl.enabled.mechanisms`. `close` ends what they
    run."""

    def __init__(self, by_name: Mapping[str, Enabled], closers: list[Callable[[], None]]) -> None:
        self.by_name = by_name
        self._closers = closers

    def close(self) -> None:
        for close in self._closers:
            close()


def enabled_mechanisms(
    config: CoordinatorConfig, listener: Listener, sources: Sources
) -> EnabledMechanisms:
    """The enabled mechanisms of a SASL listener. Raises ConfigError."""
    of_listener = listener_config(config, listener.name)
    names = of_listener.sasl_enabled_mechanisms
    _check_names(names, listener.name)
    if of_listener.connection_failed_authentication_delay_ms >= of_listener.connections_max_idle_ms:
        raise ConfigError(
            "connection.failed.authentication.delay.ms must be below connections.max.idle.ms"
        )
    if PLAIN in names and not listener.protocol.tls:
        log.warning("passwords cross the network unencrypted", listener=listener.name)
    enabled: dict[str, Enabled] = {}
    closers: list[Callable[[], None]] = []
    try:
        for name in names:
            own = listener_config(config, listener.name, name)
            key = f"listener.name.{listener.name.lower()}.{name.lower()}.sasl.jaas.config"
            mechanism, close = _mechanism(name, own, key, sources)
            enabled[name] = Enabled(mechanism, own.connections_max_reauth_ms)
            closers.append(close)
    except BaseException:
        EnabledMechanisms(enabled, closers).close()
        raise
    return EnabledMechanisms(enabled, closers)


def _check_names(names: tuple[str, ...], listener: str) -> None:
    if not names:
        raise ConfigError(
            f"sasl.enabled.mechanisms: the listener {listener} needs one of {', '.join(MECHANISMS)}"
        )
    for name in names:
        if name not in MECHANISMS:
            raise ConfigError(
                f"sasl.enabled.mechanisms={name}: must be one of {', '.join(MECHANISMS)}"
            )


def _mechanism(
    name: str, config: CoordinatorConfig, key: str, sources: Sources
) -> tuple[Mechanism, Callable[[], None]]:
    """The mechanism, and the function that ends what it runs. `key`: the setting with its login
    module. Raises ConfigError."""
    module = None
    if config.sasl_jaas_config:
        module = jaas.parse_jaas(config.sasl_jaas_config, key)
        if module.name != _MODULES[name]:
            raise ConfigError(f"{key}: the module of {name} is {_MODULES[name]}")
    if name == PLAIN:
        users = {} if module is None else jaas.static_users(module)
        if not users:
            raise ConfigError(f'{key}: PLAIN needs users, as user_NAME="PASSWORD"')
        if not all(users.values()) or "" in users:
            raise ConfigError(f"{key}: a user of PLAIN needs a name and a password")
        return PlainMechanism(users), _nothing
    if name == OAUTHBEARER:
        return _oauthbearer(config, sources.wall_ms)
    return ScramServer(name, sources.credentials, sources.secret), _nothing


def _oauthbearer(
    config: CoordinatorConfig, wall_ms: Callable[[], int]
) -> tuple[Mechanism, Callable[[], None]]:
    if not config.oauthbearer_jwks_endpoint_url:
        raise ConfigError(
            "sasl.oauthbearer.jwks.endpoint.url: OAUTHBEARER needs the keys of tokens, in "
            "file:///PATH or at https://..."
        )
    for what, value, left_out in (
        (
            "audience",
            config.oauthbearer_expected_audience,
            config.oauthbearer_allow_unverified_audience,
        ),
        (
            "issuer",
            config.oauthbearer_expected_issuer,
            config.oauthbearer_allow_unverified_issuer,
        ),
    ):
        if not (value or left_out):
            raise ConfigError(
                f"sasl.oauthbearer.expected.{what}: OAUTHBEARER needs it, or set "
                f"sasl.oauthbearer.allow.unverified.{what}=true"
            )
    try:
        # This is imported late: few brokers need it, and the import takes a tenth of a second.
        from groupd.coordinator.security.sasl import jwks, oauthbearer, tokens
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"OAUTHBEARER needs the package {error.name}: pip install 'groupd[oauthbearer]'"
        ) from error
    keys = jwks.signing_keys(
        config.oauthbearer_jwks_endpoint_url, config.oauthbearer_jwks_endpoint_refresh_ms
    )
    rules = tokens.TokenRules(
        config.oauthbearer_expected_audience,
        config.oauthbearer_expected_issuer,
        config.oauthbearer_clock_skew_seconds,
        config.oauthbearer_sub_claim_name,
    )
    judge = tokens.TokenJudge(rules, keys, wall_ms)
    return oauthbearer.OAuthBearerMechanism(judge.judge), keys.close


def _nothing() -> None:
    """For mechanisms that run nothing."""
