"""How commands connect to a secured cluster: `--command-config FILE` with the properties that
Kafka's own tools take.

Used are `security.protocol`, `sasl.mechanism`, `sasl.jaas.config` (PLAIN and SCRAM),
`sasl.oauthbearer.token.endpoint.url` (OAUTHBEARER: a file with the token),
`ssl.truststore.location` or `ssl.truststore.certificates`, `ssl.keystore.location`,
`ssl.key.password` and `ssl.endpoint.identification.algorithm`. Other keys are left alone. Stores
are PEM files.
"""

from __future__ import annotations

import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import unquote, urlsplit

from groupd.client.connection import UNPROTECTED, ClientSecurity
from groupd.client.sasl import (
    OAUTHBEARER,
    PASSWORD_MECHANISMS,
    SaslLogin,
    bearer_login,
    password_login,
)
from groupd.coordinator.cli.errors import UsageError
from groupd.coordinator.cli.kafka.cluster import KafkaCluster
from groupd.coordinator.cli.parse import properties_file, servers
from groupd.coordinator.config.settings import ConfigError
from groupd.coordinator.security.sasl.jaas import parse_jaas

FLAG = "--command-config"
_KEYS = "a private key and its certificate in PEM; ssl.key.password opens an encrypted key"
MECHANISMS = (*PASSWORD_MECHANISMS, OAUTHBEARER)
TOKEN_URL = "sasl.oauthbearer.token.endpoint.url"
PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")


def open_cluster(bootstrap: str, command_config: Path | None) -> KafkaCluster:
    """The cluster of `--bootstrap`, for a `with` statement. Raises UsageError; entering it raises
    KafkaError."""
    return KafkaCluster(servers(bootstrap, "--bootstrap"), client_security(command_config))


def client_security(command_config: Path | None) -> ClientSecurity:
    """What the file says; without one, nothing is protected. Raises UsageError."""
    if command_config is None:
        return UNPROTECTED
    given = properties_file(command_config, FLAG)
    protocol = given.get("security.protocol", "PLAINTEXT").upper()
    if protocol not in PROTOCOLS:
        raise UsageError(f"{FLAG}: security.protocol={protocol}: must be {', '.join(PROTOCOLS)}")
    tls = _tls(given) if protocol.endswith("SSL") else None
    return ClientSecurity(
        tls=None if tls is None else lambda: tls,
        login=_login(given) if protocol.startswith("SASL") else None,
    )


def _login(given: Mapping[str, str]) -> SaslLogin:
    mechanism = given.get("sasl.mechanism", "")
    if mechanism not in MECHANISMS:
        raise UsageError(f"{FLAG}: sasl.mechanism={mechanism}: must be {', '.join(MECHANISMS)}")
    if mechanism == OAUTHBEARER:
        return bearer_login(_token(given))
    try:
        options = parse_jaas(given.get("sasl.jaas.config", ""), "sasl.jaas.config").options
    except ConfigError as error:
        raise UsageError(f"{FLAG}: {error}") from None
    user, password = options.get("username"), options.get("password")
    if not user or not password:
        raise UsageError(f"{FLAG}: sasl.jaas.config must have username and password")
    return password_login(mechanism, user, password)


def _token(given: Mapping[str, str]) -> str:
    where = urlsplit(given.get(TOKEN_URL, ""))
    if where.scheme != "file":
        raise UsageError(f"{FLAG}: {TOKEN_URL} must be file:///PATH of a file with the token")
    path = Path(unquote(where.path))
    try:
        return path.read_text(encoding="ascii").strip()
    except OSError as error:
        raise UsageError(f"{FLAG}: {TOKEN_URL}={path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise UsageError(f"{FLAG}: {TOKEN_URL}={path}: holds no token") from None


def _tls(given: Mapping[str, str]) -> ssl.SSLContext:
    trusted, keys = _pem_file(given, "truststore"), _pem_file(given, "keystore")
    place = f"ssl.truststore.location={trusted}" if trusted else "ssl.truststore.certificates"
    with _named(place, "certificates in PEM"):
        context = ssl.create_default_context(
            cafile=trusted,
            cadata=given.get("ssl.truststore.certificates", "") or None,
        )
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.check_hostname = given.get("ssl.endpoint.identification.algorithm") != ""
    if keys is not None:
        # With a password OpenSSL never asks the terminal for one.
        with _named(f"ssl.keystore.location={keys}", _KEYS):
            context.load_cert_chain(keys, password=given.get("ssl.key.password", ""))
    return context


@contextmanager
def _named(setting: str, wanted: str) -> Iterator[None]:
    """Tells a failure as a UsageError that names the setting. OpenSSL often does not say what is
    wrong, so the error says what is `wanted`."""
    try:
        yield
    except (ssl.SSLError, ValueError, TypeError):  # TypeError: not ASCII
        raise UsageError(f"{FLAG}: {setting} cannot be used: it must hold {wanted}") from None
    except OSError as error:
        raise UsageError(f"{FLAG}: {setting}: {error.strerror}") from None


def _pem_file(given: Mapping[str, str], store: str) -> str | None:
    location = given.get(f"ssl.{store}.location")
    if location is None:
        return None
    kind = given.get(f"ssl.{store}.type", "")
    if kind.upper() not in ("", "PEM") or location.lower().endswith((".jks", ".p12", ".pfx")):
        raise UsageError(f"{FLAG}: ssl.{store}.location must be a PEM file")
    return location
