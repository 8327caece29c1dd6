"""By which names the admin port answers."""

from __future__ import annotations

import pytest

from groupd.coordinator.admin.admin_limits import AdminHosts

HOSTS = AdminHosts(["0.0.0.0", "Groupd.Example.", "broker"])


@pytest.mark.parametrize(
    "host",
    [
        None,
        "localhost",
        "LocalHost:9644",
        "localhost.",
        "127.0.0.1:9644",
        "10.2.3.4",
        "[::1]:9644",
        "[fe80::1]",
        "groupd.example:80",
        "broker",
    ],
)
def test_own_names_and_every_address_are_allowed(host: str | None) -> None:
    assert HOSTS.allow(host)


@pytest.mark.parametrize(
    "host",
    [
        "",
        ":9644",
        "evil.example",
        "evil.example:9644",
        "localhost.evil.example",
        "127.0.0.1.evil.example",
        "xbroker",
        "[evil]",
        "127.1",
        "2130706433",
    ],
)
def test_other_names_are_not(host: str) -> None:
    assert not HOSTS.allow(host)
