"""Long pages of the admin port: no step does much at a time, and the pages together say all. A step
is measured in calls, of Python and C functions alike."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Generator
from typing import Any, TypeVar, cast
from unittest.mock import Mock
from urllib.parse import parse_qsl

import pytest

from groupd.coordinator.admin.group_pages import MOVES_SHOWN
from groupd.coordinator.admin.groups import GroupRoutes
from groupd.coordinator.admin.http_messages import HttpReply, HttpRequest
from groupd.coordinator.admin.pages import PAGE_BYTES
from groupd.coordinator.cli.groups.listing import join_members
from groupd.coordinator.core.classic_group.group import SESSION, ClassicGroup, State
from groupd.coordinator.core.classic_group.member import ClassicGroupMember
from groupd.coordinator.core.consumer_group.group import ConsumerGroup
from groupd.coordinator.core.consumer_group.member import ConsumerGroupMember
from groupd.coordinator.core.metadata_image import MetadataImage, TopicImage
from groupd.coordinator.core.offsets.store import StoredOffset
from groupd.coordinator.core.slices import LISTED_MAX
from groupd.coordinator.core.types import Event, EventKind
from groupd.coordinator.lag.watch import LagWatch
from groupd.coordinator.runtime.long_work import LongWork
from groupd.protocol.messages.classic_group import JoinProtocol
from tests.unit.interop.values import assignment, subscription
from tests.unit.runtime.harness import Bench

CALLS_MAX = 8000
"""The most calls of one step: less than a millisecond."""

TRIAL_CALLS_MAX = 13_000
"""The same where an assignor is tried: its result is checked in the slices that every target has
(`target_assignment.SLICE_PARTITIONS`), some 2 ms long."""

T = TypeVar("T")


class Counting:
    """Stands for `LongWork`. `most`: the calls of the longest step."""

    def __init__(self) -> None:
        self.most = 0
        self._calls = 0

    def _note(self, frame: Any, event: str, _: object) -> None:
        self._calls += event in ("call", "c_call")

    async def run(self, steps: Generator[None, None, T]) -> T:
        while True:
            self._calls = 0
            sys.setprofile(self._note)
            try:
                next(steps)
            except StopIteration as ended:
                result: T = ended.value
                return result
            finally:
                sys.setprofile(None)
                self.most = max(self.most, self._calls)


class Pages:
    """The routes of a broker with one shard."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.work = Counting()
        work = cast("LongWork", self.work)
        watch = LagWatch(bench.broker, Mock(), bench.clock, work, bench.broker.config)
        self.routes = GroupRoutes(
            bench.broker, work, lambda topic, number: (0, 10), watch, Mock(), None, Mock()
        )
        self.state = bench.shard.shard.state
        self.offsets = bench.shard.shard.offsets.store

    async def get(self, *path: str, **query: str) -> tuple[Any, dict[str, str] | None]:
        """The page, and the query of the next one."""
        request = HttpRequest(("groups", *path), query)
        return read(await self.routes(request))

    async def all(self, *path: str, **query: str) -> list[Any]:
        pages = []
        following: dict[str, str] | None = query
        while following is not None:
            page, following = await self.get(*path, **following)
            pages.append(page)
        assert 0 < self.work.most <= CALLS_MAX
        return pages


def read(reply: HttpReply) -> tuple[Any, dict[str, str] | None]:
    assert reply.status == 200, reply.body
    assert len(reply.body) < 2 * PAGE_BYTES
    link = re.fullmatch(r'<([^?]*)\?(.*)>; rel="next"', dict(reply.headers).get("Link", ""))
    return json.loads(reply.body), None if link is None else dict(parse_qsl(link[2]))


@pytest.fixture
async def pages() -> Pages:
    return Pages(await Bench().start())


async def test_many_groups(pages: Pages) -> None:
    count = 2 * LISTED_MAX + 1
    ids = [f"g{number * 7919 % count:06d}" for number in range(count)]
    pages.state.groups.update({group_id: ClassicGroup.simple(group_id) for group_id in ids})
    shown = await pages.all()
    assert [len(page) for page in shown] == [LISTED_MAX] * 2 + [1]
    assert [row["group_id"] for page in shown for row in page] == sorted(ids)
    page, following = await pages.get(limit="2", after="g000007")
    assert [row["group_id"] for row in page] == ["g000008", "g000009"]
    assert following == {"after": "g000009", "limit": "2"}


