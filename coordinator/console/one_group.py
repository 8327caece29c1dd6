"""One group, live: everything that its page shows, as one event, whenever something has changed."""

from __future__ import annotations

from msgspec import Struct, json

from groupd.coordinator.console.asking import Asking, CannotAsk
from groupd.coordinator.console.live import event

NOT_FOUND = 404
PARTS = (("rebalances", "rebalances"), ("configs", "configs"), ("offsets", "offsets"))
"""What the page shows beside the group and its lag: name in the event, and below `/groups/{id}`."""


class _LastEvent(Struct):
    sequence: int


class _Lag(Struct):
    """The part of `/groups/{id}/lag` that is needed here."""

    round: int


class _Picture(Struct):
    """The parts of `/groups/{id}` that are needed here. `blocked`: what it waits for."""

    state: str
    blocked: list[object]


GONE = event("gone", b"{}")


class OneGroup:
    """A `live.LiveSource`. A picture is made anew when the group had an event, after each round
    over the lag, and all the time while the group waits for something."""

    def __init__(self, asking: Asking, group_id: str) -> None:
        self._asking = asking
        self._path = ("groups", group_id)
        self._seen: tuple[int, int] | None = None
        """Number of the last event, and of the last round, that the picture shows."""
        self._waits = False
        self._version = 0
        self._picture = GONE

    async def look(self) -> bytes | None:
        try:
            return await self._look()
        except CannotAsk as error:
            if error.reply.status != NOT_FOUND:
                raise
            if self._picture is GONE:
                return None
            self._seen, self._picture = None, GONE
            return GONE

    async def _look(self) -> bytes | None:
        events = (await self._asking.get(*self._path, "events")).body
        lag = (await self._asking.get(*self._path, "lag")).body
        numbers = json.decode(events, type=list[_LastEvent])
        seen = (numbers[-1].sequence if numbers else -1, json.decode(lag, type=_Lag).round)
        if seen == self._seen and not self._waits:
            return None
        group = (await self._asking.get(*self._path)).body
        parts = {"group": group, "lag": lag}
        for name, below in PARTS:
            parts[name] = (await self._asking.get(*self._path, below)).body
        self._seen = seen
        self._waits = _waits(group)
        self._version += 1
        fields = b",".join(b'"%s":%s' % (name.encode(), one) for name, one in parts.items())
        body = b'{"version":%d,%s}' % (self._version, fields)
        # Long pages are on one line already; short ones are indented, for people.
        self._picture = event("snapshot", body.replace(b"\n", b" "))
        return self._picture

    async def whole(self) -> bytes:
        return self._picture


def _waits(group: bytes) -> bool:
    picture = json.decode(group, type=_Picture)
    return bool(picture.blocked) or picture.state not in ("Stable", "Empty")
