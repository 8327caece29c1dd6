"""deploy/compose.cluster.yaml: three nodes that start with flags and settings that exist, and can
reach each other and their clients. No container engine is asked."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import pytest
import yaml

from groupd.coordinator.config.coordinator_config import CoordinatorConfig
from groupd.coordinator.server.descriptors import RESERVED
from groupd.storage.postgres_url import parse_url
from tests.support.daemon import ROOT
from tests.support.deployment import serve_flags

TEXT = (ROOT / "deploy" / "compose.cluster.yaml").read_text()
SERVICES: Mapping[str, Mapping[str, Any]] = yaml.safe_load(TEXT)["services"]
NODES = ("groupd-1", "groupd-2", "groupd-3")


def settings(name: str) -> CoordinatorConfig:
    service = SERVICES[name]
    # Compose makes one dollar of two.
    command = [word.replace("$$", "$") for word in service["command"]]
    assert "--cluster" in command
    flags, config = serve_flags(command, service["environment"])
    assert str(flags.data_dir) == "/data"
    store = parse_url(flags.store or "")
    assert (store.where, store.password) == ("postgresql://postgres:5432/groupd", None)
    return config


def published(name: str) -> dict[int, tuple[str, int]]:
    """Ports of the container -> where they are reached from this machine."""
    found = {}
    for entry in SERVICES[name]["ports"]:
        host, port, inner = entry.split(":")
        found[int(inner)] = (host, int(port))
    return found


def addresses(listeners: Any) -> dict[str, tuple[str, int]]:
    text = listeners if isinstance(listeners, str) else ",".join(listeners)
    found = re.findall(r"(\w+)://([^:,]*):(\d+)", text)
    return {name: (host, int(port)) for name, host, port in found}


def test_there_are_three_nodes_and_a_database() -> None:
    assert SERVICES.keys() == {*NODES, "postgres"}
    volumes = [SERVICES[name]["volumes"][0].partition(":") for name in SERVICES]
    assert {place for place, _, _ in volumes} == yaml.safe_load(TEXT)["volumes"].keys()
    assert [path for _, _, path in volumes[:3]] == ["/data"] * 3


@pytest.mark.parametrize("name", NODES)
def test_a_node_is_told_under_addresses_that_lead_to_it(name: str) -> None:
    config = settings(name)
    bound, told = addresses(config.listeners), addresses(config.advertised_listeners)
    assert list(bound) == ["INTERNAL", "CLIENT"], "the first one is that of the other nodes"
    assert told["INTERNAL"] == (name, bound["INTERNAL"][1])
    assert told["CLIENT"] == published(name)[bound["CLIENT"][1]]
    assert {host for host, _ in published(name).values()} == {"127.0.0.1"}


def test_the_addresses_in_the_comment_are_those_that_clients_are_told() -> None:
    told = [addresses(settings(name).advertised_listeners) for name in NODES]
    named = re.findall(r"[\w.-]+:\d+(?:,[\w.-]+:\d+)+", TEXT.partition("x-node:")[0])
    assert named == [
        ",".join(f"{one[listener][0]}:{one[listener][1]}" for one in told)
        for listener in ("CLIENT", "INTERNAL")
    ]


@pytest.mark.parametrize("name", SERVICES)
def test_every_service_has_limits_and_waits_for_the_database(name: str) -> None:
    service = SERVICES[name]
    assert re.fullmatch(r"\dg", service["mem_limit"])
    if name == "postgres":
        assert service["image"].startswith("postgres:17")
        assert service["healthcheck"]["test"][1] == "pg_isready"
        return
    assert service["ulimits"]["nofile"] >= CoordinatorConfig().max_connections + RESERVED
    assert service["depends_on"] == {"postgres": {"condition": "service_healthy"}}
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    # groupd stops within 5 s.
    assert int(service["stop_grace_period"].removesuffix("s")) > 5


def test_secrets_come_from_the_environment() -> None:
    secrets = [
        service["environment"][name]
        for service in SERVICES.values()
        for name in ("PGPASSWORD", "POSTGRES_PASSWORD", "GROUPD_ADMIN_TOKENS")
        if name in service["environment"]
    ]
    assert len(secrets) == 7
    assert all(re.fullmatch(r"\$\{GROUPD_\w+:\?[^}]+\}", one) for one in secrets)
