"""Reads and writes values of coordinator records: an int16 version, then the fields of a struct."""

from __future__ import annotations

from typing import Any

from groupd.protocol.messages import shared_topic_id
from groupd.protocol.primitives import INT16
from groupd.protocol.reader import BadBytes, Reader
from groupd.protocol.schema import ByVersion, Shape, converted
from groupd.protocol.writer import Writer

TOPIC_ID = converted("uuid", read=shared_topic_id)
"""A topic id. Equal ids are one object in memory."""


class UnknownVersion(BadBytes):
    def __init__(self, version: int) -> None:
        super().__init__(f"unknown value version {version}")
        self.version = version


class VersionedValue:
    """The values of one type. `read`: the versions that are read. `written`: the version that is
    written unless the caller wants another one. Versions from `flexible_from` on are flexible."""

    def __init__(
        self,
        fields: Shape,
        read: range = range(1),
        written: int = 0,
        flexible_from: int = 0,
    ) -> None:
        self._versions = read
        self._written = written
        self._flexible_from = flexible_from
        self._reads = ByVersion(lambda v: fields.reading(v, v >= flexible_from, ends=True))
        self._writes = ByVersion(
            lambda v: fields.writing(v, v >= flexible_from, stops=False, ends=True)
        )

    def encode(self, value: Any, version: int | None = None) -> bytes:
        """Fields that the version does not have are dropped."""
        if version is None:
            version = self._written
        writer = Writer(version >= self._flexible_from, version)
        writer.buffer += INT16.pack(version)
        self._writes[version](writer, value)
        return bytes(writer.buffer)

    def decode(self, data: bytes) -> Any:
        """Raises READ_ERRORS, and UnknownVersion, which is one of them."""
        (version,) = INT16.unpack_from(data)
        if version not in self._versions:
            raise UnknownVersion(version)
        reader = Reader(data, INT16.size, version, version >= self._flexible_from)
        value = self._reads[version](reader)
        reader.finish()
        return value
