"""TLS of one listener: its certificate and its rules, which are read again when files change
(`docs/spec/security.md#1.1`)."""

from __future__ import annotations

import os
import re
import ssl
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime

import structlog
from msgspec import Struct

from groupd.coordinator.config.coordinator_config import CoordinatorConfig
from groupd.coordinator.config.settings import LISTENER_PREFIX, ConfigError
from groupd.coordinator.security.certificates import (
    Certificate,
    PrincipalRules,
    read_certificate,
    subject_of,
)
from groupd.coordinator.security.listeners import Listener, SecurityProtocol, listener_config

KEY = "ssl.cipher.suites"

_TLS_1_3 = re.compile(r"TLS_(AES|CHACHA20)_[A-Z0-9_]+")


def choose_suites(context: ssl.SSLContext, suites: Sequence[str]) -> None:
    """Allows only these suites; none: leaves the choice to OpenSSL. The suites of TLS 1.3 cannot be
    chosen one by one. Raises ConfigError."""
    if not suites:
        return
    newest = [name for name in suites if _TLS_1_3.fullmatch(name)]
    older = {name: openssl_name(name) for name in suites if name not in newest}
    try:
        if older:
            context.set_ciphers(":".join(older.values()))
    except ssl.SSLError:
        raise ConfigError(f"{KEY}={','.join(suites)}: OpenSSL knows none of them") from None
    known = {suite["name"] for suite in context.get_ciphers()}
    for name in suites:
        if (name if name in newest else older[name]) not in known:
            raise ConfigError(f"{KEY}: OpenSSL does not know {name}, or does not allow it")
    if not newest:
        context.maximum_version = ssl.TLSVersion.TLSv1_2
    if not older:
        context.minimum_version = ssl.TLSVersion.TLSv1_3


def openssl_name(name: str) -> str:
    """OpenSSL's name of a suite: ECDHE-RSA-AES128-GCM-SHA256 for
    TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256. Names of OpenSSL stay as they are."""
    if not name.startswith("TLS_"):
        return name
    exchange, _, cipher = name.removeprefix("TLS_").partition("_WITH_")
    cipher = re.sub(r"AES_(128|256)_(CBC_)?", r"AES\1_", cipher)
    cipher = cipher.replace("CHACHA20_POLY1305_SHA256", "CHACHA20_POLY1305")
    parts = [cipher] if exchange == "RSA" else [exchange, cipher]
    return "-".join(parts).replace("_", "-")


# `ssl` takes certificates only from files, so inline certificates go through a file in memory.

log = structlog.get_logger("groupd.tls")

_PEM = re.compile(r"-----BEGIN ([A-Z0-9 ]+)-----(.*?)-----END \1-----", re.DOTALL)
_VERSIONS = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
_CLIENT_AUTH = {
    "none": ssl.CERT_NONE,
    "requested": ssl.CERT_OPTIONAL,
    "required": ssl.CERT_REQUIRED,
}


class NoPrincipal(Exception):
    """No principal can be made from a client's certificate; `str()` says why."""


class _Material(Struct, frozen=True):
    """The contents of the settings and files, as PEM. `stamps`: the state of the files when they
    were read."""

    chain: str
    key: str
    trusted: str
    stamps: tuple[object, ...]


