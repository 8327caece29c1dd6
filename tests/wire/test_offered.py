"""What a broker offers: versions of APIs, features, configs. groupd's own tables say it, and with
GROUPD_PEER=kafka they are compared with those of a stock broker."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from groupd.coordinator.config.coordinator_config import FIELDS_BY_KEY
from groupd.coordinator.config.keys import ConfigKey
from groupd.coordinator.core.group_types import group_configs
from groupd.coordinator.topics.broker_keys import DYNAMIC_KEYS, FIXED_KEYS, INTERNAL_KEYS, key_type
from groupd.coordinator.topics.topic_configs import BROKER_KEY_UNITS, TOPIC_CONFIGS
from groupd.protocol.wire.apis import API_BY_KEY
from tests.support.process import wait_until
from tests.support.wire_client import WireClient
from tests.wire.test_configs import BROKER, DELETE, GROUP, SET, TOPIC, alter, broker, topic

__all__ = ["broker", "topic"]

TELEMETRY = {71, 72}
"""Kafka hides them unless a plug-in takes the metrics."""
NO_SUCH_GROUPS = "streams."
"""Configs of groups that groupd does not have begin with this."""
CERTIFICATES = {"ssl.keystore.certificate.chain", "ssl.truststore.certificates"}
"""In Kafka they are passwords, though they are public."""
AUTHORIZER = {"allow.everyone.if.no.acl.found", "super.users"}
"""In Kafka they belong to the authorizer: the broker shows them once they are set."""


def described(client: WireClient, kind: int, name: str) -> dict[str, Any]:
    """The configs by name."""
    asked = {"resource_type": kind, "resource_name": name, "configuration_keys": None}
    fields = {"resources": [asked], "include_synonyms": True}
    (found,) = client.call("DescribeConfigs", 4, **fields)["results"]
    assert found["error_code"] == 0, found
    return {entry["name"]: entry for entry in found["configs"]}


def test_versions_of_apis(client: WireClient) -> None:
    reply = client.call("ApiVersions", 0)
    offered = {
        one["api_key"]: (one["min_version"], one["max_version"]) for one in reply["api_keys"]
    }
    ours = {
        key: (api.min_version, api.max_version)
        for key, api in API_BY_KEY.items()
        if key not in TELEMETRY
    }
    assert {key: offered.get(key) for key in ours} == ours


def test_features(client: WireClient) -> None:
    reply = client.call("ApiVersions", 4, client_software_name="a", client_software_version="1")
    supported = {
        one["name"]: (one["min_version"], one["max_version"]) for one in reply["supported_features"]
    }
    finalized = {one["name"]: one["max_version_level"] for one in reply["finalized_features"]}
    wanted = {"group.version": (0, 1), "share.version": (0, 2), "transaction.version": (0, 2)}
    assert {name: supported.get(name) for name in wanted} == wanted
    assert {name: finalized.get(name) for name in wanted} == {
        name: high for name, (_, high) in wanted.items()
    }


def _synonyms(key: ConfigKey) -> list[str]:
    # Kafka shows no default that has another unit.
    return [key.broker_key] if key.broker_key and key.broker_key not in BROKER_KEY_UNITS else []


def test_configs_of_topics(client: WireClient, topic: str) -> None:
    found = described(client, TOPIC, topic)
    assert {
        name: (one["value"], one["config_type"], [each["name"] for each in one["synonyms"][-1:]])
        for name, one in found.items()
    } == {
        name: (key.default, key.rule.config_type, _synonyms(key))
        for name, key in TOPIC_CONFIGS.keys.items()
    }


def test_configs_of_groups(client: WireClient) -> None:
    found = described(client, GROUP, uuid.uuid4().hex)
    wanted = set(group_configs().keys)
    assert {name for name in found if not name.startswith((NO_SUCH_GROUPS, "groupd."))} == {
        name for name in wanted if not name.startswith("groupd.")
    }


def test_configs_of_the_broker(client: WireClient, broker: str) -> None:
    found = described(client, BROKER, broker)
    ours = {key: key_type(key) for key in FIELDS_BY_KEY if not key.startswith("groupd.")}
    ours |= {key: one.config_type for key, one in FIXED_KEYS.items()}
    for key in INTERNAL_KEYS | CERTIFICATES | AUTHORIZER:
        del ours[key]
    assert {key: found[key]["config_type"] if key in found else None for key in ours} == ours
    assert not INTERNAL_KEYS & found.keys()
    for key in DYNAMIC_KEYS:
        assert not found[key]["read_only"], key


@pytest.mark.parametrize("key", ["log.retention.ms", "log.retention.bytes"])
def test_retention_of_the_cluster_may_be_long(client: WireClient, key: str) -> None:
    """30 days in milliseconds are more than 32 bits hold."""
    assert alter(client, BROKER, "", (key, SET, "2592000000")) == (0, None)
    wait_until(
        lambda: described(client, BROKER, "").get(key, {}).get("value") == "2592000000",
        5,
        "the value",
    )
    assert alter(client, BROKER, "", (key, DELETE, None)) == (0, None)
