"""Reads DER, the encoding of certificates."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

OID = 0x06


class MalformedCertificate(ValueError):
    """`str()` says what is wrong."""


class Value(Struct, frozen=True):
    """`whole`: with its tag and length."""

    tag: int
    content: bytes
    whole: bytes


def values(data: bytes, least: int = 0) -> Iterator[Value]:
    """The values that follow each other in `data`. Raises MalformedCertificate, also if there are
    fewer than `least`."""
    found, at = 0, 0
    while at < len(data):
        value, at = _value(data, at)
        found += 1
        yield value
    if found < least:
        raise MalformedCertificate("the certificate ends early")


def _value(data: bytes, start: int) -> tuple[Value, int]:
    at = start + 2
    length = data[start + 1] if at <= len(data) else 0
    if length & 0x80:
        size = length & 0x7F
        length = int.from_bytes(data[at : at + size], "big")
        at += size
    if at + length > len(data) or at > len(data):
        raise MalformedCertificate("the certificate ends early")
    end = at + length
    return Value(data[start], data[at:end], data[start:end]), end


def dotted(content: bytes) -> str:
    """An object identifier in numbers: "2.5.4.3"."""
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
