"""Turns a login into the settings of each client library."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from groupd.coordinator.faults.errors import HarnessError
from groupd.testing.security import OAUTHBEARER, PLAIN, Login, quoted

__tracebackhide__ = True
"""Hides this module's frames from pytest: a failure is shown at the line of the test."""

Token = Callable[[], str]
"""Makes a new token for the user, or a file with one."""

_MODULES = "org.apache.kafka.common.security"


def security_settings(
    library: str, login: Login, token: Token, token_file: Token
) -> dict[str, Any]:
    """The settings of `library` for `login`; they are empty for PLAINTEXT. `token()` makes a new
    token for OAUTHBEARER, `token_file()` a file with one. Raises HarnessError for an unknown
    library."""
    if login.protocol == "PLAINTEXT":
        return {}
    make = _MAKERS.get(library)
    if make is None:
        raise HarnessError(f"no security settings for {library}; known: {', '.join(_MAKERS)}")
    return make(login, token, token_file)


def _confluent(login: Login, token: Token, token_file: Token) -> dict[str, Any]:
    made: dict[str, Any] = {"security.protocol": login.protocol}
    made |= _if_set({"ssl.ca.location": login.ca_file})
    made |= _if_set(
        {"ssl.certificate.location": login.cert_file, "ssl.key.location": login.key_file}
    )
    if login.mechanism is not None:
        made["sasl.mechanisms"] = login.mechanism
        if login.mechanism == OAUTHBEARER:
            made["oauth_cb"] = lambda _: _with_expiry(token())
        else:
            made |= {"sasl.username": login.user, "sasl.password": login.password}
    return made


def _kafka_python(login: Login, token: Token, token_file: Token) -> dict[str, Any]:
    made: dict[str, Any] = {"security_protocol": login.protocol}
    made |= _if_set(
        {
            "ssl_cafile": login.ca_file,
            "ssl_certfile": login.cert_file,
            "ssl_keyfile": login.key_file,
        }
    )
    return made | _python_login(login, partial(_kafka_python_tokens, token))


def _python_login(login: Login, tokens: Callable[[], Any]) -> dict[str, Any]:
    """The login as kafka-python and aiokafka take it. `tokens()`: makes its token provider."""
    if login.mechanism is None:
        return {}
    made: dict[str, Any] = {"sasl_mechanism": login.mechanism}
    if login.mechanism == OAUTHBEARER:
        return made | {"sasl_oauth_token_provider": tokens()}
    return made | {"sasl_plain_username": login.user, "sasl_plain_password": login.password}


def _kafka_python_tokens(token: Token) -> Any:
    from kafka.net.sasl.oauth import AbstractTokenProvider  # type: ignore[import-untyped]

    class KafkaPythonTokens(AbstractTokenProvider):  # type: ignore[misc]
        def token(self) -> str:
            return token()

    return KafkaPythonTokens()


def _aiokafka(login: Login, token: Token, token_file: Token) -> dict[str, Any]:
    made: dict[str, Any] = {"security_protocol": login.protocol}
    if login.ca_file is not None:
        import ssl

        context = ssl.create_default_context(cafile=login.ca_file)
        if login.cert_file is not None:
            context.load_cert_chain(login.cert_file, login.key_file)
        made["ssl_context"] = context
    return made | _python_login(login, partial(_aiokafka_tokens, token))


def _aiokafka_tokens(token: Token) -> Any:
    from aiokafka.abc import AbstractTokenProvider  # type: ignore[import-untyped]

    class AiokafkaTokens(AbstractTokenProvider):  # type: ignore[misc]
        async def token(self) -> str:
            return token()

    return AiokafkaTokens()