async def test_a_group_with_very_many_pending_members(pages: Pages) -> None:
    count = 20_000
    group = ClassicGroup("g", state=State.PREPARING_REBALANCE)
    ids = [f"consumer-{number * 7919 % count:06d}" for number in range(count)]
    group.pending_members.update(dict.fromkeys(ids))
    for member_id in ids:
        pages.state.deadlines.set((SESSION, "g", member_id), 7)
    pages.state.groups["g"] = group
    (page,) = await pages.all("g")
    first = sorted(ids)[:LISTED_MAX]
    assert page["pending_members"] == page["waiting_for"] == first
    assert [one["member_id"] for one in page["blocked"]] == first
    assert [one["member_id"] for one in page["deadlines"]] == first
    assert page["left_out"] == ["pending_members", "waiting_for", "blocked", "deadlines"]


async def test_a_group_with_very_many_offsets(pages: Pages) -> None:
    stored = StoredOffset(3, -1, "", 1, -1, b"", 1)
    for topic in range(30):
        for number in range(1000):
            pages.offsets.put("g", f"t{topic}", number, stored)
    pages.state.groups["g"] = ClassicGroup.simple("g")
    shown = await pages.all("g", "offsets")
    rows = [row for page in shown for row in page["partitions"]]
    assert [len(page["partitions"]) for page in shown] == [LISTED_MAX] * 3
    assert [(row["topic"], row["partition"]) for row in rows] == sorted(
        (f"t{topic}", number) for topic in range(30) for number in range(1000)
    )
    assert {row["lag"] for row in rows} == {7}


def consumer_group(pages: Pages, members: int, topics: int, partitions: int) -> ConsumerGroup:
    """Each member owns the same number of partitions; the ids of topics are unknown."""
    group = ConsumerGroup("g")
    each = partitions // members
    for number in range(members):
        owned = range(number * each, (number + 1) * each)
        assigned = {bytes([0] * 15 + [topic]): dict.fromkeys(owned, 1) for topic in range(topics)}
        group.put_member(
            ConsumerGroupMember(member_id=f"m{number:05d}", member_epoch=1, assigned=assigned)
        )
    pages.state.groups["g"] = group
    return group


async def test_a_group_with_many_members(pages: Pages) -> None:
    consumer_group(pages, LISTED_MAX + 5, 2, LISTED_MAX + 5)
    first, second = await pages.all("g")
    assert len(first["members"]) == LISTED_MAX
    assert first["left_out"] == ["members"]
    assert second["members"][0]["owned"] == {
        "00" * 16: [LISTED_MAX],
        "00" * 15 + "01": [LISTED_MAX],
    }
    assert [one["member_id"] for one in second["members"]] == [
        f"m{number:05d}" for number in range(LISTED_MAX, LISTED_MAX + 5)
    ]
    assert second.keys() == {"group_id", "members"}


async def test_a_member_with_many_partitions(pages: Pages) -> None:
    consumer_group(pages, 1, 20, 5000)
    (page,) = await pages.all("g")
    assert sum(map(len, page["members"][0]["owned"].values())) == 100_000


async def test_who_owns_more_partitions_than_a_page_has(pages: Pages) -> None:
    """Few members own them; a member is on several pages."""
    consumer_group(pages, 4, 6, 3000)
    stored = StoredOffset(3, -1, "", 1, -1, b"", 1)
    for topic in range(6):
        for number in range(0, 3000, 2):
            pages.offsets.put("g", f"{topic:032x}", number, stored)
    shown = await pages.all("g", "offsets")
    rows = [(row["topic"], row["partition"]) for page in shown for row in page["partitions"]]
    assert len(rows) == 18_000
    assert rows == sorted(rows)
    members: dict[str, dict[str, Any]] = {}
    for page in shown:
        join_members(members, page)
    assert [member["partitions"] for member in members.values()] == [4_500] * 4
    assert [member["lag"] for member in members.values()] == [2250 * 7] * 4


