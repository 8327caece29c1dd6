"""Which mechanisms a listener has, and which settings it is refused for: SE-42."""

from __future__ import annotations

from pathlib import Path

import pytest
from structlog.testing import capture_logs

from groupd.coordinator.config.coordinator_config import CoordinatorConfig, with_settings
from groupd.coordinator.config.settings import ConfigError
from groupd.coordinator.security.listeners import listeners_of
from groupd.coordinator.security.sasl.enabled import (
    EnabledMechanisms,
    Sources,
    enabled_mechanisms,
)
from tests.support.sasl_client import ALL_MECHANISMS, plain_config, sasl_settings
from tests.support.scram_client import KnownUsers

SOURCES = Sources(KnownUsers(), b"secret", lambda: 0)
PLAIN_KEY = "listener.name.short.plain.sasl.jaas.config"


def enabled(directory: Path, name: str = "SHORT", **changes: str) -> EnabledMechanisms:
    settings = {**sasl_settings(directory), **changes}
    config = with_settings(CoordinatorConfig(), settings)
    listeners = listeners_of(config, ("127.0.0.1", 0))
    return enabled_mechanisms(config, next(one for one in listeners if one.name == name), SOURCES)


def test_each_listener_has_its_own(tmp_path: Path) -> None:
    with capture_logs() as lines:
        everything = enabled(tmp_path, "SASL_PLAINTEXT").by_name
    assert tuple(everything) == ALL_MECHANISMS
    assert [line["event"] for line in lines] == ["passwords cross the network unencrypted"]
    short = enabled(
        tmp_path, **{"listener.name.short.oauthbearer.connections.max.reauth.ms": "500"}
    ).by_name
    assert {name: one.max_reauth_ms for name, one in short.items()} == {
        "PLAIN": 2000,
        "SCRAM-SHA-256": 2000,
        "OAUTHBEARER": 500,
    }


def test_no_warning_under_tls(tmp_path: Path) -> None:
    protocols = "PLAINTEXT:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT,SHORT:SASL_SSL"
    with capture_logs() as lines:
        enabled(tmp_path, **{"listener.security.protocol.map": protocols})
    assert lines == []


def test_what_may_be_left_out(tmp_path: Path) -> None:
    changes = {
        "sasl.oauthbearer.expected.audience": "",
        "sasl.oauthbearer.allow.unverified.audience": "true",
        "sasl.oauthbearer.expected.issuer": "",
        "sasl.oauthbearer.allow.unverified.issuer": "true",
    }
    assert "OAUTHBEARER" in enabled(tmp_path, **changes).by_name


def test_modules_of_other_mechanisms_are_accepted(tmp_path: Path) -> None:
    package = "org.apache.kafka.common.security"
    changes = {
        "listener.name.short.scram-sha-256.sasl.jaas.config": (
            f"{package}.scram.ScramLoginModule required;"
        ),
        "listener.name.short.oauthbearer.sasl.jaas.config": (
            f"{package}.oauthbearer.OAuthBearerLoginModule required;"
        ),
    }
    assert len(enabled(tmp_path, **changes).by_name) == 3


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("sasl.oauthbearer.jwks.endpoint.url", "", "jwks.endpoint.url"),
        (
            "sasl.oauthbearer.jwks.endpoint.url",
            "file:///nowhere",
            "/nowhere cannot be used: No such",
        ),
        ("sasl.oauthbearer.jwks.endpoint.url", "http://idp.test", "file: or https:"),
        ("sasl.oauthbearer.expected.audience", "", "expected.audience"),
        ("sasl.oauthbearer.expected.issuer", "", "expected.issuer"),
        ("listener.name.short.sasl.enabled.mechanisms", "", "needs one of PLAIN"),
        ("listener.name.short.sasl.enabled.mechanisms", "GSSAPI", "GSSAPI"),
        ("listener.name.short.sasl.enabled.mechanisms", "plain", "plain: must be one of"),
        (PLAIN_KEY, "", "PLAIN needs users"),
        (PLAIN_KEY, "x", "MODULE required"),
        (PLAIN_KEY, plain_config({"alice": ""}), "a name and a password"),
        (PLAIN_KEY, 'Other required user_a="secret-pw";', "PlainLoginModule"),
        ("connections.max.idle.ms", "100", "connection.failed.authentication.delay.ms"),
    ],
)
def test_refused(tmp_path: Path, key: str, value: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        enabled(tmp_path, **{key: value})
    assert message in str(caught.value)
    assert "secret-pw" not in str(caught.value)