class ListenerTls:
    """TLS of one listener. `context`: the context for new connections. Raises ConfigError."""

    context: ssl.SSLContext

    def __init__(self, config: CoordinatorConfig, listener: Listener) -> None:
        self.listener = listener
        self.reloads = 0
        self.failed_reloads = 0
        self._config = listener_config(config, listener.name)
        self._client_auth = _client_auth(self._config, config, listener)
        self._rules = PrincipalRules(self._config.ssl_principal_mapping_rules)
        self._material = self._read()
        self.context, self._identity = self._made(self._material)
        self._as_client: tuple[_Material, ssl.SSLContext] | None = None

    @property
    def expires(self) -> datetime:
        """When the certificate of the broker expires."""
        return self._identity.expires

    def principal_of(self, connection: ssl.SSLObject) -> str | None:
        """The principal of the client after its handshake, such as "User:CN=alice"; None if it has
        shown no certificate. Raises NoPrincipal."""
        certificate = connection.getpeercert(True)
        if not certificate:
            return None
        try:
            subject = subject_of(certificate)
        except ValueError as error:
            raise NoPrincipal(str(error)) from error
        name = self._rules.name_of(subject)
        if name is None:
            raise NoPrincipal(f"no rule of ssl.principal.mapping.rules matches {subject}")
        return f"User:{name}"

    def client_context(self) -> ssl.SSLContext:
        """The context with which this node connects to the same listener of another node: it shows
        its own certificate, and checks the other node's. Raises ConfigError."""
        made, material = self._as_client, self._material
        if made is None or made[0] is not material:
            made = self._as_client = (material, self._made_for_client(material))
        return made[1]

    def look(self) -> None:
        """Reloads the certificate if a file has changed."""
        if self._stamps() != self._material.stamps:
            self.reload()

    def reload(self) -> None:
        """Reads the files again, for new connections. If the new certificate may not replace the
        old one, the old one stays and an error is logged."""
        try:
            material = self._read()
            context, identity = self._made(material)
            self._check_change(identity)
        except ConfigError as error:
            self.failed_reloads += 1
            # The next look must not try the same files again.
            kept = self._material
            self._material = _Material(kept.chain, kept.key, kept.trusted, self._stamps())
            log.error("certificate not reloaded", listener=self.listener.name, reason=str(error))
            return
        self.reloads += 1
        self.context, self._identity, self._material = context, identity, material
        serial = f"{identity.serial:x}"
        log.info("certificate reloaded", listener=self.listener.name, serial=serial)

    def _check_change(self, new: Certificate) -> None:
        old, config = self._identity, self._config
        if new.subject != old.subject and not config.ssl_allow_dn_changes:
            raise ConfigError(
                f"the subject was {old.subject} and is {new.subject} now; "
                "ssl.allow.dn.changes=true allows it"
            )
        gone = old.names - new.names
        if gone and not config.ssl_allow_san_changes:
            raise ConfigError(
                f"alternative names are gone: {', '.join(sorted(gone))}; "
                "ssl.allow.san.changes=true allows it"
            )

    # Reading ------------------------------------------------------------------------------

    def _files(self) -> Iterable[str]:
        config = self._config
        return filter(None, (config.ssl_keystore_location, config.ssl_truststore_location))

    def _stamps(self) -> tuple[object, ...]:
        return tuple(map(_stamp, self._files()))

    def _read(self) -> _Material:
        """What the settings and files say now. Raises ConfigError."""
        config, stamps = self._config, self._stamps()
        if config.ssl_keystore_location:
            if config.ssl_keystore_certificate_chain or config.ssl_keystore_key:
                raise ConfigError(
                    "ssl.keystore.location: not with ssl.keystore.certificate.chain or "
                    "ssl.keystore.key"
                )
            chain = key_text = _read_file(config.ssl_keystore_location, "ssl.keystore.location")
        else:
            chain, key_text = config.ssl_keystore_certificate_chain, config.ssl_keystore_key
            if not (chain and key_text):
                raise ConfigError(
                    f"listener {self.listener.name} has no certificate: set ssl.keystore.location"
                )
        trusted = config.ssl_truststore_certificates
        if config.ssl_truststore_location:
            if trusted:
                raise ConfigError("ssl.truststore.location: not with ssl.truststore.certificates")
            trusted = _read_file(config.ssl_truststore_location, "ssl.truststore.location")
        return _Material(
            _blocks(chain, "CERTIFICATE"),
            _blocks(key_text, "PRIVATE KEY"),
            _blocks(trusted, "CERTIFICATE"),
            stamps,
        )

    def _made(self, material: _Material) -> tuple[ssl.SSLContext, Certificate]:
        """A context for the server's side, and the broker's certificate. Raises ConfigError."""
        config, place = self._config, self._config.ssl_keystore_location or "ssl.keystore"
        if not material.chain:
            raise ConfigError(f"{place}: has no certificate in PEM")
        if not material.key:
            raise ConfigError(f"{place}: has no private key in PEM")
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        _set_versions(context, config)
        choose_suites(context, config.ssl_cipher_suites)
        context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION
        context.options |= ssl.OP_CIPHER_SERVER_PREFERENCE
        # No session of TLS 1.3 is resumed, so every client shows its certificate again. A session
        # of TLS 1.2 lasts five minutes; without tickets OpenSSL would keep 20,000 of them in
        # memory.
        context.num_tickets = 0
        _load_chain(context, material, config.ssl_key_password, place)
        context.verify_mode = _CLIENT_AUTH[self._client_auth]
        if self._client_auth != "none":
            _trust(context, material.trusted, config, self._client_auth)
        identity = _first(material.chain, place)
        if identity.expires <= datetime.now(UTC):
            log.warning("certificate has expired", listener=self.listener.name, file=place)
        return context, identity

    def _made_for_client(self, material: _Material) -> ssl.SSLContext:
        """A context for the client's side. Raises ConfigError."""
        config = self._config
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        _set_versions(context, config)
        choose_suites(context, config.ssl_cipher_suites)
        context.check_hostname = bool(config.ssl_endpoint_identification_algorithm)
        _load_chain(context, material, config.ssl_key_password, "ssl.keystore")
        if material.trusted:
            _load_trusted(context, material.trusted, config)
        else:
            context.load_default_certs()
        return context


