"""A slot between a connection and the broker that can see or change the reply before it is sent."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from groupd.coordinator.server.slot import Slot


def always() -> bool:
    return True


class InterceptedSlot(Slot):
    """Takes the place of another slot for the broker: the reply goes to `on_reply` instead of the
    client."""

    __slots__ = ("_slot", "on_reply")

    def __init__(self, slot: Slot, on_reply: Callable[[Any], None]) -> None:
        super().__init__(slot.connection, slot.api, slot.header, b"", slot.request)
        self.on_reply = on_reply
        self._slot = slot

    def send(self, reply: Any, copies: int = 1) -> None:
        self.on_reply(reply)

    def hang_up(self) -> None:
        self._slot.hang_up()

    def hold(self) -> None:
        self._slot.hold()

    def room(self, wanted: int) -> int:
        return self._slot.room(wanted)

    def holds(self, size: int) -> None:
        self._slot.holds(size)

    def when_short(self, callback: Callable[[], None] | None) -> None:
        self._slot.when_short(callback)

    def may_repeat(self, lease: Any) -> None:
        """Does nothing: a reply that a fault may have changed is not stored for repetition."""


def watch(slot: Slot, repeated: Callable[[], None], allows: Callable[[], bool] = always) -> None:
    """Watch for repetitions of the heartbeat in `slot`. A steady heartbeat is answered with its
    stored reply and does not pass through the layers. `repeated` is called for each of these; while
    `allows()` is False they pass through the layers after all."""
    slot.watchers = [*(slot.watchers or ()), (allows, repeated)]
