"""Reads Kafka's notation of a login module, as in `sasl.jaas.config`:

    org.apache.kafka.common.security.plain.PlainLoginModule required user_alice="secret";

Texts of errors never show a value, because values are passwords.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from msgspec import Struct

from groupd.coordinator.config.settings import ConfigError

PLAIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"
OAUTHBEARER_MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"

USER_PREFIX = "user_"

_TOKEN = re.compile(
    r"""\s*(?:
      (?P<mark>[=;])
    | "(?P<double>(?:[^"\\\r\n]|\\.)*)"
    | '(?P<single>(?:[^'\\\r\n]|\\.)*)'
    | (?P<word>[^\s=;"']+)
    )""",
    re.VERBOSE,
)
_ESCAPE = re.compile(r"\\(.)")
_ESCAPED = {"n": "\n", "r": "\r", "t": "\t", "b": "\b", "f": "\f", "a": "\a", "v": "\v"}
_FLAGS = ("required", "requisite", "sufficient", "optional")


class LoginModule(Struct, frozen=True):
    """A login module. `name`: its class. `options` hold passwords."""

    name: str
    options: Mapping[str, str]

    def __repr__(self) -> str:
        return f"LoginModule({self.name!r}, {len(self.options)} options)"


def parse_jaas(text: str, key: str) -> LoginModule:
    """The one login module in `text`, which is the value of the setting `key`. Raises
    ConfigError."""
    tokens = _tokens(text, key)
    if len(tokens) < 3 or tokens[-1] != (";", True):
        raise ConfigError(f'{key}: must be `MODULE required NAME="VALUE" ...;`')
    (name, _), (flag, _), *rest = tokens[:-1]
    if flag.lower() not in _FLAGS:
        raise ConfigError(f"{key}: the word behind the module must be `required`")
    if (";", True) in rest:
        raise ConfigError(f"{key}: must have one login module")
    options: dict[str, str] = {}
    while rest:
        if len(rest) < 3 or rest[0][1] or rest[1] != ("=", True) or rest[2][1]:
            raise ConfigError(f'{key}: options must be NAME="VALUE" with spaces between them')
        (option, _), _, (value, _), *rest = rest
        if option in options:
            raise ConfigError(f"{key}: {option} is there twice")
        options[option] = value
    return LoginModule(name, options)


def static_users(module: LoginModule) -> dict[str, str]:
    """The users of a PlainLoginModule with their passwords."""
    return {
        name.removeprefix(USER_PREFIX): password
        for name, password in module.options.items()
        if name.startswith(USER_PREFIX)
    }


def _tokens(text: str, key: str) -> list[tuple[str, bool]]:
    """The tokens of the text: words and values with False, `=` and `;` with True."""
    found: list[tuple[str, bool]] = []
    at, text = 0, text.rstrip()
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise ConfigError(f"{key}: a quote is not closed")
        at = match.end()
        quoted = match["double"] if match["double"] is not None else match["single"]
        if quoted is not None:
            value = _ESCAPE.sub(lambda escape: _ESCAPED.get(escape[1], escape[1]), quoted)
            found.append((value, False))
        elif match["mark"] is not None:
            found.append((match["mark"], True))
        else:
            found.append((match["word"], False))
    return found