def _java(login: Login, token: Token, token_file: Token) -> dict[str, Any]:
    made: dict[str, Any] = {"security.protocol": login.protocol}
    if login.ca_file is not None:
        made |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": login.ca_file}
    if login.cert_file is not None and login.key_file is not None:
        made |= {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.certificate.chain": Path(login.cert_file).read_text(),
            "ssl.keystore.key": Path(login.key_file).read_text(),
        }
    if login.mechanism is None:
        return made
    made["sasl.mechanism"] = login.mechanism
    if login.mechanism == OAUTHBEARER:
        # The JVM must be started with -Dorg.apache.kafka.sasl.oauthbearer.allowed.urls of this URL.
        handler = f"{_MODULES}.oauthbearer.OAuthBearerLoginCallbackHandler"
        return made | {
            "sasl.jaas.config": f"{_MODULES}.oauthbearer.OAuthBearerLoginModule required;",
            "sasl.login.callback.handler.class": handler,
            "sasl.oauthbearer.token.endpoint.url": Path(token_file()).as_uri(),
        }
    plain = login.mechanism == PLAIN
    module = "plain.PlainLoginModule" if plain else "scram.ScramLoginModule"
    who = f"username={quoted(login.user or '')} password={quoted(login.password)}"
    return made | {"sasl.jaas.config": f"{_MODULES}.{module} required {who};"}


def _kafkajs(login: Login, token: Token, token_file: Token) -> dict[str, Any]:
    made = _node("ssl", login)
    if login.mechanism == OAUTHBEARER:
        raise HarnessError("kafkajs takes OAUTHBEARER as a function; make it with `token`")
    if login.mechanism is not None:
        mechanism = login.mechanism.lower()
        who = {"username": login.user, "password": login.password}
        made["sasl"] = {"mechanism": mechanism, **who}
    return made


def _platformatic(login: Login, token: Token, token_file: Token) -> dict[str, Any]:
    made = _node("tls", login)
    if login.mechanism == OAUTHBEARER:
        made["sasl"] = {"mechanism": login.mechanism, "token": token()}
    elif login.mechanism is not None:
        who = {"username": login.user, "password": login.password}
        made["sasl"] = {"mechanism": login.mechanism, **who}
    return made


def _node(name: str, login: Login) -> dict[str, Any]:
    if login.ca_file is None:
        return {}
    files = {"ca": login.ca_file, "cert": login.cert_file, "key": login.key_file}
    return {name: {key: Path(file).read_text() for key, file in files.items() if file is not None}}


def _franz_go(login: Login, token: Token, token_file: Token) -> dict[str, Any]:
    """franz-go's options by name, each with the file or value that a program makes it from."""
    made: dict[str, Any] = _if_set({"DialTLSConfig.RootCAs": login.ca_file})
    made |= _if_set({"DialTLSConfig.Certificates": login.cert_file})
    made |= _if_set({"DialTLSConfig.PrivateKey": login.key_file})
    if login.mechanism == OAUTHBEARER:
        made["SASL"] = {"Mechanism": login.mechanism, "Token": token()}
    elif login.mechanism is not None:
        who = {"User": login.user, "Pass": login.password}
        made["SASL"] = {"Mechanism": login.mechanism, **who}
    return made


def _if_set(settings: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in settings.items() if value is not None}


def _with_expiry(token: str) -> tuple[str, float]:
    """The token, and when it expires, in seconds since 1970."""
    import jwt

    return token, float(jwt.decode(token, options={"verify_signature": False})["exp"])


_MAKERS: Mapping[str, Callable[[Login, Token, Token], dict[str, Any]]] = {
    "confluent-kafka": _confluent,
    "aiokafka": _aiokafka,
    "kafka-python": _kafka_python,
    "java": _java,
    "franz-go": _franz_go,
    "kafkajs": _kafkajs,
    "platformatic": _platformatic,
}


def plain(settings: dict[str, Any]) -> dict[str, Any]:
    """The same settings. Raises HarnessError if one of them cannot be sent as JSON."""
    for name, value in settings.items():
        if not isinstance(value, str | int | dict | list):
            raise HarnessError(
                f"{name} is an object of the library; make it from the file of "
                "ssl.ca.location (confluent-kafka), or from the user's token"
            )
    return settings


def as_properties(settings: Mapping[str, Any]) -> str:
    """The settings as a Java `.properties` file: one line for each setting, with special characters
    escaped."""
    return "".join(f"{key}={_escaped(str(value))}\n" for key, value in settings.items())


def _escaped(value: str) -> str:
    text = value.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r")
    return "".join(one if ord(one) < 127 else _units(one) for one in text)


def _units(character: str) -> str:
    """The character as Java escapes it, in UTF-16: beyond U+FFFF as two escapes."""
    units = character.encode("utf-16-be")
    return "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))
