"""One group as events: whole pictures in one line each, and what becomes of the stream when the
group is gone or somewhere else."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import json

from groupd.coordinator.admin.http_messages import (
    JSON,
    HttpReply,
    HttpRequest,
    Refusal,
    StreamEvent,
    as_json,
    text,
)
from groupd.coordinator.console.all_groups import Asking
from groupd.coordinator.console.one_group import OneGroup

ELSEWHERE = HttpReply(
    b"group billing is served by node 2 at 10.0.0.2:9092\n",
    status=307,
    headers=(("Location", "http://10.0.0.2:9644/groups/billing/lag"),),
)


def compact(value: Any) -> HttpReply:
    return HttpReply(json.encode(value) + b"\n", JSON)


class Shown:
    """The pages of a group. `refusal`: the answer to all questions."""

    def __init__(self) -> None:
        self.sequence = 1
        self.round = 1
        self.state = "Stable"
        self.type = "consumer"
        self.group: Any = {"members": []}
        self.indented = False
        self.refusal: HttpReply | None = None
        self.asked = 0
        self.source = OneGroup(Asking(self.route), "billing")

    async def route(self, request: HttpRequest) -> HttpReply:
        self.asked += 1
        if self.refusal is not None:
            return self.refusal
        match request.path[2:]:
            case ():
                return as_json(self.group) if self.indented else compact(self.group)
            case ("events",):
                return compact([{"sequence": self.sequence}])
            case ("lag",):
                return compact({"round": self.round, "state": self.state, "type": self.type})
            case ("share",):
                return compact({"partitions": []})
            case ("configs",):
                return as_json([{"name": "a", "value": "b\nc"}])
            case _:
                return compact([])

    async def look(self) -> tuple[str, Any] | None:
        found = await self.source.look()
        return None if found is None else read(found)


def read(event: StreamEvent) -> tuple[str, Any]:
    """Name and data, as a browser reads them: the data is one line."""
    name, data, *ends = b"".join(event).decode().split("\n")
    assert ends == ["", ""]
    return name.removeprefix("event: "), json.decode(data.removeprefix("data: "))


@pytest.mark.parametrize("indented", [True, False])
async def test_a_picture_is_one_line_however_long_its_pages_are(indented: bool) -> None:
    shown = Shown()
    shown.indented = indented
    for members in range(0, 400, 3):
        shown.sequence += 1
        shown.group = {"members": [{"member_id": f"m{at}", "why": "a\nb"} for at in range(members)]}
        found = await shown.look()
        assert found is not None
        assert found[1]["group"] == shown.group
        assert found[1]["configs"] == [{"name": "a", "value": "b\nc"}]


async def test_a_picture_is_made_after_events_and_rounds_and_while_the_group_waits() -> None:
    shown = Shown()
    assert await shown.look() is not None
    assert await shown.look() is None
    shown.sequence += 1
    assert await shown.look() is not None
    shown.round += 1
    assert await shown.look() is not None
    shown.state, shown.sequence = "Reconciling", 7
    assert await shown.look() is not None
    assert await shown.look() is not None
    shown.state = "Stable"
    assert await shown.look() is not None
    assert await shown.look() is None


@pytest.mark.parametrize("group_type", ["consumer", "share"])
async def test_only_a_share_group_has_the_part_about_its_records(group_type: str) -> None:
    shown = Shown()
    shown.type = group_type
    found = await shown.look()
    assert found is not None
    assert ("share" in found[1]) is (group_type == "share")


@pytest.mark.parametrize(
    ("refusal", "away"),
    [
        (text("no group billing", 404), ("gone", {})),
        (
            ELSEWHERE,
            (
                "elsewhere",
                {
                    "told": "group billing is served by node 2 at 10.0.0.2:9092",
                    "admin_url": "http://10.0.0.2:9644",
                },
            ),
        ),
    ],
    ids=["gone", "elsewhere"],
)
async def test_a_group_that_is_away_is_told_once_and_shown_again_when_it_is_back(
    refusal: HttpReply, away: tuple[str, Any]
) -> None:
    shown = Shown()
    assert await shown.look() is not None
    shown.refusal = refusal
    assert await shown.look() == away
    assert await shown.look() is None
    assert read(await shown.source.whole()) == away
    shown.refusal = None
    back = await shown.look()
    assert back is not None
    assert back[0] == "snapshot"
    assert read(await shown.source.whole()) == back


async def test_a_shard_that_is_being_loaded_is_no_news_of_the_group() -> None:
    shown = Shown()
    before = await shown.look()
    shown.refusal = text("the shard of group billing is loading", 503)
    with pytest.raises(Refusal, match="is loading"):
        await shown.look()
    assert read(await shown.source.whole()) == before
