"""Bytes that must not show up in logs or error texts."""

from __future__ import annotations


class Secret(bytes):
    """A password, a proof or a token. Its text only says how long it is, so a message that holds a
    secret may be logged (`docs/spec/security.md#7`)."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"<{len(self)} secret bytes>"

    __str__ = __repr__
