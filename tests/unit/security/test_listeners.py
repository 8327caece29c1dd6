"""Listeners, from settings; and the settings that hold for one of them (SE-02)."""

from __future__ import annotations

import pytest

from groupd.coordinator.config.coordinator_config import (
    CoordinatorConfig,
    secret,
    settings_of,
    with_settings,
)
from groupd.coordinator.config.settings import ConfigError
from groupd.coordinator.security.listeners import (
    Listener,
    SecurityProtocol,
    listener_config,
    listeners_of,
)

LISTEN = ("127.0.0.1", 9092)


def config_of(**settings: str) -> CoordinatorConfig:
    named = {key.replace("__", "."): value for key, value in settings.items()}
    return with_settings(CoordinatorConfig(), named)


def found(**settings: str) -> tuple[Listener, ...]:
    return listeners_of(config_of(**settings), LISTEN)


def test_without_the_setting_there_is_one_of_the_command_line() -> None:
    told = ("broker", 1)
    listener = Listener("PLAINTEXT", SecurityProtocol.PLAINTEXT, *LISTEN, told)
    assert listeners_of(CoordinatorConfig(), LISTEN, told) == (listener,)


def test_names_protocols_and_addresses() -> None:
    listeners = found(
        listeners="plaintext://:0,External://[::1]:9093,sasl_ssl://broker:0",
        advertised__listeners="EXTERNAL://kafka.example:443",
        listener__security__protocol__map="PLAINTEXT:PLAINTEXT,SASL_SSL:sasl_ssl,external:SSL",
    )
    assert listeners == (
        Listener("PLAINTEXT", SecurityProtocol.PLAINTEXT, "", 0),
        Listener("EXTERNAL", SecurityProtocol.SSL, "::1", 9093, ("kafka.example", 443)),
        Listener("SASL_SSL", SecurityProtocol.SASL_SSL, "broker", 0),
    )
    assert [(one.protocol.tls, one.protocol.sasl) for one in listeners] == [
        (False, False),
        (True, False),
        (True, True),
    ]


def test_a_port_may_be_shared_by_both_versions_of_ip_and_by_what_is_advertised() -> None:
    listeners = found(
        listeners="PLAINTEXT://127.0.0.1:9092,SSL://[::1]:9092",
        advertised__listeners="SSL://kafka:9094,PLAINTEXT://kafka:9094",
    )
    assert [listener.advertised for listener in listeners] == [("kafka", 9094)] * 2


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"listeners": "EXTERNAL://:9092"}, "EXTERNAL has no security protocol"),
        ({"listeners": "PLAINTEXT://:9092,plaintext://:9093"}, "PLAINTEXT is there twice"),
        ({"listeners": "PLAINTEXT://a:9092,SSL://b:9092"}, "port 9092 is there twice"),
        ({"listeners": "PLAINTEXT://1.1.1.1:9,SSL://1.1.1.2:9"}, "port 9 is there twice"),
        ({"listeners": "PLAINTEXT:9092"}, "must be NAME://HOST:PORT"),
        ({"listeners": "PLAINTEXT://a:65536"}, "with a port from 0 to 65535"),
        ({"listeners": "PLAINTEXT://a:-1"}, "must be NAME://HOST:PORT"),
        ({"listeners": "PLAINTEXT://user@a/b:1"}, "must be NAME://HOST:PORT"),
        ({"advertised__listeners": "PLAINTEXT://a:1"}, "only with listeners"),
        (
            {"listeners": "SSL://:1", "advertised__listeners": "SSL://0.0.0.0:1"},
            "SSL has the address 0.0.0.0, to which no client can connect",
        ),
        (
            {"listeners": "SSL://:1", "advertised__listeners": "SSL://:1"},
            "SSL has the address of all interfaces",
        ),
        ({"listeners": "SSL://:1", "advertised__listeners": "SSL://[::]:1"}, "no client can"),
        ({"listeners": "SSL://:1", "advertised__listeners": "SSL://a:0"}, "has port 0"),
        (
            {"listeners": "SSL://:1", "advertised__listeners": "PLAINTEXT://a:1"},
            "PLAINTEXT is not in listeners",
        ),
        ({"listener__security__protocol__map": "A:GSSAPI"}, "must be NAME:PROTOCOL with one of"),
        ({"listener__security__protocol__map": "A:SSL,a:SSL"}, "A is there twice"),
        (
            {"listener__name__ssl__max__connections": "5"},
            "there is no listener SSL; listeners has PLAINTEXT",
        ),
    ],
)
def test_what_ends_the_start(settings: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        found(**settings)
    assert "\n" not in str(caught.value)


def test_the_short_form_is_not_for_several_listeners() -> None:
    with pytest.raises(ConfigError, match="--advertised: not with listeners"):
        listeners_of(config_of(listeners="SSL://:1"), LISTEN, ("a", 1))


def test_the_most_specific_value_counts() -> None:
    config = with_settings(
        CoordinatorConfig(),
        {
            "max.connections": "100",
            "connections.max.idle.ms": "1000",
            "listener.name.ssl.max.connections": "7",
            "listener.name.ssl.connections.max.idle.ms": " 50 ",
        },
    )
    of_ssl = listener_config(config, "SSL")
    assert (of_ssl.max_connections, of_ssl.connections_max_idle_ms) == (7, 50)
    assert listener_config(config, "PLAINTEXT") is config
    later = with_settings(config, {"listener.name.ssl.max.connections": "8"})
    assert listener_config(later, "SSL").connections_max_idle_ms == 50
    assert with_settings(CoordinatorConfig(), settings_of(later)) == later


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("listener.name.ssl.max.conections", "1", "did you mean max.connections?"),
        ("listener.name.ssl.node.id", "1", "node.id is no setting of a listener"),
        ("listener.name.ssl.max.connections.per.ip", "1", "is no setting of a listener"),
        ("listener.name.SSL.max.connections", "1", "with the name in lower case"),
        ("listener.name.ssl", "1", "must be listener.name.NAME.KEY"),
        (
            "listener.name.ssl.max.connections",
            "none",
            "listener.name.ssl.max.connections=none: must be a whole number",
        ),
        ("listener.name.ssl.plain.max.connections", "1", "no setting of a SASL mechanism"),
    ],
)
def test_a_wrong_setting_of_a_listener(key: str, value: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        with_settings(CoordinatorConfig(), {key: value})


def test_what_is_no_secret_is_shown() -> None:
    assert not secret("max.connections")
    assert not secret("listener.name.ssl.max.connections")
