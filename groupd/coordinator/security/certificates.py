"""What a certificate says, from its DER."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from ipaddress import ip_address

from msgspec import Struct

from groupd.coordinator.security.der import OID, MalformedCertificate, Value, dotted, values
from groupd.coordinator.security.distinguished_names import name_of

_INTEGER, _UTC_TIME, _VERSION, _EXTENSIONS = 0x02, 0x17, 0xA0, 0xA3
_ALTERNATIVE_NAMES = "2.5.29.17"
_TEXT_NAMES = {0x81: "email", 0x82: "DNS", 0x86: "URI"}
_IP = 0x87


class Certificate(Struct, frozen=True):
    """`subject` as Java prints it. `names`: the subject's alternative names, such as
    "DNS:kafka.example"."""

    subject: str
    serial: int
    expires: datetime
    names: frozenset[str]


def subject_of(der: bytes) -> str:
    """The subject of a certificate, which is given in DER. Raises ValueError."""
    return name_of(_fields(der)[4].whole)


def read_certificate(der: bytes) -> Certificate:
    """Raises ValueError."""
    fields = _fields(der)
    return Certificate(
        name_of(fields[4].whole),
        int.from_bytes(fields[0].content, "big"),
        _expires(fields[3]),
        frozenset(_names(fields)),
    )


def _fields(der: bytes) -> list[Value]:
    """Serial number, signature algorithm, issuer, validity, subject and what follows."""
    (outer,) = values(der, 1)
    (signed, *_) = values(outer.content, 3)
    fields = list(values(signed.content))
    if fields and fields[0].tag == _VERSION:
        del fields[0]
    if len(fields) < 5 or fields[0].tag != _INTEGER:
        raise MalformedCertificate("the certificate has no subject")
    return fields


def _expires(validity: Value) -> datetime:
    _, end = values(validity.content, 2)
    shape = "%y%m%d%H%M%SZ" if end.tag == _UTC_TIME else "%Y%m%d%H%M%SZ"
    try:
        return datetime.strptime(end.content.decode("ascii"), shape).replace(tzinfo=UTC)
    except ValueError:
        raise MalformedCertificate("the certificate has no end") from None


def _names(fields: list[Value]) -> Iterator[str]:
    for field in fields:
        if field.tag != _EXTENSIONS:
            continue
        (extensions,) = values(field.content, 1)
        for extension in values(extensions.content):
            kind, *_, content = values(extension.content, 2)
            if kind.tag == OID and dotted(kind.content) == _ALTERNATIVE_NAMES:
                (names,) = values(content.content, 1)
                yield from map(_name, values(names.content))


def _name(name: Value) -> str:
    if name.tag in _TEXT_NAMES:
        return f"{_TEXT_NAMES[name.tag]}:{name.content.decode('ascii', 'replace')}"
    if name.tag == _IP and len(name.content) in (4, 16):
        return f"IP:{ip_address(name.content)}"
    return f"#{name.whole.hex()}"