def classic_group(pages: Pages, members: int, topics: int, partitions: int) -> ClassicGroup:
    """Each member has the same number of partitions; the topics are known."""
    known = [TopicImage(bytes([number]) * 16, f"t{number}", partitions) for number in range(topics)]
    pages.state.image = MetadataImage(known, 1)
    group = ClassicGroup("g", state=State.STABLE, generation=1)
    each = partitions // members
    offered = (JoinProtocol("range", subscription(*(topic.name for topic in known))),)
    for number in range(members):
        # Not in the order of the ids.
        place = number * 7919 % members
        owned = range(place * each, (place + 1) * each)
        given = assignment({topic.name: owned for topic in known})
        member = ClassicGroupMember(f"m{place:05d}", None, "c", "h", 1, 1, offered, given)
        group.add(member, "consumer")
    group.protocol_name = "range"
    pages.state.groups["g"] = group
    return group


@pytest.mark.slow
@pytest.mark.parametrize(("members", "partitions"), [(10_000, 10_000), (10, 20_000)])
async def test_what_if_a_large_classic_group_had_an_assignor(
    pages: Pages, members: int, partitions: int
) -> None:
    classic_group(pages, members, 2, partitions)
    page, _ = await pages.get("g", "what-if", assignor="range")
    assert page["moved"] == 0
    assert len(page["target"]) == members
    assert page["balance"]["current"] == page["balance"]["proposed"]
    assert 0 < pages.work.most <= TRIAL_CALLS_MAX


@pytest.mark.slow
async def test_what_if_all_partitions_of_a_large_group_moved(pages: Pages) -> None:
    """The members have them the other way round."""
    group = classic_group(pages, LISTED_MAX, 2, LISTED_MAX)
    ids = sorted(group.members)
    given = [group.members[one].assignment for one in ids]
    for one, other in zip(ids, reversed(given), strict=True):
        group.members[one].assignment = other
    page, _ = await pages.get("g", "what-if", assignor="range")
    assert page["moved"] == 2 * LISTED_MAX
    assert len(page["moves"]) == MOVES_SHOWN
    assert 0 < pages.work.most <= TRIAL_CALLS_MAX


@pytest.mark.slow
async def test_what_if_a_large_consumer_group_had_another_assignor(pages: Pages) -> None:
    group = consumer_group(pages, LISTED_MAX, 2, LISTED_MAX)
    for member in group.members.values():
        group.set_target(member.member_id, dict.fromkeys(member.assigned, (7,)))
    page, _ = await pages.get("g", "what-if", assignor="range")
    assert page["balance"]["current"]["least"] == 2
    assert page["proposed"].keys() == group.members.keys()
    assert 0 < pages.work.most <= TRIAL_CALLS_MAX


async def test_the_latest_events_of_many_groups(pages: Pages) -> None:
    timeline = pages.bench.broker.events.timeline
    for number in range(6000):
        joined = Event("consumer", EventKind.MEMBER_JOINED, f"g{number % 1500}", f"m{number}")
        timeline.add([joined], number)
    page, _ = read(await pages.routes.events(HttpRequest(("events",), {})))
    assert [one["member_id"] for one in page] == [f"m{number}" for number in range(5000, 6000)]
    assert 0 < pages.work.most <= CALLS_MAX


async def test_the_last_rebalances_of_many_groups(pages: Pages) -> None:
    timeline, advanced = pages.bench.broker.events.timeline, EventKind.MEMBER_EPOCH_ADVANCED
    for number in range(90):
        group = f"g{number:02d}"
        pages.state.groups[group] = ConsumerGroup(group)
        bumped = Event("consumer", EventKind.GROUP_EPOCH_BUMPED, group, epoch=2, cause="it grew")
        timeline.add([bumped], number)
        for member in range(99):
            timeline.add([Event("consumer", advanced, group, f"m{member}", 2)], number)
    rows, _ = read(await pages.routes(HttpRequest(("groups",), {})))
    told = [row["last_rebalance"] for row in rows]
    assert told == [{"timestamp_ms": number, "cause": "it grew"} for number in range(90)]
    assert 0 < pages.work.most <= CALLS_MAX
