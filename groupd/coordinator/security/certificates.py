"""Reads certificates from their DER, and makes a client's name from the subject with
`ssl.principal.mapping.rules` (`docs/spec/security.md#1.2`)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from ipaddress import ip_address
from typing import Any

from msgspec import Struct

from groupd.coordinator.config.settings import ConfigError
from groupd.coordinator.patterns import BadPattern, compile_pattern

OID = 0x06


class MalformedCertificate(ValueError):
    """The bytes are no certificate; `str()` says what is wrong."""


class DerValue(Struct, frozen=True):
    """One value in DER. `whole`: the bytes with tag and length."""

    tag: int
    content: bytes
    whole: bytes


def values(data: bytes, least: int = 0) -> Iterator[DerValue]:
    """The values that follow each other in `data`. Raises MalformedCertificate, also if there are
    fewer than `least`."""
    found, at = 0, 0
    while at < len(data):
        value, at = _value(data, at)
        found += 1
        yield value
    if found < least:
        raise MalformedCertificate("the certificate ends early")


def _value(data: bytes, start: int) -> tuple[DerValue, int]:
    at = start + 2
    length = data[start + 1] if at <= len(data) else 0
    if length & 0x80:
        size = length & 0x7F
        length = int.from_bytes(data[at : at + size], "big")
        at += size
    if at + length > len(data) or at > len(data):
        raise MalformedCertificate("the certificate ends early")
    end = at + length
    return DerValue(data[start], data[at:end], data[start:end]), end


def dotted(content: bytes) -> str:
    """An object identifier in numbers, such as "2.5.4.3". Raises MalformedCertificate."""
    numbers, number = [], 0
    for byte in content:
        number = number << 7 | byte & 0x7F
        if not byte & 0x80:
            numbers.append(number)
            number = 0
    if not numbers:
        raise MalformedCertificate("an attribute has no type")
    first = min(numbers[0] // 40, 2)
    return ".".join(map(str, [first, numbers[0] - 40 * first, *numbers[1:]]))


_UTF8, _PRINTABLE, _T61, _IA5, _GENERAL, _BMP = 0x0C, 0x13, 0x14, 0x16, 0x1B, 0x1E
_TEXTS = (_UTF8, _PRINTABLE, _T61, _IA5, _GENERAL, _BMP)

_SHORT_NAMES = {
    "2.5.4.3": "CN",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.9": "STREET",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "0.9.2342.19200300.100.1.1": "UID",
    "0.9.2342.19200300.100.1.25": "DC",
}
_ESCAPED = frozenset(',=+<>#;"\\')


def name_of(name: bytes) -> str:
    """The text of a distinguished name that is given in DER. Raises MalformedCertificate."""
    (outer,) = values(name, 1)
    parts = [
        # Java does not sort: the attributes of a part stay in the order of the encoding.
        "+".join(_attribute(one) for one in values(part.content))
        for part in values(outer.content)
    ]
    return ",".join(reversed(parts))


def _attribute(pair: DerValue) -> str:
    oid, value = values(pair.content, 2)
    if oid.tag != OID:
        raise MalformedCertificate("an attribute has no type")
    kind = dotted(oid.content)
    name = _SHORT_NAMES.get(kind)
    if name is None or value.tag not in _TEXTS:
        return f"{name or kind}=#{value.whole.hex()}"
    # Java takes every kind of text for UTF-8 here.
    return f"{name}={_escaped(value.content.decode('utf-8', 'replace'))}"


def _escaped(text: str) -> str:
    stripped = text.strip(" ")
    before = len(text) - len(text.lstrip(" "))
    inner = "".join(
        f"\\{char}" if char in _ESCAPED else "\\00" if char == "\0" else char for char in stripped
    )
    after = len(text) - len(stripped) - before
    return "\\ " * before + inner + "\\ " * after


_INTEGER, _UTC_TIME, _VERSION, _EXTENSIONS = 0x02, 0x17, 0xA0, 0xA3
_ALTERNATIVE_NAMES = "2.5.29.17"
_TEXT_NAMES = {0x81: "email", 0x82: "DNS", 0x86: "URI"}
_IP = 0x87


class Certificate(Struct, frozen=True):
    """The fields of a certificate. `subject` as Java prints it. `names`: the subject's alternative
    names, such as "DNS:kafka.example"."""

    subject: str
    serial: int
    expires: datetime
    names: frozenset[str]


def subject_of(der: bytes) -> str:
    """The subject of a certificate that is given in DER. Raises ValueError."""
    return name_of(_fields(der)[4].whole)


def read_certificate(der: bytes) -> Certificate:
    """The fields of a certificate that is given in DER. Raises ValueError."""
    fields = _fields(der)
    return Certificate(
        name_of(fields[4].whole),
        int.from_bytes(fields[0].content, "big"),
        _expires(fields[3]),
        frozenset(_names(fields)),
    )


def _fields(der: bytes) -> list[DerValue]:
    """The serial number, signature algorithm, issuer, validity, subject and the fields behind
    them."""
    (outer,) = values(der, 1)
    (signed, *_) = values(outer.content, 3)
    fields = list(values(signed.content))
    if fields and fields[0].tag == _VERSION:
        del fields[0]
    if len(fields) < 5 or fields[0].tag != _INTEGER:
        raise MalformedCertificate("the certificate has no subject")
    return fields


def _expires(validity: DerValue) -> datetime:
    _, end = values(validity.content, 2)
    shape = "%y%m%d%H%M%SZ" if end.tag == _UTC_TIME else "%Y%m%d%H%M%SZ"
    try:
        return datetime.strptime(end.content.decode("ascii"), shape).replace(tzinfo=UTC)
    except ValueError:
        raise MalformedCertificate("the certificate has no end") from None


def _names(fields: list[DerValue]) -> Iterator[str]:
    for field in fields:
        if field.tag != _EXTENSIONS:
            continue
        (extensions,) = values(field.content, 1)
        for extension in values(extensions.content):
            kind, *_, content = values(extension.content, 2)
            if kind.tag == OID and dotted(kind.content) == _ALTERNATIVE_NAMES:
                (names,) = values(content.content, 1)
                yield from map(_name, values(names.content))


def _name(name: DerValue) -> str:
    if name.tag in _TEXT_NAMES:
        return f"{_TEXT_NAMES[name.tag]}:{name.content.decode('ascii', 'replace')}"
    if name.tag == _IP and len(name.content) in (4, 16):
        return f"IP:{ip_address(name.content)}"
    return f"#{name.whole.hex()}"


KEY = "ssl.principal.mapping.rules"

_PART = r"((?:\\.|[^\\/])*)"
_RULE = re.compile(rf"DEFAULT|RULE:{_PART}/{_PART}/([LU]?)")
_REFERENCE = re.compile(r"\\(.)|\$([0-9]+)", re.DOTALL)


class _Rule(Struct, frozen=True):
    """One rule. `pattern`: an expression of RE2; None: the rule DEFAULT."""

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
    """The rules of `ssl.principal.mapping.rules`. Raises ConfigError if the text is no list of
    rules."""

    def __init__(self, text: str) -> None:
        self._rules: Sequence[_Rule] = _parsed(text)

    def name_of(self, subject: str) -> str | None:
        """The name for a subject; None if no rule matches."""
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
        # RE2 does not know the escaped slash.
        pattern = compile_pattern(match[1].replace(r"\/", "/"))
    except BadPattern as error:
        raise ConfigError(f"{KEY}: the pattern {match[1]} cannot be used: {error}") from None
    return _Rule(pattern, match[2], match[3])


def _referred(digits: str, groups: Sequence[str | None]) -> str:
    """The text for `$digits`: the group with the longest number that exists, then the other
    digits."""
    for end in range(len(digits), 0, -1):
        number = int(digits[:end])
        if number < len(groups):
            return (groups[number] or "") + digits[end:]
    return f"${digits}"


def _wrong(rest: str) -> ConfigError:
    shown = rest if len(rest) <= 60 else rest[:60] + "..."
    return ConfigError(f"{KEY}: {shown!r} is no rule; write DEFAULT or RULE:pattern/replacement/")
