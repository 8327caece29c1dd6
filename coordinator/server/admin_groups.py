"""`/groups`, `/groups/{id}` and `/groups/{id}/events` of the admin port."""

from __future__ import annotations

from operator import itemgetter

from coordinator.core.inspection.group import inspect_group, list_group_summaries
from coordinator.runtime.broker import Broker
from coordinator.runtime.shard_runtime import ShardRuntime, ShardState
from coordinator.server.admin_http import HttpReply, HttpRequest, as_json, text


class GroupRoutes:
    """A group id with slashes is written percent-encoded."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def __call__(self, request: HttpRequest) -> HttpReply:
        match request.path:
            case (_,):
                return self._list()
            case (_, group_id):
                return self._show(group_id)
            case (_, group_id, "events"):
                return as_json(self._broker.timeline.of(group_id))
            case _:
                return text("not found", 404)

    def _list(self) -> HttpReply:
        groups = [
            summary
            for shard in self._broker.shards
            if shard.state is ShardState.ACTIVE
            for summary in list_group_summaries(shard.shard.state)
        ]
        groups.sort(key=itemgetter("group_id"))
        return as_json(groups, compact=True)

    def _show(self, group_id: str) -> HttpReply:
        shard = self._broker.shard_of(group_id)
        if not isinstance(shard, ShardRuntime) or shard.state is not ShardState.ACTIVE:
            return text(f"the shard of group {group_id} is {shard.state.value}", 503)
        shown = inspect_group(shard.shard.state, group_id, self._broker.clock.now())
        return text(f"no group {group_id}", 404) if shown is None else as_json(shown)
