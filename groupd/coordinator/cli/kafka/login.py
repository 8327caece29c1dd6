"""How commands log in: what client properties say (PLAIN, SCRAM, and OAUTHBEARER with a token from
a file), done on a blocking connection."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from urllib.parse import unquote, urlsplit

from groupd.coordinator.cli.errors import UsageError
from groupd.coordinator.cli.kafka.connection import BlockingConnection, KafkaError
from groupd.coordinator.config.settings import ConfigError
from groupd.coordinator.security.sasl import client
from groupd.coordinator.security.sasl.jaas import parse_jaas
from groupd.coordinator.security.scram_credentials import MECHANISMS as SCRAM

OAUTHBEARER = "OAUTHBEARER"
MECHANISMS = ("PLAIN", *SCRAM, OAUTHBEARER)
TOKEN_URL = "sasl.oauthbearer.token.endpoint.url"

Login = Callable[[BlockingConnection], None]


def login_of(given: Mapping[str, str], flag: str) -> Login:
    """The login that client properties describe. Raises UsageError, which shows no value."""
    mechanism = given.get("sasl.mechanism", "")
    if mechanism not in MECHANISMS:
        raise UsageError(f"{flag}: sasl.mechanism={mechanism}: must be {', '.join(MECHANISMS)}")
    exchange = _bearer(given, flag) if mechanism == OAUTHBEARER else _password(given, flag)
    return lambda connection: _login(connection, client.login(mechanism, exchange(mechanism)))


def _login(connection: BlockingConnection, login: client.Login) -> None:
    try:
        ask = next(login)
        while True:
            ask = login.send(connection.call(*ask))
    except StopIteration:
        return
    except client.LoginFailed as error:
        raise KafkaError(f"{connection.where} {error}") from None


def _password(given: Mapping[str, str], flag: str) -> Callable[[str], client.Exchange]:
    try:
        options = parse_jaas(given.get("sasl.jaas.config", ""), "sasl.jaas.config").options
    except ConfigError as error:
        raise UsageError(f"{flag}: {error}") from None
    user, password = options.get("username"), options.get("password")
    if not user or not password:
        raise UsageError(f"{flag}: sasl.jaas.config must have username and password")
    return lambda mechanism: client.password_exchange(mechanism, user, password)


def _bearer(given: Mapping[str, str], flag: str) -> Callable[[str], client.Exchange]:
    where = urlsplit(given.get(TOKEN_URL, ""))
    if where.scheme != "file":
        raise UsageError(f"{flag}: {TOKEN_URL} must be file:///PATH of a file with the token")
    path = Path(unquote(where.path))
    try:
        token = path.read_text(encoding="ascii").strip()
    except OSError as error:
        raise UsageError(f"{flag}: {TOKEN_URL}={path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise UsageError(f"{flag}: {TOKEN_URL}={path}: holds no token") from None
    return lambda _: client.bearer_exchange(token)
