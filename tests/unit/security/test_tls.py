"""TLS of a listener: from settings, and read again (SE-09, SE-10)."""

from __future__ import annotations

import os
import ssl
from pathlib import Path

import pytest
import trustme

from groupd.coordinator.config.coordinator_config import (
    CoordinatorConfig,
    secret,
    settings_of,
    with_settings,
)
from groupd.coordinator.config.settings import ConfigError
from groupd.coordinator.security.listeners import Listener, SecurityProtocol
from groupd.coordinator.security.tls import ListenerTls
from tests.support.certificates import chain_pem, key_pem, keystore, truststore

CA = trustme.CA()


def renewed(*names: str, common_name: str = "broker") -> trustme.LeafCert:
    return CA.issue_cert(*names, common_name=common_name, organization_unit_name="tests")


CERTIFICATE = renewed("kafka.example", "10.0.0.1")
OF_RSA = CA.issue_cert("x", key_type=trustme.KeyType.RSA)
SSL = Listener("SSL", SecurityProtocol.SSL, "", 0)
SASL_SSL = Listener("SECURE", SecurityProtocol.SASL_SSL, "", 0)


def tls_of(settings: dict[str, str], listener: Listener = SSL) -> ListenerTls:
    return ListenerTls(with_settings(CoordinatorConfig(), settings), listener)


@pytest.fixture
def files(tmp_path: Path) -> dict[str, str]:
    return {
        "ssl.keystore.location": str(keystore(tmp_path / "broker.pem", CERTIFICATE)),
        "ssl.truststore.location": str(truststore(tmp_path / "clients.pem", CA)),
    }


def test_what_clients_are_offered(files: dict[str, str]) -> None:
    context = tls_of(files).context
    assert context.minimum_version == ssl.TLSVersion.TLSv1_2
    assert context.maximum_version == ssl.TLSVersion.TLSv1_3
    assert context.options & ssl.OP_NO_RENEGOTIATION
    assert context.options & ssl.OP_NO_COMPRESSION
    assert context.verify_mode == ssl.CERT_NONE


@pytest.mark.parametrize("joint", ["\n", "\\n", " "])
def test_certificates_in_the_settings_themselves(joint: str) -> None:
    """A .properties file has no lines in a value."""

    def inline(pem: str) -> str:
        return pem.strip().replace("\n", joint)

    tls = tls_of(
        {
            "ssl.keystore.certificate.chain": inline(chain_pem(CERTIFICATE)),
            "ssl.keystore.key": inline(key_pem(CERTIFICATE, "opens")),
            "ssl.key.password": "opens",
            "ssl.truststore.certificates": inline(CA.cert_pem.bytes().decode()),
            "ssl.client.auth": "required",
        }
    )
    assert tls.context.verify_mode == ssl.CERT_REQUIRED
    assert tls.context.cert_store_stats()["x509_ca"] == 1