def _client_auth(config: CoordinatorConfig, whole: CoordinatorConfig, listener: Listener) -> str:
    """The value of `ssl.client.auth`. On SASL_SSL only the value for that listener counts."""
    if listener.protocol is not SecurityProtocol.SASL_SSL:
        return config.ssl_client_auth
    own = f"{LISTENER_PREFIX}{listener.name.lower()}.ssl.client.auth"
    if own in dict(whole.listener_overrides):
        return config.ssl_client_auth
    if config.ssl_client_auth != "none":
        log.warning("ssl.client.auth does not hold for SASL_SSL", listener=listener.name, use=own)
    return "none"


def _set_versions(context: ssl.SSLContext, config: CoordinatorConfig) -> None:
    for version in (*config.ssl_enabled_protocols, config.ssl_protocol):
        if version not in _VERSIONS:
            raise ConfigError(f"ssl.enabled.protocols: {version}: must be TLSv1.2 or TLSv1.3")
    most = _VERSIONS[config.ssl_protocol]
    enabled = [_VERSIONS[name] for name in config.ssl_enabled_protocols if _VERSIONS[name] <= most]
    if not enabled:
        raise ConfigError("ssl.enabled.protocols: must have TLSv1.2 or TLSv1.3")
    context.minimum_version, context.maximum_version = min(enabled), max(enabled)


def _load_chain(context: ssl.SSLContext, material: _Material, password: str, place: str) -> None:
    asked = []

    def ask() -> str:
        asked.append(True)
        return password

    with _in_memory(material.chain + material.key) as path:
        try:
            context.load_cert_chain(path, password=ask)
        except (ssl.SSLError, ValueError) as error:
            reason = getattr(error, "reason", None) or str(error)
            if reason in ("KEY_VALUES_MISMATCH", "KEY_TYPE_MISMATCH", "NO_CERTIFICATE_ASSIGNED"):
                text = "the private key does not fit the first certificate"
            elif asked:
                text = "the private key is encrypted and ssl.key.password does not open it"
            else:
                text = f"the certificate or key cannot be read ({reason})"
            raise ConfigError(f"{place}: {text}") from None


def _trust(
    context: ssl.SSLContext, trusted: str, config: CoordinatorConfig, client_auth: str
) -> None:
    if not trusted:
        raise ConfigError(
            f"ssl.client.auth={client_auth}: needs the CAs of clients; set ssl.truststore.location"
            " to a PEM file"
        )
    _load_trusted(context, trusted, config)


def _load_trusted(context: ssl.SSLContext, trusted: str, config: CoordinatorConfig) -> None:
    place = config.ssl_truststore_location or "ssl.truststore.certificates"
    try:
        context.load_verify_locations(cadata=trusted)
    except (ssl.SSLError, TypeError) as error:  # TypeError: the text is not ASCII
        reason = getattr(error, "reason", "not ASCII")
        raise ConfigError(f"{place}: cannot be read ({reason})") from None
    # As in Java, a certificate of the store is trusted as it stands. Otherwise OpenSSL looks for
    # the issuer of each, by its subject, and takes the first one of that name.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN


def _first(chain: str, place: str) -> Certificate:
    """The certificate of the broker itself. Raises ConfigError."""
    try:
        return read_certificate(ssl.PEM_cert_to_DER_cert(_split(chain)[0]))
    except ValueError as error:
        raise ConfigError(f"{place}: the first certificate cannot be read: {error}") from None


def _read_file(path: str, key: str) -> str:
    try:
        with open(path, encoding="ascii", errors="replace") as file:
            return file.read()
    except OSError as error:
        raise ConfigError(f"{key}={path}: {error.strerror}") from None


def _stamp(path: str) -> object:
    """A value that changes when the file changes, or when a link leads to another file."""
    try:
        found = os.stat(path)
    except OSError as error:
        return error.errno
    return found.st_mtime_ns, found.st_size, found.st_ino, found.st_dev


def _split(text: str) -> Sequence[str]:
    return [match[0] + "\n" for match in _PEM.finditer(text)]


def _blocks(text: str, kind: str) -> str:
    """The PEM blocks whose label ends with `kind`. Inline text may be one line, with spaces or
    "\\n" instead of ends of lines."""
    found = []
    for match in _PEM.finditer(text.replace("\\n", "\n")):
        label, body = match[1], match[2]
        if not label.endswith(kind):
            continue
        if "\n" not in body.strip() and " " in body.strip():
            body = "\n" + "\n".join(body.split()) + "\n"
        elif "\n" not in body.strip():
            line = body.strip()
            body = "\n" + "\n".join(line[at : at + 64] for at in range(0, len(line), 64)) + "\n"
        found.append(f"-----BEGIN {label}-----{body}-----END {label}-----\n")
    return "".join(found)


@contextmanager
def _in_memory(text: str) -> Iterator[str]:
    """The name of a file with `text`, which is on no disk and which other users cannot open."""
    descriptor = os.memfd_create("groupd")
    try:
        os.write(descriptor, text.encode())
        yield f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)
