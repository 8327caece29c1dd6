"""POST `/groups/{id}/offsets/reset` and `/restore`: bodies, refusals, and what answers have."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any
from unittest.mock import Mock

import pytest

from groupd.coordinator.admin.groups import GroupRoutes
from groupd.coordinator.admin.http_messages import HttpRequest, Refusal
from groupd.coordinator.admin.http_server import CONTROL_BODY_MAX
from groupd.coordinator.admin.offset_pages import OffsetPages
from groupd.coordinator.config.admin_settings import AdminSettings
from groupd.coordinator.core.slices import LISTED_MAX
from groupd.coordinator.lag.watch import LagWatch
from groupd.coordinator.moves.plan import Current
from groupd.coordinator.runtime.shard_state import CoordinatorState
from groupd.protocol.messages.offsets import OffsetCommitRequest
from groupd.protocol.messages.share_group import ShareGroupHeartbeatRequest
from groupd.storage.log import LogCorrupt
from tests.support.loop_turns import Turns, without_log
from tests.unit.moves.harness import GROUP, MANY, TOPIC, Moves

CALLS = 10_000
"""The most calls in one turn, some milliseconds."""


class Page:
    """`moves.own_broker` behind its paths, over a group with committed offsets."""

    def __init__(self, moves: Moves) -> None:
        self.moves = moves
        self._pages = OffsetPages(moves.bench.broker, moves.own, moves.work)

    @classmethod
    async def made(cls, offsets: int = 2) -> Page:
        moves = await Moves.made()
        await moves.commit({number: Current(300) for number in range(offsets)})
        return cls(moves)

    async def order(self, what: str, body: Any) -> tuple[int, Any]:
        """The status, and the answer or the line that refuses."""
        path = ("groups", GROUP, "offsets", what)
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        try:
            reply = await self.moves.done(self._pages.act(HttpRequest(path, {}, "POST", body=data)))
        except Refusal as refused:
            reply = refused.reply
        shown = reply.body.decode()
        return reply.status, json.loads(shown) if reply.status == 200 else shown.strip()


def sent_back(answer: Any) -> dict[str, list[list[int | None]]]:
    found: dict[str, list[list[int | None]]] = {}
    for row in answer["rows"]:
        found.setdefault(row["topic"], []).append([row["partition"], row["from"], row["to"]])
    return found


async def test_what_was_shown_is_sent_back_and_done() -> None:
    page = await Page.made()
    order = {"to": "shift", "value": -100, "partitions": {TOPIC: [1]}}
    status, shown = await page.order("reset", order)
    assert (status, shown["refusal"]) == (200, "")
    assert shown["rows"] == [
        {
            "topic": TOPIC,
            "partition": 1,
            "from": 300,
            "to": 200,
            "action": "rewind",
            "records": -100,
            "warning": "",
            "writes": True,
            "starts_anew": False,
        }
    ]
    assert page.moves.committed() == {0: 300, 1: 300}
    apply = {**order, "apply": sent_back(shown)}
    assert await page.order("reset", apply) == (200, {"written": 1})
    assert page.moves.committed() == {0: 300, 1: 200}
    status, line = await page.order("reset", apply)
    assert (status, line.count("\n")) == (409, 0)
    assert "t-1 from 300 to 200" in line
    assert page.moves.committed() == {0: 300, 1: 200}


async def test_a_restore_is_sent_back_and_done() -> None:
    page = await Page.made()
    at_ms = page.moves.bench.clock.now().wall_ms + 5
    page.moves.bench.clock.advance(10)
    await page.moves.commit({0: Current(1), 2: Current(7)})
    order = {"at": datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(), "delete_new": True}
    shown = (await page.order("restore", order))[1]
    apply = {TOPIC: [row for row in sent_back(shown)[TOPIC] if row[1] != row[2]]}
    assert apply == {TOPIC: [[0, 1, 300], [2, 7, None]]}
    assert await page.order("restore", {**order, "apply": apply}) == (200, {"written": 2})
    assert page.moves.committed() == {0: 300, 1: 300}


@pytest.mark.parametrize(
    ("what", "body"),
    [
        ("reset", {"to": "earliest", "partitions": {TOPIC: [0]}}),
        ("restore", {"at": "2026-11-21T06:57:57Z"}),
    ],
)
async def test_the_operator_of_a_share_group_is_told_what_to_use(what: str, body: Any) -> None:
    page = Page(await Moves.made())
    await page.moves.bench.answer(ShareGroupHeartbeatRequest(GROUP, "m", 0, None, (TOPIC,)), 1)
    status, line = await page.order(what, body)
    assert status == 409
    assert line.startswith("group g is a share group")
    assert "`groupd groups reset`" in line


async def test_an_order_for_all_partitions_of_a_large_group_fits_into_a_body() -> None:
    page = await Page.made(MANY)
    shown = (await page.order("reset", {"to": "earliest"}))[1]
    assert len(shown["rows"]) == MANY
    apply = sent_back(shown)
    assert await page.order("reset", {"to": "earliest", "apply": apply}) == (200, {"written": MANY})
    most = {TOPIC: [[number, 10**12, 10**12] for number in range(LISTED_MAX)]}
    assert len(json.dumps(most)) < CONTROL_BODY_MAX


async def test_a_large_order_lets_others_have_their_turn() -> None:
    page = await Page.made(MANY)
    plan = {"to": "shift", "value": -100}
    apply = {TOPIC: [[number, 300, 200] for number in range(MANY)]}
    for body in (plan, {**plan, "apply": apply}):
        with without_log(), Turns() as turns:
            assert (await page.order("reset", body))[0] == 200
        assert turns.most <= CALLS, str(turns)


@pytest.mark.parametrize(
    ("what", "body", "told"),
    [
        ("reset", None, "the order is too long"),
        ("reset", [], "not an order"),
        ("reset", b'{"to":"\xff"}', "not an order"),
        ("reset", b'{"to":"latest","x":' + b"[" * 2000 + b"]" * 2000 + b"}", "not an order"),
        ("reset", {"to": "latest", "partitions": {TOPIC: ["1"]}}, "not an order"),
        ("reset", {"to": "latest", "apply": True}, "not an order"),
        ("reset", {"to": "latest", "apply": {TOPIC: [[0, 300]]}}, "not an order"),
        ("reset", {"to": "latest", "apply": {TOPIC: [[0, 300, None]]}}, "a reset leaves no"),
        ("reset", {"to": "latest", "apply": {TOPIC: [[0, 300, -1]]}}, "t-0: no offset: -1"),
        ("reset", {"to": "latest", "apply": {TOPIC: [[0, 300, 2**63]]}}, "t-0: no offset"),
        ("reset", {"to": "latest", "apply": {TOPIC: [[0, 3, 4], [0, 3, 5]]}}, "t-0 stands twice"),
        ("restore", {"at": "yesterday"}, "a time must be in ISO 8601"),
        ("restore", {"at": "2026-01-01T00:00:00Z", "apply": {TOPIC: 1}}, "not an order"),
    ],
)
async def test_bad_orders_are_refused_with_one_line(what: str, body: Any, told: str) -> None:
    page = await Page.made()
    status, line = await page.order(what, body)
    assert (status, line.count("\n")) == (400, 0)
    assert line.startswith(told)
    assert page.moves.committed() == {0: 300, 1: 300}


async def test_a_store_that_is_away_and_a_shard_that_does_not_serve_are_503() -> None:
    page = await Page.made()
    page.moves.ends.away = True
    status, line = await page.order("reset", {"to": "latest"})
    assert (status, line) == (503, "the store cannot be read now: the database is away")
    page.moves.bench.store.fail_next_read()
    status, line = await page.order("restore", {"at": "2030-01-01T00:00:00Z"})
    assert (status, line) == (503, "the store cannot be read now: scripted fault")
    page.moves.shard.state = CoordinatorState.FAILED
    for body in ({"to": "latest"}, {"to": "latest", "apply": {}}):
        assert (await page.order("reset", body))[0] == 503


async def test_a_damaged_log_is_500_with_its_partition() -> None:
    """To wait would not help."""
    page = await Page.made()
    page.moves.ends.damaged = 1
    body = {"to": "time", "value": "2026-01-01T00:00:00Z"}
    told = (500, "the log of t-1 is damaged: magic 0 at byte 0")
    assert await page.order("reset", body) == told
    page.moves.bench.store.fail_next_read(LogCorrupt("wrong checksum"))
    body = {"at": "2030-01-01T00:00:00Z"}
    assert await page.order("restore", body) == (500, "the log is damaged: wrong checksum")


async def test_an_order_whose_outcome_is_not_known_is_503() -> None:
    page = await Page.made()
    page.moves.lose_reply(OffsetCommitRequest)
    apply = {TOPIC: [[0, 300, 7]]}
    assert await page.order("reset", {"to": "latest", "apply": apply}) == (
        503,
        "1 of 1 partition may have been written, such as t-0: UNKNOWN_SERVER_ERROR",
    )
    assert page.moves.committed() == {0: 7, 1: 300}


async def test_there_are_two_orders() -> None:
    page = await Page.made()
    assert await page.order("nothing", {}) == (404, "not found")


async def test_the_last_moves_are_503_while_the_store_is_away() -> None:
    moves = (await Page.made()).moves
    broker, work = moves.bench.broker, moves.work
    watch = LagWatch(broker, moves.ends, moves.bench.clock, work, AdminSettings())
    routes = GroupRoutes(broker, work, lambda topic, number: None, watch, moves.own, None, Mock())
    request = HttpRequest(("groups", GROUP, "moves"), {})
    assert (await moves.done(routes(request))).status == 200
    moves.bench.store.fail_next_read()
    with pytest.raises(Refusal, match="the store cannot be read now: scripted fault") as refused:
        await moves.done(routes(request))
    assert refused.value.reply.status == 503
