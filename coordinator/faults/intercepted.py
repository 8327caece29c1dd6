"""A slot between a connection and the broker, whose reply goes elsewhere first."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from groupd.coordinator.server.slot import Slot


def always() -> bool:
    return True


class InterceptedSlot(Slot):
    """Stands for another slot towards the broker: the reply goes to `on_reply` first."""

    __slots__ = ("on_reply",)

    def __init__(self, slot: Slot, on_reply: Callable[[Any], None]) -> None:
        super().__init__(slot.connection, slot.api, slot.header, b"", slot.request)
        self.on_reply = on_reply

    def send(self, reply: Any, copies: int = 1) -> None:
        self.on_reply(reply)

    def may_repeat(self, lease: Any) -> None:
        """A reply that was tampered with is not repeated."""


def watch(slot: Slot, repeated: Callable[[], None], allows: Callable[[], bool] = always) -> None:
    """A steady heartbeat that comes again gets its stored reply and does not pass through the
    layers. `repeated` is called for each one after that of `slot`; while `allows()` is False they
    pass through all the same."""
    slot.watchers = [*(slot.watchers or ()), (allows, repeated)]
