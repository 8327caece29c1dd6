"""Members of KIP-848 groups that behave as real clients: they join, and send heartbeats until no
partition moves any more.

A member reports a new assignment once, with its next heartbeat. All later heartbeats carry the
member epoch and nothing else.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from time import perf_counter

from msgspec import Struct

from tests.bench import frames
from tests.bench.frames import Assigned
from tests.bench.self.load import Address, LoadConnection, connect, run_all

TOPIC = "bench"
GROUP_SIZE = 10
QUIET_S, PAUSE_S = 1.5, 0.05
"""Groups have settled when no reply had anything new for `QUIET_S`. A group may wait a second for
its next target (`group.consumer.assignment.interval.ms`)."""
SETTLE_MAX_S = 120.0


def member_names(count: int) -> list[tuple[str, str]]:
    """(group, member) for `count` members in groups of `GROUP_SIZE`."""
    return [(f"bench-{i // GROUP_SIZE}", f"member-{i:07d}") for i in range(count)]


class _Member(Struct):
    epoch: int = 0
    assigned: Assigned = ()
    reported: bool = True
    """Whether it has sent a heartbeat that says that it owns `assigned`."""


class JoinedMembers:
    """Members that share `connections`. `members`: (group, member) of each; `place(group)`: the
    address of its coordinator."""

    def __init__(
        self,
        members: list[tuple[str, str]],
        connections: int,
        place: Callable[[str], Address],
    ) -> None:
        self.members = members
        self._place = place
        self._states = {member: _Member() for _, member in members}
        self._connections = connections
        self._moved = False

    def assigned(self, member: str) -> Assigned:
        """The partitions of a member by topic id, as far as it has heard."""
        return self._states[member].assigned

    def steady(self, group: str, member: str) -> bytes:
        """The heartbeat that it sends again and again once it is settled."""
        return frames.consumer_heartbeat(group, member, self._states[member].epoch)

    async def join(self) -> float:
        """All members join, each once; seconds until the last answer."""
        return await self._round(
            lambda group, member: frames.consumer_heartbeat(group, member, 0, (TOPIC,), ())
        )

    async def settle(self, quiet_s: float = QUIET_S) -> None:
        """Lets everyone heartbeat until for `quiet_s` no reply tells anybody anything new: what was
        taken away is given up, and everybody has the target. Raises RuntimeError if that does not
        happen."""
        began = moved_at = perf_counter()
        while True:
            self._moved = False
            await self._round(self._next)
            now = perf_counter()
            if self._moved:
                moved_at = now
            elif now - moved_at >= quiet_s:
                return
            else:
                await asyncio.sleep(PAUSE_S)
            if now - began > SETTLE_MAX_S:
                raise RuntimeError(f"the groups have not settled within {SETTLE_MAX_S:.0f} s")

    def _next(self, group: str, member: str) -> bytes:
        """The next heartbeat of a member, which reports a new assignment once."""
        state = self._states[member]
        owned = None if state.reported else state.assigned
        state.reported = True
        return frames.consumer_heartbeat(group, member, state.epoch, owned=owned)

    async def _round(self, frame: Callable[[str, str], bytes]) -> float:
        """Every member sends one frame, made before its turn."""
        loads: list[LoadConnection] = []
        for first in range(self._connections):
            by_place: dict[Address, list[bytes]] = {}
            for group, member in self.members[first :: self._connections]:
                by_place.setdefault(self._place(group), []).append(frame(group, member))
            for address, sent in by_place.items():
                loads.append(await connect(address, iter(sent), 1, self._note))
        seconds = await run_all(loads)
        for load in loads:
            load.close()
        return seconds

    def _note(self, reply: bytes) -> None:
        found = frames.heartbeat_reply(reply)
        if found.error:
            raise RuntimeError(f"heartbeat failed with error {found.error}")
        state = self._states[found.member]
        if found.epoch != state.epoch:
            state.epoch, self._moved = found.epoch, True
        if found.assigned is not None:
            state.assigned, state.reported, self._moved = found.assigned, False, True
