"""The list of all groups as events: what changes is told, and everything is encoded once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any
from unittest.mock import patch

from msgspec import json

from groupd.coordinator.admin.http_messages import HttpReply, HttpRequest, StreamEvent, as_json
from groupd.coordinator.admin.pages import next_page, window
from groupd.coordinator.console import all_groups
from groupd.coordinator.console.all_groups import AllGroups, Asking
from groupd.coordinator.console.live import LiveTopics
from groupd.coordinator.runtime.long_work import LongWork
from tests.support.loop_turns import OneStepATurn, until
from tests.support.manual_clock import ManualClock

PAGE = 500
NODE = {"id": 3}


class Listed:
    """The groups, as the route `/groups` lists them. Each slice of work is one step."""

    def __init__(self, groups: int) -> None:
        self.members = {f"g{number:05d}": 0 for number in range(groups)}
        self.not_ready: str | None = None
        self.others: list[dict[str, Any]] = []
        self.clock = ManualClock()
        self.topics = LiveTopics(self.clock)
        self.work = LongWork(OneStepATurn())

    async def route(self, request: HttpRequest) -> HttpReply:
        assert request.path == ("groups",)
        wanted = window(request)
        found = sorted(name for name in self.members if name > (wanted.after or ""))[:PAGE]
        rows = [{"group_id": name, "members": self.members[name]} for name in found]
        more = bool(found) and found[-1] != max(self.members)
        headers = next_page(request, found[-1], PAGE) if more else ()
        reply = as_json(rows)
        return HttpReply(reply.body, reply.content_type, headers=headers)

    def source(self) -> AllGroups:
        asking, now = Asking(self.route), self.clock.now
        return AllGroups(
            asking, self.work, now, lambda: NODE, lambda: self.not_ready, lambda: self.others
        )

    async def listen(self) -> AsyncGenerator[StreamEvent, None]:
        async with aclosing(self.topics.events("groups", self.source())) as events:
            async for one in events:
                yield one


def read(event: StreamEvent | None) -> tuple[str, Any]:
    """Name and data."""
    assert event is not None
    name, data, *ends = b"".join(event).decode().split("\n")
    assert ends == ["", ""]
    return name.removeprefix("event: "), json.decode(data.removeprefix("data: "))


async def test_a_snapshot_then_changes_only() -> None:
    listed = Listed(1200)
    source = listed.source()
    name, data = read(await source.look())
    assert (name, len(data["rows"]), data["node"]) == ("snapshot", 1200, NODE)
    assert await source.look() is None
    listed.members["g00700"] = 5
    listed.members["new"] = 1
    del listed.members["g00001"]
    name, data = read(await source.look())
    assert name == "changes"
    assert data["rows"] == [
        {"group_id": "g00700", "members": 5},
        {"group_id": "new", "members": 1},
    ]
    assert (data["gone"], data["version"]) == (["g00001"], 2)
    name, data = read(await source.whole())
    assert (name, len(data["rows"]), data["version"]) == ("snapshot", 1200, 2)


async def test_no_groups_are_news_for_who_has_just_come() -> None:
    assert read(await Listed(0).source().look())[1]["rows"] == []


async def test_a_list_that_may_lack_groups_says_so() -> None:
    listed = Listed(3)
    source = listed.source()
    assert read(await source.look())[1]["missing"] is None
    listed.not_ready = "7 shards are not active yet"
    del listed.members["g00002"]
    data = read(await source.look())[1]
    assert (data["gone"], data["missing"]) == (["g00002"], "7 shards are not active yet")
    listed.not_ready = None
    data = read(await source.look())[1]
    assert (data["rows"], data["missing"]) == ([], None)
    listed.others = [{"node": 2, "admin": "http://two:9644"}]
    data = read(await source.look())[1]
    assert (data["rows"], data["other_nodes"]) == ([], listed.others)


async def test_there_is_a_largest_list_and_it_says_that_there_are_more_groups() -> None:
    with patch.object(all_groups, "GROUPS_MAX", 2 * PAGE):
        for groups, more in ((2 * PAGE, False), (2 * PAGE + 1, True), (5 * PAGE, True)):
            data = read(await Listed(groups).source().look())[1]
            assert (len(data["rows"]), data["more"]) == (2 * PAGE, more), groups


async def test_all_listeners_share_the_bytes_of_one_snapshot() -> None:
    listed = Listed(2000)
    first = listed.listen()
    await anext(first)
    listed.members["g00007"] = 1
    with patch.object(all_groups, "_encoded", wraps=all_groups._encoded) as encoded:
        await until(lambda: listed.clock.next_timer_ms() is not None)
        listed.clock.advance(1_000_000)
        news = await anext(first)
        others = [listed.listen() for _ in range(60)]
        shown = await asyncio.gather(*(anext(other) for other in others))
    assert [call.args[0] for call in encoded.call_args_list] == ["changes", "snapshot"]
    assert read(news)[1]["rows"] == [{"group_id": "g00007", "members": 1}]
    assert len({id(part) for event in shown for part in event}) == len(shown[0])
    await listed.topics.close()


async def test_a_listener_that_goes_away_leaves_the_snapshot_to_the_others() -> None:
    listed = Listed(2000)
    source = listed.source()
    await source.look()
    listed.members["g00007"] = 1
    await source.look()
    first, second = (asyncio.ensure_future(source.whole()) for _ in range(2))
    await until(lambda: listed.work.under_way > 0)
    first.cancel()
    assert len(read(await second)[1]["rows"]) == 2000


async def test_nothing_is_kept_for_nobody() -> None:
    listed = Listed(2000)
    listener = listed.listen()
    await anext(listener)
    topic = listed.topics._topics["groups"]
    source: Any = topic._source
    await listener.aclose()
    assert listed.topics.count == 0
    # Who comes next gets a source of its own.
    other = listed.listen()
    await anext(other)
    assert listed.topics._topics["groups"]._source is not source
    await listed.topics.close()
