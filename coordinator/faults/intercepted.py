"""A slot between a connection and the broker, whose reply goes elsewhere first."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from groupd.coordinator.server.slot import Slot


class InterceptedSlot(Slot):
    """Stands for another slot towards the broker: the reply goes to `on_reply` first."""

    __slots__ = ("on_reply",)

    def __init__(self, slot: Slot, on_reply: Callable[[Any], None]) -> None:
        super().__init__(slot.connection, slot.api, slot.header, b"")
        self.on_reply = on_reply

    def resolve(self, reply: Any, copies: int = 1) -> None:
        self.on_reply(reply)

    def on_steady(self, lease: Any) -> None:
        """A reply that was tampered with is not repeated."""
