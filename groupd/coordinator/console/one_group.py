"""One group, live: one event with everything that its page shows, whenever something has
changed."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlsplit

from msgspec import Struct, json

from groupd.coordinator.admin.http_messages import HttpReply, Refusal, StreamEvent
from groupd.coordinator.console.all_groups import Asking
from groupd.coordinator.console.live import event

NOT_FOUND = 404
PARTS = ("rebalances", "configs", "offsets")
"""What the page shows besides the group and its lag: paths below `/groups/{id}`."""
PARTS_OF_TYPES = {"share": ("share",)}
"""Further parts of groups of some types."""


class _LastEvent(Struct):
    sequence: int


class _Lag(Struct):
    """The fields of `/groups/{id}/lag` that are needed here."""

    round: int
    state: str
    type: str


GONE = event("gone", b"{}")
BYTES_OF_MS = 20_000
"""How many bytes of an event with everything are made in a millisecond."""


class OneGroup:
    """A `live.LiveSource`. A new event with everything is made when the group had an event, after
    each round of the lag, and at each look while the group waits for something. A group that is
    gone, or that another node serves now, may come back."""

    tells_changes = False

    def __init__(self, asking: Asking, group_id: str) -> None:
        self._asking = asking
        self._path = ("groups", group_id)
        self._seen: tuple[int, int] | None = None
        """The numbers of the last event of the group and of the last round that `_picture`
        shows."""
        self.cost_ms = 0.0
        self._waits = False
        self._version = 0
        self._picture: StreamEvent = ()

    async def look(self) -> StreamEvent | None:
        try:
            return await self._look()
        except Refusal as error:
            away = GONE if error.reply.status == NOT_FOUND else elsewhere(error.reply)
            if away is None:
                raise
            self._seen = None
            if away == self._picture:
                return None
            self._picture = away
            return away

    async def _look(self) -> StreamEvent | None:
        events = (await self._asking.get(*self._path, "events")).body
        lag = (await self._asking.get(*self._path, "lag")).body
        numbers = json.decode(events, type=list[_LastEvent])
        now = json.decode(lag, type=_Lag)
        seen = (numbers[-1].sequence if numbers else -1, now.round)
        if seen == self._seen and not self._waits:
            return None
        parts = {"lag": lag, "group": (await self._asking.get(*self._path)).body}
        for name in (*PARTS, *PARTS_OF_TYPES.get(now.type, ())):
            parts[name] = (await self._asking.get(*self._path, name)).body
        self._seen = seen
        self._waits = now.state not in ("Stable", "Empty")
        self._version += 1
        self._picture = _joined(self._version, parts)
        self.cost_ms = sum(map(len, parts.values())) / BYTES_OF_MS
        return self._picture

    async def whole(self) -> StreamEvent:
        return self._picture


def elsewhere(reply: HttpReply) -> StreamEvent | None:
    """The event about a group that another node serves: it names the node, because a browser must
    not follow to another host by itself. None if the reply does not lead to another node."""
    location = dict(reply.headers).get("Location")
    if location is None:
        return None
    url = urlsplit(location)
    told = reply.body.decode(errors="replace").strip()
    shown = {"told": told, "admin_url": f"{url.scheme}://{url.netloc}"}
    return event("elsewhere", json.encode(shown))


def _joined(version: int, parts: Mapping[str, bytes]) -> StreamEvent:
    """One event with all parts, which may be long."""
    data: list[bytes | memoryview] = [b'{"version":%d' % version]
    for name, body in parts.items():
        data += (b',"%s":' % name.encode(), _one_line(body))
    return event("snapshot", *data, b"}")


def _one_line(body: bytes) -> bytes | memoryview:
    """The JSON without line ends, which stand only between its values, never within a string. Short
    pages have them for people. A long page has a single one, at its end, and is not copied."""
    if body.find(b"\n") == len(body) - 1:
        return memoryview(body)[:-1]
    return body.replace(b"\n", b" ")
