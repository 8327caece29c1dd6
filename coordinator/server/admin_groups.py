"""The admin port's routes `/groups`, `/groups/{id}`, its `/events` and `/offsets`, and
`/events`."""

from __future__ import annotations

from operator import itemgetter
from typing import Any

from groupd.coordinator.core.inspection import inspect_offsets, is_long, list_group_summaries
from groupd.coordinator.runtime.broker import Broker
from groupd.coordinator.runtime.inspecting import inspect, inspect_lazily
from groupd.coordinator.runtime.shard_runtime import ShardRuntime
from groupd.coordinator.runtime.shard_state import CoordinatorState
from groupd.coordinator.runtime.turns import Turns
from groupd.coordinator.server.admin_http import JSON, HttpReply, HttpRequest, as_json, text
from groupd.coordinator.server.group_lag import Ends, add_lag, owned_since
from groupd.coordinator.server.long_json import json_steps

SLICE_MS = 2.0
EVENTS_SHOWN = 1000


class GroupRoutes:
    """The routes. A group id with slashes is written percent-encoded. Long replies are made in
    slices."""

    def __init__(self, broker: Broker, ends: Ends | None) -> None:
        """`ends` None: the caller of these routes adds the lag."""
        self._broker = broker
        self._ends = ends

    async def __call__(self, request: HttpRequest) -> HttpReply:
        match request.path:
            case (_,):
                return await self._list()
            case (_, group_id):
                return await self._show(group_id)
            case (_, group_id, "events"):
                return as_json(self._broker.timeline.of(group_id))
            case (_, group_id, "offsets"):
                return self._offsets(group_id)
            case _:
                return text("not found", 404)

    async def events(self, request: HttpRequest) -> HttpReply:
        """The latest events of all groups, oldest first."""
        if len(request.path) > 1:
            return text("not found", 404)
        return as_json(self._broker.timeline.latest(EVENTS_SHOWN), compact=True)

    async def _list(self) -> HttpReply:
        turns = Turns(SLICE_MS, 0)
        groups: list[dict[str, Any]] = []
        for shard in self._broker.shards:
            if shard.state is CoordinatorState.ACTIVE:
                groups += list_group_summaries(shard.shard.state)
                if turns.over:
                    await turns.pause()
        groups.sort(key=itemgetter("group_id"))
        return HttpReply(await turns.run(json_steps(groups)), JSON)

    def _offsets(self, group_id: str) -> HttpReply:
        shard = self._broker.shard_of(group_id)
        if not isinstance(shard, ShardRuntime) or shard.state is not CoordinatorState.ACTIVE:
            return text(f"the shard of group {group_id} is {shard.state.value}", 503)
        state, store = shard.shard.state, shard.shard.offsets.store
        members = getattr(state.groups.get(group_id), "members", ())
        since = owned_since(self._broker.timeline.of(group_id), members)
        shown = inspect_offsets(state, store, group_id, since, self._broker.clock.now())
        if shown is None:
            return text(f"no group {group_id}", 404)
        if self._ends is not None:
            add_lag(shown, self._ends)
        return as_json(shown, compact=True)

    async def _show(self, group_id: str) -> HttpReply:
        shard = self._broker.shard_of(group_id)
        if not isinstance(shard, ShardRuntime) or shard.state is not CoordinatorState.ACTIVE:
            return text(f"the shard of group {group_id} is {shard.state.value}", 503)
        now = self._broker.clock.now()
        if not is_long(shard.shard.state, group_id):
            shown = inspect(shard, group_id, now)
            return text(f"no group {group_id}", 404) if shown is None else as_json(shown)
        # On one line, because that is several times faster.
        lazily = json_steps(inspect_lazily(shard, group_id, now))
        return HttpReply(await Turns(SLICE_MS, 0).run(lazily), JSON)
