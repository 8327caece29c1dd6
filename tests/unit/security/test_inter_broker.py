"""How a node shows other nodes who it is: which listener, which certificate, which login."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest
import trustme

from groupd.client.connection import UNPROTECTED
from groupd.coordinator.config.coordinator_config import CoordinatorConfig, with_settings
from groupd.coordinator.config.settings import ConfigError
from groupd.coordinator.security.inter_broker import inter_broker_listener, peer_security
from groupd.coordinator.security.listeners import listeners_of
from groupd.coordinator.security.sasl.jaas import PLAIN_MODULE, SCRAM_MODULE
from groupd.coordinator.security.tls import ListenerTls
from tests.support.certificates import keystore, truststore

CA = trustme.CA()
SASL = {
    "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
    "sasl.enabled.mechanisms": "OAUTHBEARER,SCRAM-SHA-512,PLAIN",
    "listener.name.sasl_plaintext.scram-sha-512.sasl.jaas.config": (
        f'{SCRAM_MODULE} required username="node" password="pw";'
    ),
    "listener.name.sasl_plaintext.plain.sasl.jaas.config": (
        f'{PLAIN_MODULE} required user_alice="pw";'
    ),
}


def config_of(**settings: str) -> CoordinatorConfig:
    return with_settings(
        CoordinatorConfig(), {key.replace("__", "."): value for key, value in settings.items()}
    )


def test_the_listener() -> None:
    settings = {"listeners": "SSL://127.0.0.1:1,PLAINTEXT://127.0.0.1:2"}
    config = config_of(**settings)
    found = listeners_of(config, ("", 0))
    assert inter_broker_listener(config, found).name == "SSL"
    named = config_of(**settings, inter__broker__listener__name="plaintext")
    plaintext = inter_broker_listener(named, found)
    assert plaintext.name == "PLAINTEXT"
    assert peer_security(named, plaintext, None) == UNPROTECTED
    unknown = config_of(**settings, inter__broker__listener__name="NO")
    with pytest.raises(ConfigError, match="name=NO: listeners has SSL, PLAINTEXT"):
        inter_broker_listener(unknown, found)


def mechanism_of(settings: dict[str, str]) -> str:
    """The mechanism of the login."""
    config = with_settings(CoordinatorConfig(), settings)
    (listener,) = listeners_of(config, ("", 0))
    security = peer_security(config, listener, None)
    assert security.login is not None
    return security.login.mechanism


def test_the_login() -> None:
    assert mechanism_of(SASL) == "SCRAM-SHA-512"
    wanted = {**SASL, "sasl.mechanism.inter.broker.protocol": "PLAIN"}
    with pytest.raises(ConfigError, match=r"plain\.sasl\.jaas\.config: needs username"):
        mechanism_of(wanted)
    for other in ("OAUTHBEARER", "SCRAM-SHA-256", "GSSAPI"):
        wanted["sasl.mechanism.inter.broker.protocol"] = other
        with pytest.raises(ConfigError, match=f"protocol={other}: must be one of PLAIN"):
            mechanism_of(wanted)


def test_the_certificate(tmp_path: Path) -> None:
    """It is the listener's own, also when that is read again."""
    keys = keystore(tmp_path / "keys.pem", CA.issue_cert("a.example", common_name="a"))
    settings = {
        "listeners": "SSL://127.0.0.1:0",
        "ssl.keystore.location": str(keys),
        "ssl.truststore.location": str(truststore(tmp_path / "ca.pem", CA)),
        "ssl.allow.dn.changes": "true",
    }
    config = with_settings(CoordinatorConfig(), settings)
    (listener,) = listeners_of(config, ("", 0))
    tls = ListenerTls(config, listener)
    make = peer_security(config, listener, tls).tls
    assert make is not None
    first = make()
    assert first is make()
    assert (first.verify_mode, first.check_hostname) == (ssl.CERT_REQUIRED, True)
    assert len(first.get_ca_certs()) == 1
    keystore(keys, CA.issue_cert("a.example", common_name="a"))
    tls.reload()
    second = make()
    assert second is not first
    keys.write_text("broken")
    tls.reload()
    assert tls.failed_reloads == 1
    assert make().get_ca_certs() == second.get_ca_certs(), "what there was goes on"
    settings |= {"ssl.endpoint.identification.algorithm": "", "ssl.truststore.location": ""}
    open_config = with_settings(CoordinatorConfig(), settings)
    keystore(keys, CA.issue_cert("a.example", common_name="a"))
    trusting = ListenerTls(open_config, listener).client_context()
    assert (trusting.verify_mode, trusting.check_hostname) == (ssl.CERT_REQUIRED, False)
    no_certificate = "-----BEGIN CERTIFICATE-----\nx\n-----END CERTIFICATE-----"
    settings["ssl.truststore.certificates"] = no_certificate
    broken = with_settings(CoordinatorConfig(), settings)
    with pytest.raises(ConfigError, match=r"ssl\.truststore\.certificates: cannot be read"):
        peer_security(broken, listener, ListenerTls(broken, listener))
