"""`ssl.principal.mapping.rules`: the name of a client from the subject of its certificate
(`docs/spec/security.md#1.2`)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from groupd.coordinator.config.settings import ConfigError
from groupd.coordinator.patterns import BadPattern, compile_pattern

KEY = "ssl.principal.mapping.rules"

_PART = r"((?:\\.|[^\\/])*)"
_RULE = re.compile(rf"DEFAULT|RULE:{_PART}/{_PART}/([LU]?)")
_REFERENCE = re.compile(r"\\(.)|\$([0-9]+)", re.DOTALL)


class _Rule(Struct, frozen=True):
    """`pattern`: an expression of RE2; None: DEFAULT."""

    pattern: Any
    replacement: str = ""
    case: str = ""

    def name_of(self, subject: str) -> str | None:
        if self.pattern is None:
            return subject
        match = self.pattern.fullmatch(subject)
        if match is None:
            return None
        groups = [match.group(0), *match.groups()]

        def text(found: re.Match[str]) -> str:
            return found[1] or _referred(found[2], groups)

        name = _REFERENCE.sub(text, self.replacement)
        return {"L": name.lower(), "U": name.upper()}.get(self.case, name)


class PrincipalRules:
    """Raises ConfigError for text that is no list of rules."""

    def __init__(self, text: str) -> None:
        self._rules: Sequence[_Rule] = _parsed(text)

    def name_of(self, subject: str) -> str | None:
        """None: no rule matches."""
        for rule in self._rules:
            name = rule.name_of(subject)
            if name is not None:
                return name
        return None


def _parsed(text: str) -> list[_Rule]:
    rules, rest = [], text.strip()
    while rest:
        match = _RULE.match(rest)
        if match is None:
            raise _wrong(rest)
        after = rest[match.end() :].lstrip()
        if after and after[0] != ",":
            raise _wrong(rest)
        rules.append(_rule(match))
        rest = after[1:].strip()
    return rules or [_Rule(None)]


def _rule(match: re.Match[str]) -> _Rule:
    if match[0] == "DEFAULT":
        return _Rule(None)
    try:
        # RE2 takes no escaped slash.
        pattern = compile_pattern(match[1].replace(r"\/", "/"))
    except BadPattern as error:
        raise ConfigError(f"{KEY}: the pattern {match[1]} cannot be used: {error}") from None
    return _Rule(pattern, match[2], match[3])


def _referred(digits: str, groups: Sequence[str | None]) -> str:
    """What `$digits` stands for: the longest number of a group, then text."""
    for end in range(len(digits), 0, -1):
        number = int(digits[:end])
        if number < len(groups):
            return (groups[number] or "") + digits[end:]
    return f"${digits}"


def _wrong(rest: str) -> ConfigError:
    shown = rest if len(rest) <= 60 else rest[:60] + "..."
    return ConfigError(f"{KEY}: {shown!r} is no rule; write DEFAULT or RULE:pattern/replacement/")
