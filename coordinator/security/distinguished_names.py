"""The subject of a certificate as text: RFC 2253, in the form that Java gives it
(`docs/spec/security.md#1.2`)."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

_INTEGER, _OID, _SEQUENCE, _SET, _VERSION = 0x02, 0x06, 0x30, 0x31, 0xA0
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


class MalformedCertificate(ValueError):
    """`str()` says what is wrong."""


class _Value(Struct, frozen=True):
    """A DER value. `whole`: with its tag and length."""

    tag: int
    content: bytes
    whole: bytes


def subject_of(certificate: bytes) -> str:
    """The subject of a certificate in DER. Raises MalformedCertificate."""
    (outer,) = _values(certificate, 1)
    (signed, *_) = _values(outer.content, 3)
    fields = list(_values(signed.content))
    if fields and fields[0].tag == _VERSION:
        del fields[0]
    # Serial number, signature algorithm, issuer, validity, subject.
    if len(fields) < 5 or fields[0].tag != _INTEGER:
        raise MalformedCertificate("the certificate has no subject")
    return name_of(fields[4].whole)


def name_of(name: bytes) -> str:
    """A distinguished name in DER. Raises MalformedCertificate."""
    (outer,) = _values(name, 1)
    parts = [
        # Java sorts nothing: the attributes of a part stand as they are encoded.
        "+".join(_attribute(one) for one in _values(part.content))
        for part in _values(outer.content)
    ]
    return ",".join(reversed(parts))


def _attribute(pair: _Value) -> str:
    oid, value = _values(pair.content, 2)
    if oid.tag != _OID:
        raise MalformedCertificate("an attribute has no type")
    dotted = _dotted(oid.content)
    name = _SHORT_NAMES.get(dotted)
    if name is None or value.tag not in _TEXTS:
        return f"{name or dotted}=#{value.whole.hex()}"
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


def _dotted(content: bytes) -> str:
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


def _values(data: bytes, least: int = 0) -> Iterator[_Value]:
    """The values that follow each other in `data`, at least `least`; all of them for 0."""
    found, at = 0, 0
    while at < len(data):
        value, at = _value(data, at)
        found += 1
        yield value
    if found < least:
        raise MalformedCertificate("the certificate ends early")


def _value(data: bytes, start: int) -> tuple[_Value, int]:
    at = start + 2
    length = data[start + 1] if at <= len(data) else 0
    if length & 0x80:
        size = length & 0x7F
        length = int.from_bytes(data[at : at + size], "big")
        at += size
    if at + length > len(data) or at > len(data):
        raise MalformedCertificate("the certificate ends early")
    end = at + length
    return _Value(data[start], data[at:end], data[start:end]), end
