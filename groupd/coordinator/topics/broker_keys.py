"""The config keys of a broker: our settings, and Kafka's keys that tools look for. Kafka's keys are
fixed facts of this broker, and cannot be set.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from groupd.coordinator.advertised import address_text
from groupd.coordinator.config.coordinator_config import FIELDS_BY_KEY, CoordinatorConfig
from groupd.coordinator.config.keys import ConfigKey, ConfigTable
from groupd.coordinator.config.settings import (
    LISTENER_PREFIX,
    described,
    listener_key,
    may_be_of_listener,
    setting_text,
)
from groupd.coordinator.config.values import (
    BOOLEAN,
    INT,
    LIST,
    LONG,
    PASSWORD,
    SHORT,
    STRING,
    ValueRule,
)
from groupd.coordinator.topics.topic_configs import TOPIC_CONFIGS
from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages.cluster import Node

BROKER_ID = "broker.id"

LOG_DIR = "/groupd"
"""The only log directory that replies to clients name, whatever the store is."""

MIN_ISR = "min.insync.replicas"
"""As in a Kafka with eligible leader replicas (KIP-966, on by default in 4.x), the cluster always
has a value for it and a broker has none."""

DYNAMIC_KEYS = frozenset(
    {
        "group.consumer.assignment.interval.ms",
        "group.share.assignment.interval.ms",
        "log.retention.bytes",
        "log.retention.ms",
        "message.max.bytes",
        MIN_ISR,
        "transaction.partition.verification.enable",
    }
)
"""Settings that clients may change while the broker runs; all are dynamic in Kafka, too. Code reads
them at each use, and shards are notified of changes (`BrokerConfigs.follow`)."""

INTERNAL_KEYS = frozenset(key for key, field in FIELDS_BY_KEY.items() if field.metadata["internal"])
"""Settings that clients see only once they are set, like the internal ones of Kafka
(`ConfigDef.defineInternal`)."""


class BrokerKey(Struct, frozen=True):
    """A key and the value that it has unless a client has changed it. `value` None: not set, or a
    secret (`sensitive`)."""

    name: str
    value: str | None
    config_type: int
    documentation: str
    is_default: bool = True
    sensitive: bool = False


_TOPIC_DEFAULT = "Default of the topic config; the same for all topics that do not set it."
_FACT = "A fact of this broker; it can not be set."

_INT_MAX = 2**31 - 1

_FACTS = (
    BrokerKey("delete.topic.enable", "true", BOOLEAN, _FACT),
    BrokerKey("inter.broker.listener.name", "PLAINTEXT", STRING, _FACT),
    BrokerKey("log.dir", LOG_DIR, LIST, _FACT),
    BrokerKey("log.dirs", LOG_DIR, LIST, _FACT),
    BrokerKey("offsets.topic.compression.codec", "0", INT, _FACT),
    BrokerKey("offsets.topic.replication.factor", "1", SHORT, _FACT),
    BrokerKey("offsets.topic.segment.bytes", "104857600", INT, _FACT),
    BrokerKey("process.roles", "broker,controller", LIST, _FACT),
    BrokerKey("security.inter.broker.protocol", "PLAINTEXT", STRING, _FACT),
    BrokerKey("ssl.keystore.type", "PEM", STRING, _FACT),
    BrokerKey("ssl.truststore.type", "PEM", STRING, _FACT),
    BrokerKey("transaction.state.log.min.isr", "1", INT, _FACT),
    BrokerKey("transaction.state.log.replication.factor", "1", SHORT, _FACT),
)
_TOPIC_DEFAULTS = (
    BrokerKey(key.broker_key, key.default, key.rule.config_type, _TOPIC_DEFAULT)
    for key in TOPIC_CONFIGS.keys.values()
    if key.broker_key is not None and key.broker_key not in FIELDS_BY_KEY
)
FIXED_KEYS: Mapping[str, BrokerKey] = {key.name: key for key in (*_FACTS, *_TOPIC_DEFAULTS)}
"""Kafka's keys that are not settings of ours."""