def test_keys_and_passwords_are_secrets() -> None:
    config = with_settings(
        CoordinatorConfig(), {"ssl.key.password": "hush", "listener.name.ssl.ssl.keystore.key": "K"}
    )
    assert secret("ssl.keystore.key")
    assert secret("listener.name.ssl.ssl.key.password")
    assert "hush" not in repr(config)
    assert "K" not in settings_of(config).values()
    assert not {"ssl.key.password", "listener.name.ssl.ssl.keystore.key"} & set(settings_of(config))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"ssl.keystore.location": ""}, "listener SSL has no certificate"),
        ({"ssl.keystore.location": "/no/such/file"}, "No such file"),
        ({"ssl.keystore.key": "x"}, "not with ssl.keystore.certificate.chain"),
        ({"ssl.truststore.certificates": "x"}, "not with ssl.truststore.certificates"),
        ({"ssl.client.auth": "required", "ssl.truststore.location": ""}, "needs the CAs"),
        ({"ssl.enabled.protocols": "TLSv1.1"}, "TLSv1.1: must be TLSv1.2 or TLSv1.3"),
        ({"ssl.enabled.protocols": "TLSv1.3", "ssl.protocol": "TLSv1.2"}, "must have TLSv1.2"),
        ({"ssl.cipher.suites": "TLS_NO_SUCH_SUITE"}, "knows none of them"),
        ({"ssl.cipher.suites": "TLS_AES_1_GCM"}, "does not know TLS_AES_1_GCM"),
        ({"ssl.principal.mapping.rules": "RULE:x"}, "is no rule"),
    ],
)
def test_what_ends_the_start(files: dict[str, str], settings: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        tls_of({**files, **settings})
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (chain_pem(CERTIFICATE), "has no private key"),
        (key_pem(CERTIFICATE), "has no certificate"),
        (chain_pem(CERTIFICATE) + key_pem(CA.issue_cert("x")), "does not fit"),
        (chain_pem(CERTIFICATE) + key_pem(OF_RSA), "does not fit"),
        (chain_pem(CERTIFICATE) + key_pem(CERTIFICATE, "hush"), "does not open it"),
        (chain_pem(CERTIFICATE).replace("M", "!") + key_pem(CERTIFICATE), "cannot be read"),
        ("", "has no certificate"),
    ],
)
def test_files_that_cannot_be_used(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "broker.pem"
    path.write_text(text)
    with pytest.raises(ConfigError, match=message) as caught:
        tls_of({"ssl.keystore.location": str(path), "ssl.key.password": "no"})
    assert str(path) in str(caught.value)


@pytest.mark.parametrize(
    ("suites", "least", "most", "names"),
    [
        (
            "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,TLS_AES_128_GCM_SHA256",
            ssl.TLSVersion.TLSv1_2,
            ssl.TLSVersion.TLSv1_3,
            {"ECDHE-RSA-AES128-GCM-SHA256"},
        ),
        (
            "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,TLS_RSA_WITH_AES_256_GCM_SHA384",
            ssl.TLSVersion.TLSv1_2,
            ssl.TLSVersion.TLSv1_2,
            {"ECDHE-ECDSA-CHACHA20-POLY1305", "AES256-GCM-SHA384"},
        ),
        ("TLS_AES_256_GCM_SHA384", ssl.TLSVersion.TLSv1_3, ssl.TLSVersion.TLSv1_3, None),
    ],
)
def test_cipher_suites(
    files: dict[str, str],
    suites: str,
    least: ssl.TLSVersion,
    most: ssl.TLSVersion,
    names: set[str] | None,
) -> None:
    context = tls_of({**files, "ssl.cipher.suites": suites}).context
    assert (context.minimum_version, context.maximum_version) == (least, most)
    older = {one["name"] for one in context.get_ciphers() if one["protocol"] != "TLSv1.3"}
    if names is not None:
        assert older == names


@pytest.mark.parametrize(
    ("listener", "settings", "mode"),
    [
        (SSL, {"ssl.client.auth": "required"}, ssl.CERT_REQUIRED),
        (SSL, {"ssl.client.auth": "requested"}, ssl.CERT_OPTIONAL),
        (SASL_SSL, {"ssl.client.auth": "required"}, ssl.CERT_NONE),
        (SASL_SSL, {"listener.name.secure.ssl.client.auth": "required"}, ssl.CERT_REQUIRED),
    ],
)
def test_whose_certificate_is_wanted(
    files: dict[str, str], listener: Listener, settings: dict[str, str], mode: ssl.VerifyMode
) -> None:
    """SE-09."""
    assert tls_of({**files, **settings}, listener).context.verify_mode == mode


# Reading again ------------------------------------------------------------------------------


def written(path: str, certificate: trustme.LeafCert) -> None:
    """Writes the certificate anew, at a time that differs."""
    before = os.stat(path).st_mtime_ns
    keystore(Path(path), certificate)
    os.utime(path, ns=(before + 1_000_000_000, before + 1_000_000_000))


def test_a_new_certificate_takes_the_place_of_the_old_one(files: dict[str, str]) -> None:
    tls = tls_of(files)
    first = tls.context
    tls.look()
    assert tls.context is first, "nothing has changed"
    written(files["ssl.keystore.location"], renewed("10.0.0.1", "more.example", "kafka.example"))
    tls.look()
    assert tls.context is not first
    assert (tls.reloads, tls.failed_reloads) == (1, 0)


@pytest.mark.parametrize(
    ("certificate", "allowed_by"),
    [
        (renewed("kafka.example"), "ssl.allow.san.changes"),
        (renewed("kafka.example", "10.0.0.1", common_name="other"), "ssl.allow.dn.changes"),
    ],
)
def test_another_broker_does_not_take_its_place(
    files: dict[str, str], certificate: trustme.LeafCert, allowed_by: str
) -> None:
    tls, lenient = tls_of(files), tls_of({**files, allowed_by: "true"})
    first = tls.context
    written(files["ssl.keystore.location"], certificate)
    for one in (tls, tls, lenient):
        one.look()
    assert tls.context is first
    assert (tls.reloads, tls.failed_reloads) == (0, 1), "the same file is tried once"
    assert lenient.reloads == 1


def test_a_broken_file_changes_nothing_until_it_is_mended(files: dict[str, str]) -> None:
    tls, path = tls_of(files), Path(files["ssl.keystore.location"])
    first = tls.context
    path.unlink()
    tls.look()
    path.write_text(chain_pem(CERTIFICATE) + key_pem(renewed("x")))
    tls.look()
    assert tls.context is first
    assert tls.failed_reloads == 2
    written(str(path), CERTIFICATE)
    tls.look()
    assert tls.context is not first
    assert tls.reloads == 1


def test_broken_authorities_of_clients_change_nothing_until_they_are_mended(
    files: dict[str, str],
) -> None:
    tls = tls_of({**files, "ssl.client.auth": "required"})
    path, first = Path(files["ssl.truststore.location"]), tls.context
    good = path.read_bytes()
    for broken in (good.replace(b"M", b"\xff", 1), good.replace(b"M", b"!", 1)):
        path.write_bytes(broken)
        with pytest.raises(ConfigError, match="cannot be read"):
            tls_of({**files, "ssl.client.auth": "required"})
        tls.reload()
    assert tls.context is first
    assert tls.failed_reloads == 2
    path.write_bytes(good)
    tls.reload()
    assert tls.context is not first


def test_a_request_to_reload_reads_files_that_look_the_same(files: dict[str, str]) -> None:
    tls = tls_of(files)
    tls.reload()
    assert tls.reloads == 1
