"""The admin port's routes `/groups`, `/groups/{id}` and what is below it, and `/events`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from operator import itemgetter
from typing import Any
from urllib.parse import urlencode

from msgspec import Struct, json

from groupd.coordinator.admin.group_pages import (
    config_rows,
    lag_steps,
    rebalances_page,
    what_if_steps,
)
from groupd.coordinator.admin.http_messages import (
    JSON,
    HttpReply,
    HttpRequest,
    as_json,
    path_of,
    refusal,
    text,
)
from groupd.coordinator.admin.pages import json_steps, paged, plain, window
from groupd.coordinator.admin.share_pages import SharePages
from groupd.coordinator.core.inspected_offsets import offsets_steps
from groupd.coordinator.core.slices import Pace, Steps, smallest
from groupd.coordinator.history.replay import BeforeHistory
from groupd.coordinator.history.stream import UnreadableLog
from groupd.coordinator.lag.rows import (
    Ends,
    add_judgement,
    add_lag,
    ends_of,
    group_row,
    trend_of,
)
from groupd.coordinator.lag.watch import LagWatch
from groupd.coordinator.moves.mover import CannotMove, OutcomeNotKnown
from groupd.coordinator.moves.own_broker import CannotRead, OwnBroker
from groupd.coordinator.runtime.broker import Broker
from groupd.coordinator.runtime.long_work import LongWork
from groupd.coordinator.runtime.shard_runtime import GroupLogShard, inspect_lazily
from groupd.coordinator.runtime.shard_state import CoordinatorState
from groupd.protocol.messages import TopicPartition

EVENTS_SHOWN = 1000
INDENTED_BYTES = 8192
"""Answers about one group that are shorter than this are indented, because people read them."""


class Elsewhere(Struct, frozen=True):
    """Another node, which serves a group. `told`: one line that names the node. `admin_url`: its
    admin port; empty if other machines do not reach that."""

    told: str
    admin_url: str = ""


def served_shard(broker: Broker, group_id: str) -> GroupLogShard:
    """The shard of a group. Raises Refusal if this process does not serve it now."""
    shard = broker.shard_of(group_id)
    if not isinstance(shard, GroupLogShard) or shard.state is not CoordinatorState.ACTIVE:
        raise refusal(f"the shard of group {group_id} is {shard.state.value}", 503)
    return shard


@contextmanager
def refused_moves() -> Iterator[None]:
    """Turns the errors of moving offsets into refusals. Raises Refusal."""
    try:
        yield
    except (CannotMove, BeforeHistory) as error:
        raise refusal(str(error), 409) from None
    except (CannotRead, OutcomeNotKnown) as error:
        raise refusal(str(error), 503) from None
    except UnreadableLog as error:
        raise refusal(str(error), 500) from None


class GroupRoutes:
    """The routes for groups. A group id with slashes is written percent-encoded. `work` makes
    everything in slices. `watch`: the lag of groups. `ends`: the ends of the logs that this process
    has open; for all other logs, the last round of `watch` has them. `own` has the last moves of
    offsets. `elsewhere(group_id)`: the node that serves a group; None if this node does. It is None
    without a cluster. `share`: the page about the records of share groups."""

    def __init__(
        self,
        broker: Broker,
        work: LongWork,
        ends: Ends,
        watch: LagWatch,
        own: OwnBroker,
        elsewhere: Callable[[str], Elsewhere | None] | None,
        share: SharePages,
    ) -> None:
        self._broker = broker
        self._work = work
        self._ends = ends_of(watch, ends)
        self._watch = watch
        self._own = own
        self._elsewhere = elsewhere
        self._share_pages = share

    async def __call__(self, request: HttpRequest) -> HttpReply:
        if self._elsewhere is not None and len(request.path) > 1:
            other = self._elsewhere(request.path[1])
            if other is not None:
                return _sent_on(request, other)
        match request.path:
            case (_,):
                return await self._work.run(self._list(request))
            case (_, group_id):
                return await self._work.run(self._show(request, group_id))
            case (_, group_id, "events"):
                events = self._broker.events.timeline.of(group_id)
                return await self._work.run(plain(events))
            case (_, group_id, "offsets"):
                return await self._work.run(self._offsets(request, group_id))
            case (_, group_id, "share"):
                return await self._work.run(self._share(request, group_id))
            case (_, group_id, "moves"):
                return await self._moves(group_id)
            case (_, group_id, ("lag" | "rebalances" | "configs" | "what-if") as name):
                return await self._work.run(self._page(request, group_id, name))
            case _:
                return text("not found", 404)

    async def events(self, request: HttpRequest) -> HttpReply:
        """The latest events of all groups, oldest first."""
        if len(request.path) > 1:
            return text("not found", 404)
        return await self._work.run(self._events())

    def _events(self) -> Steps[HttpReply]:
        events = yield from self._broker.events.timeline.latest(EVENTS_SHOWN)
        return (yield from plain(events))

    def _list(self, request: HttpRequest) -> Steps[HttpReply]:
        wanted = window(request)
        after = wanted.after
        found = yield from smallest(
            self._group_ids(),
            wanted.limit + 1,
            None if after is None else lambda place: place[0] > after,
        )
        rows = self._rows(found, "trend" in request.query)
        page = yield from json_steps(rows, wanted.limit)
        return paged(request, wanted, page, "", itemgetter("group_id"))

    def _group_ids(self) -> Iterator[tuple[str, int]]:
        """The ids of all groups, each with the number of its shard, because to look that up costs
        more for long ids."""
        for shard in list(self._broker.shards):
            if shard.state is CoordinatorState.ACTIVE:
                for group_id in list(shard.shard.state.groups):
                    yield group_id, shard.partition

    def _rows(
        self, found: Iterable[tuple[str, int]], trend: bool
    ) -> Iterator[dict[str, Any] | None]:
        """The rows of the groups; None for a stop, and for a group that is gone meanwhile."""
        timeline, pace = self._broker.events.timeline, Pace()
        for group_id, partition in found:
            yield from timeline.find_last(group_id, pace)
            shard = self._broker.served.by_number.get(partition)
            if shard is not None:
                group = shard.shard.state.groups.get(group_id)
                if group is None:
                    yield None
                    continue
                row = group_row(group, self._watch, timeline)
                if trend:
                    row["trend"] = trend_of(group_id, self._watch)
                yield row
            else:
                yield None  # another node serves it by now

    def _offsets(self, request: HttpRequest, group_id: str) -> Steps[HttpReply]:
        wanted = window(request)
        after = None if wanted.after is None else partition_of(wanted.after)
        shard = served_shard(self._broker, group_id)
        found = yield from offsets_steps(
            shard.shard.state,
            shard.shard.offsets.store,
            group_id,
            self._watch.positions.of,
            self._broker.clock.now(),
            after,
            wanted.limit,
        )
        if found is None:
            return text(f"no group {group_id}", 404)
        shown, more = found
        yield from add_lag(shown, self._ends)
        yield from add_judgement(shown, self._watch)
        page = yield from json_steps(shown, wanted.limit)
        if more:
            page.cut.setdefault("partitions", shown["partitions"][-1])
        return paged(request, wanted, page, "partitions", _partition_name)

    def _share(self, request: HttpRequest, group_id: str) -> Steps[HttpReply]:
        wanted = window(request)
        after = None if wanted.after is None else partition_of(wanted.after)
        shard = served_shard(self._broker, group_id).shard
        group = shard.state.groups.get(group_id)
        if group is None:
            return text(f"no group {group_id}", 404)
        positions = self._watch.positions.of(shard.state, shard.offsets.store, group)
        now = self._broker.clock.now()
        shown, more = yield from self._share_pages.page(
            shard.state, group, positions, now, after, wanted.limit
        )
        page = yield from json_steps(shown, wanted.limit)
        if more:
            page.cut.setdefault("partitions", shown["partitions"][-1])
        return paged(request, wanted, page, "partitions", _partition_name)

    async def _moves(self, group_id: str) -> HttpReply:
        shard = served_shard(self._broker, group_id)
        with refused_moves():
            moves = await self._own.last_moves(shard, group_id)
        return await self._work.run(plain(moves))

    def _page(self, request: HttpRequest, group_id: str, name: str) -> Steps[HttpReply]:
        shard = served_shard(self._broker, group_id)
        state = shard.shard.state
        group = state.groups.get(group_id)
        if group is None:
            return text(f"no group {group_id}", 404)
        if name == "what-if":
            found = yield from what_if_steps(state, group, request.query.get("assignor"))
            return (yield from plain(found))
        if name == "configs":
            return as_json(config_rows(state.config, state.group_configs.get(group_id)))
        if name == "rebalances":
            rows = yield from rebalances_page(group, self._broker.events.timeline.inputs(group_id))
            return (yield from plain(rows))
        found = yield from lag_steps(self._watch, group)
        return (yield from plain(found))

    def _show(self, request: HttpRequest, group_id: str) -> Steps[HttpReply]:
        wanted = window(request)
        shard = served_shard(self._broker, group_id)
        shown = inspect_lazily(shard, group_id, self._broker.clock.now(), wanted.after)
        if shown is None:
            return text(f"no group {group_id}", 404)
        if wanted.after is not None:
            shown = {name: shown[name] for name in ("group_id", "members")}
        page = yield from json_steps(shown, wanted.limit)
        if len(page.body) <= INDENTED_BYTES and not page.cut:
            return HttpReply(json.format(page.body, indent=2) + b"\n", JSON)
        return paged(request, wanted, page, "members", itemgetter("member_id"))


def _sent_on(request: HttpRequest, other: Elsewhere) -> HttpReply:
    """The reply for a group of another node: it names the node, and redirects to its admin port if
    that can be reached."""
    if not other.admin_url:
        return text(other.told, 503)
    path = path_of(request.path)
    query = f"?{urlencode(request.query)}" if request.query else ""
    return text(other.told, 307, (("Location", f"{other.admin_url}{path}{query}"),))


def _partition_name(row: Mapping[str, Any]) -> str:
    return f"{row['topic']}-{row['partition']}"


def partition_of(text: str) -> TopicPartition:
    """The topic and partition in a text that `_partition_name` made. Raises Refusal."""
    topic, dash, number = text.rpartition("-")
    if not dash or not number.isascii() or not number.isdecimal() or len(number) > 10:
        raise refusal("after must be a topic and a partition, such as orders-7")
    return topic, int(number)
