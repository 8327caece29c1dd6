"""Settings that make client libraries quick in tests, spelled as each library takes them, each with
its reason.

`docs/generate.py` makes the table in docs/testing.md from this one. Names and units are the
library's own, and a library is only listed with settings that it has. The settings work with a real
broker as well: nothing here depends on groupd.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

from msgspec import Struct

from groupd.coordinator.faults.errors import HarnessError
from groupd.coordinator.suggest import did_you_mean

__tracebackhide__ = True
"""Hides this module's frames from pytest: a failure is shown at the line of the test."""

Value: TypeAlias = str | int | bool | list[str] | dict[str, int]
ClientRole: TypeAlias = Literal["consumer", "producer"]
GroupProtocol: TypeAlias = Literal["classic", "consumer", "share"]

CLASSIC: GroupProtocol = "classic"
CONSUMER: GroupProtocol = "consumer"
SHARE: GroupProtocol = "share"
PROTOCOLS: tuple[GroupProtocol, ...] = (CLASSIC, CONSUMER, SHARE)
ROLES: tuple[ClientRole, ...] = ("consumer", "producer")

HEARTBEAT = "a member hears of a rebalance with its next heartbeat; the default is 3 s"
FETCH = "what comes after a Fetch on its connection is answered after it"
RETRY = "what was refused for a moment is tried again soon"
RECONNECT = "it is back soon after a restart or a broken connection"
STATISTICS = (
    "its main thread looks for due heartbeats only when something wakes it: in a quiet consumer a "
    "timer of 500 ms, or this one"
)
LOST_COMMITS = (
    "with the default of 500 ms a commit that meets NOT_COORDINATOR may take a minute (see "
    "clients.md)"
)
REBOOTSTRAP = (
    "else a client whose only broker is gone tries again without a pause, and a transactional "
    "producer waits forever (see clients.md)"
)
RETRIES = "with short pauses a restart needs more tries"
METADATA = "it looks topics up again soon after an error"


class Setting(Struct, frozen=True):
    """One setting of a library. `role`, `protocol`: the setting applies to that role or protocol
    only; None = to all."""

    name: str
    value: Value
    reason: str
    role: ClientRole | None = None
    protocol: GroupProtocol | None = None


class Library(Struct, frozen=True):
    """A client library. `servers`: its setting for the broker's address, which takes a list if
    `servers_list` is true. `protocol`: its setting for the group protocol and the values of that;
    None = the library speaks only the classic protocol. `share`: it has share consumers, which have
    no such setting."""

    servers: str
    settings: tuple[Setting, ...]
    servers_list: bool = False
    protocol: tuple[str, Mapping[GroupProtocol, Value]] | None = None
    share: bool = False


def _consumer(
    name: str, value: Value, reason: str, protocol: GroupProtocol | None = None
) -> Setting:
    return Setting(name, value, reason, "consumer", protocol)


_BY_NAME: Mapping[GroupProtocol, Value] = {CLASSIC: "classic", CONSUMER: "consumer"}

DEFAULT_LIBRARY = "confluent-kafka"