_TYPES: Mapping[str, int] = {
    **{
        key.broker_key: key.rule.config_type
        for key in TOPIC_CONFIGS.keys.values()
        if key.broker_key
    },
    **dict.fromkeys(
        (
            "connections.max.idle.ms",
            "connections.max.reauth.ms",
            "log.cleaner.backoff.ms",
            "log.retention.check.interval.ms",
            "offsets.retention.check.interval.ms",
            "queued.max.request.bytes",
            "sasl.oauthbearer.jwks.endpoint.refresh.ms",
        ),
        LONG,
    ),
    "listener.security.protocol.map": STRING,
    "max.connections.per.ip.overrides": STRING,
}
"""The types that settings have in Kafka, where ours do not show it."""


def key_type(key: str) -> int:
    """The config type of one of our settings, as DescribeConfigs numbers it."""
    if key in _TYPES:
        return _TYPES[key]
    field = FIELDS_BY_KEY[key]
    if field.metadata["sensitive"]:
        return PASSWORD
    if isinstance(field.default, bool):
        return BOOLEAN
    if field.default is None or isinstance(field.default, int):
        high = field.metadata["high"]
        small = (field.default or 0) <= _INT_MAX and (high is None or high <= _INT_MAX)
        return INT if small else LONG
    return LIST if isinstance(field.default, tuple) else STRING


def _dynamic_key(name: str) -> ConfigKey:
    meta = FIELDS_BY_KEY[name].metadata
    rule = ValueRule(key_type(name), meta["low"], meta["high"], choices=meta["choices"])
    return ConfigKey(name, rule, documentation=described(name).meaning)


def is_unknown(key: str) -> bool:
    """Whether the broker does not know the key. As in Kafka clients may set unknown keys, and they
    are kept. No key about TLS or logins counts as unknown: its value might be a secret, and the
    client that sets it expects an effect."""
    own = listener_key(key).key if key.startswith(LISTENER_PREFIX) else key
    return not (
        own in FIELDS_BY_KEY or own in FIXED_KEYS or own == BROKER_ID or may_be_of_listener(own)
    )


class _BrokerConfigTable(ConfigTable):
    def key(self, name: str) -> ConfigKey:
        return ConfigKey(name, ValueRule(STRING)) if is_unknown(name) else super().key(name)


DYNAMIC_CONFIGS = _BrokerConfigTable(
    map(_dynamic_key, sorted(DYNAMIC_KEYS)),
    unknown=(ErrorCode.INVALID_REQUEST, "Cannot update this config dynamically: "),
    invalid=ErrorCode.INVALID_REQUEST,
)


def own_key(config: CoordinatorConfig, key: str) -> BrokerKey:
    """One of our settings as a `BrokerKey`."""
    field = FIELDS_BY_KEY[key]
    value, sensitive = getattr(config, field.name), field.metadata["sensitive"]
    text = None if value is None or sensitive else setting_text(value)
    return BrokerKey(
        key, text, key_type(key), described(key).meaning, value == field.default, sensitive
    )


def default_text(key: str) -> str | None:
    """The default of one of our settings as text; None if it has none or is a secret."""
    entry = FIELDS_BY_KEY[key]
    hidden = entry.default is None or entry.metadata["sensitive"]
    return None if hidden else setting_text(entry.default)


def node_keys(node: Node) -> tuple[BrokerKey, ...]:
    """The keys besides `node.id` whose values differ between nodes."""
    places = node.listeners or (("PLAINTEXT", node.host, node.port),)
    address = ",".join(f"{name}://{address_text(host, port)}" for name, host, port in places)
    doc = "The address that clients are told."
    return (
        BrokerKey("advertised.listeners", address, LIST, doc, is_default=False),
        BrokerKey(BROKER_ID, str(node.node_id), INT, _FACT, is_default=False),
        BrokerKey("listeners", address, LIST, doc, is_default=False),
    )
