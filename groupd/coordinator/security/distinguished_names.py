"""The subject of a certificate as text: RFC 2253, in the form that Java gives it
(`docs/spec/security.md#1.2`)."""

from __future__ import annotations

from groupd.coordinator.security.der import OID, MalformedCertificate, Value, dotted, values

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
    """A distinguished name in DER. Raises MalformedCertificate."""
    (outer,) = values(name, 1)
    parts = [
        # Java sorts nothing: the attributes of a part stand as they are encoded.
        "+".join(_attribute(one) for one in values(part.content))
        for part in values(outer.content)
    ]
    return ",".join(reversed(parts))


def _attribute(pair: Value) -> str:
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