LIBRARIES: Mapping[str, Library] = {
    "confluent-kafka": Library(
        "bootstrap.servers",
        (
            _consumer("fetch.wait.max.ms", 25, LOST_COMMITS),
            _consumer("heartbeat.interval.ms", 50, HEARTBEAT, CLASSIC),
            _consumer("statistics.interval.ms", 50, STATISTICS, CLASSIC),
            Setting("reconnect.backoff.ms", 10, RECONNECT),
            Setting("reconnect.backoff.max.ms", 100, RECONNECT),
            Setting("metadata.recovery.strategy", "none", REBOOTSTRAP),
        ),
        protocol=("group.protocol", _BY_NAME),
        share=True,
    ),
    "aiokafka": Library(
        "bootstrap_servers",
        (
            _consumer("heartbeat_interval_ms", 50, HEARTBEAT),
            _consumer("fetch_max_wait_ms", 25, FETCH),
            Setting("retry_backoff_ms", 20, RETRY),
        ),
    ),
    "kafka-python": Library(
        "bootstrap_servers",
        (
            _consumer("heartbeat_interval_ms", 50, HEARTBEAT),
            _consumer("fetch_max_wait_ms", 25, FETCH),
            Setting("retry_backoff_ms", 20, RETRY),
            Setting("reconnect_backoff_ms", 10, RECONNECT),
            Setting("reconnect_backoff_max_ms", 100, RECONNECT),
        ),
    ),
    "java": Library(
        "bootstrap.servers",
        (
            _consumer("heartbeat.interval.ms", 50, HEARTBEAT, CLASSIC),
            _consumer("fetch.max.wait.ms", 25, FETCH),
            Setting("retry.backoff.ms", 20, RETRY),
            Setting("retry.backoff.max.ms", 100, RETRY),
            Setting("reconnect.backoff.ms", 10, RECONNECT),
            Setting("reconnect.backoff.max.ms", 100, RECONNECT),
        ),
        protocol=("group.protocol", _BY_NAME),
        share=True,
    ),
    "franz-go": Library(
        "SeedBrokers",
        (
            _consumer("HeartbeatInterval", "50ms", HEARTBEAT, CLASSIC),
            _consumer("FetchMaxWait", "25ms", FETCH),
            Setting("RetryBackoffFn", "20ms", RETRY),
            Setting("RequestRetries", 100, RETRIES),
            Setting("MetadataMinAge", "50ms", METADATA),
        ),
        protocol=("ServerSideBalancer", {CLASSIC: False, CONSUMER: True}),
        share=True,
    ),
    "kafkajs": Library(
        "brokers",
        (
            _consumer("heartbeatInterval", 50, HEARTBEAT),
            _consumer("maxWaitTimeInMs", 25, FETCH),
            Setting(
                "retry",
                {"initialRetryTime": 20, "maxRetryTime": 100, "retries": 100},
                f"{RETRY}; {RETRIES}",
            ),
        ),
        servers_list=True,
    ),
    "platformatic": Library(
        "bootstrapBrokers",
        (
            _consumer("heartbeatInterval", 50, HEARTBEAT, CLASSIC),
            _consumer("maxWaitTime", 25, FETCH),
            Setting("retryDelay", 20, RETRY),
            Setting("retries", 100, RETRIES),
        ),
        servers_list=True,
        protocol=("groupProtocol", _BY_NAME),
    ),
}


def client_config(
    library: str,
    bootstrap_servers: str,
    *,
    protocol: GroupProtocol = CLASSIC,
    role: ClientRole = "consumer",
) -> dict[str, Any]:
    """The settings that start a client of `library` in tests: the address, the group protocol and
    the settings of `LIBRARIES`. The value type is Any, so that they can be passed on as keyword
    arguments. Raises HarnessError for an unknown library, role or protocol."""
    found = LIBRARIES.get(library)
    if found is None:
        hint = did_you_mean(library, LIBRARIES)
        raise HarnessError(f"no library {library!r}{hint}; libraries: {', '.join(LIBRARIES)}")
    if role not in ROLES:
        raise HarnessError(f"role {role!r}: must be {' or '.join(ROLES)}")
    if protocol not in PROTOCOLS:
        raise HarnessError(f"protocol {protocol!r}: must be {' or '.join(PROTOCOLS)}")
    if protocol == CONSUMER and found.protocol is None:
        raise HarnessError(f"{library} does not speak the consumer protocol")
    if protocol == SHARE and not found.share:
        raise HarnessError(f"{library} has no share consumer")
    made: dict[str, Any] = {
        found.servers: [bootstrap_servers] if found.servers_list else bootstrap_servers
    }
    if role == "consumer" and protocol != SHARE and found.protocol is not None:
        name, values = found.protocol
        made[name] = values[protocol]
    for one in found.settings:
        if one.role in (None, role) and one.protocol in (None, protocol):
            made[one.name] = one.value
    return made
