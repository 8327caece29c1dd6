"""A cluster of brokers for commands: which broker leads a partition or coordinates a group, and how
commands connect to a secured cluster."""

from __future__ import annotations

import ssl
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from urllib.parse import unquote, urlsplit

from groupd.client.connection import UNPROTECTED, ClientSecurity
from groupd.client.sasl import (
    OAUTHBEARER,
    PASSWORD_MECHANISMS,
    SaslLogin,
    bearer_login,
    password_login,
)
from groupd.coordinator.cli.kafka import calls
from groupd.coordinator.cli.kafka.calls import TopicMetadata
from groupd.coordinator.cli.kafka.connection import BlockingConnection, ClientLoop, KafkaError
from groupd.coordinator.cli.parse import UsageError, properties_file, servers
from groupd.coordinator.config.settings import ConfigError
from groupd.coordinator.security.sasl.jaas import parse_jaas
from groupd.protocol.messages import TopicPartition


class KafkaCluster:
    """The brokers of a cluster, as a context manager. Connections are opened when they are first
    needed, and kept. `servers`: addresses of brokers, of which at least one must answer."""

    def __init__(
        self, servers: Sequence[tuple[str, int]], security: ClientSecurity = UNPROTECTED
    ) -> None:
        self._servers = servers
        self._security = security
        self._connections: dict[tuple[str, int], BlockingConnection] = {}
        self._loop: ClientLoop | None = None

    def __enter__(self) -> KafkaCluster:
        try:
            self.any()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        self._connections.clear()
        if self._loop is not None:
            self._loop.close()
            self._loop = None

    def at(self, address: tuple[str, int]) -> BlockingConnection:
        if self._loop is None:
            self._loop = ClientLoop(self._security)
        if address not in self._connections:
            self._connections[address] = self._loop.open(*address)
        return self._connections[address]

    def any(self) -> BlockingConnection:
        """Returns an open connection: the oldest one, to the first of `servers` that answered. If
        none answers, raises the KafkaError of the first one."""
        refused: KafkaError | None = None
        for address in (*self._connections, *self._servers):
            try:
                return self.at(address)
            except KafkaError as error:
                refused = refused or error
        assert refused is not None, "no server"
        raise refused

    def brokers(self) -> Mapping[int, tuple[str, int]]:
        """Returns the address of each broker, by node id."""
        return calls.metadata(self.any(), ()).brokers

    def coordinator(self, group_id: str) -> BlockingConnection:
        return self.at(calls.find_coordinator(self.any(), group_id))

    def topics(self, names: Sequence[str]) -> Mapping[str, TopicMetadata]:
        """Returns the topics among `names` that exist."""
        return calls.metadata(self.any(), names).topics

    def leader(self, topic: str, partition: int) -> BlockingConnection:
        found = calls.metadata(self.any(), [topic])
        entry = found.topics.get(topic)
        for at in entry.partitions if entry else ():
            if at.partition == partition and at.leader in found.brokers:
                return self.at(found.brokers[at.leader])
        raise KafkaError(f"{topic}-{partition} has no leader now")

    def bounds(self, places: Iterable[TopicPartition]) -> dict[TopicPartition, tuple[int, int]]:
        """Returns the first offset and the end of partitions. A partition whose leader does not
        answer is absent."""
        bounds: dict[TopicPartition, tuple[int, int]] = {}
        for connection, led in self._by_leader(set(places)):
            starts = calls.list_offsets(connection, led, calls.EARLIEST)
            ends = calls.list_offsets(connection, led, calls.LATEST)
            bounds.update({at: (starts[at], ends[at]) for at in led if at in starts and at in ends})
        return bounds

    def at_time(self, places: Iterable[TopicPartition], time_ms: int) -> dict[TopicPartition, int]:
        """Returns the offset of the first record of that time or later. Partitions without such a
        record, or whose leader does not answer, are absent."""
        found: dict[TopicPartition, int] = {}
        for connection, led in self._by_leader(set(places)):
            answer = calls.list_offsets(connection, led, time_ms)
            found.update({at: offset for at, offset in answer.items() if offset >= 0})
        return found

    def _by_leader(
        self, wanted: Set[TopicPartition]
    ) -> Iterator[tuple[BlockingConnection, list[TopicPartition]]]:
        """Yields the partitions of each broker that leads some of them. Partitions whose leader
        cannot be reached are left out."""
        names = sorted({topic for topic, _ in wanted})
        found = calls.metadata(self.any(), names, strict=False)
        by_leader: dict[int, list[TopicPartition]] = {}
        for topic in found.topics.values():
            for at in topic.partitions:
                if (topic.name, at.partition) in wanted and at.leader in found.brokers:
                    by_leader.setdefault(at.leader, []).append((topic.name, at.partition))
        for leader, led in by_leader.items():
            try:
                connection = self.at(found.brokers[leader])
            except KafkaError:
                continue
            yield connection, led


# The settings of --command-config ---------------------------------------------------------------

# These settings of the file are used: `security.protocol`, `sasl.mechanism`, `sasl.jaas.config`
# (PLAIN and SCRAM), `sasl.oauthbearer.token.endpoint.url` (OAUTHBEARER: a file with the token),
# `ssl.truststore.location` or `ssl.truststore.certificates`, `ssl.keystore.location`,
# `ssl.key.password` and `ssl.endpoint.identification.algorithm`. Other keys are ignored. Stores are
# PEM files.

FLAG = "--command-config"
_KEYS = "a private key and its certificate in PEM; ssl.key.password opens an encrypted key"
MECHANISMS = (*PASSWORD_MECHANISMS, OAUTHBEARER)
TOKEN_URL = "sasl.oauthbearer.token.endpoint.url"
PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")


def open_cluster(bootstrap: str, command_config: Path | None) -> KafkaCluster:
    """Returns the cluster of `--bootstrap`, for a `with` statement. Raises UsageError. To enter it
    raises KafkaError."""
    return KafkaCluster(servers(bootstrap, "--bootstrap"), client_security(command_config))


def client_security(command_config: Path | None) -> ClientSecurity:
    """Reads TLS and login from the file; without a file there is neither. Raises UsageError."""
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
        # If a password is given, even an empty one, OpenSSL does not ask for it on the terminal.
        with _named(f"ssl.keystore.location={keys}", _KEYS):
            context.load_cert_chain(keys, password=given.get("ssl.key.password", ""))
    return context


@contextmanager
def _named(setting: str, wanted: str) -> Iterator[None]:
    """Turns an error into a UsageError that names the setting. OpenSSL often does not say what is
    wrong, so the message says what is `wanted`."""
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
