"""The answers of the admin port when a stream cannot be opened."""

from __future__ import annotations

from typing import Any
from unittest.mock import Mock

import pytest

from groupd.coordinator.admin.http_messages import HttpReply, HttpRequest, HttpStream, as_json, text
from groupd.coordinator.console.routes import Console
from groupd.coordinator.runtime.long_work import LongWork
from tests.support.manual_clock import ManualClock

MOVED = HttpReply(b"node 2 has it\n", status=307, headers=(("Location", "http://10.0.0.2:1/x"),))


class Port:
    """`replies`: what the routes of groups answer one after the other, and then for ever; an
    exception is raised."""

    def __init__(self, *replies: HttpReply | Exception) -> None:
        self._replies = list(replies)
        self.console = Console(self._route, Mock(), dict, LongWork(), ManualClock())

    async def _route(self, request: HttpRequest) -> HttpReply:
        reply = self._replies.pop(0) if len(self._replies) > 1 else self._replies[0]
        if isinstance(reply, Exception):
            raise reply
        return reply

    async def open(self, *path: str) -> Any:
        try:
            return await self.console._live(HttpRequest(("live", *path), {}))
        finally:
            assert self.open_topics() in (0, 1)

    def open_topics(self) -> int:
        return self.console._topics.count


LAG = as_json({"round": 1, "state": "Stable"})


@pytest.mark.parametrize("status", [404, 503])
async def test_a_group_that_cannot_be_shown_has_the_answer_of_its_pages(status: int) -> None:
    # Asked for at first, or only at the first look.
    for replies in ([text("no", status)], [LAG, text("no", 503)]):
        port = Port(*replies)
        reply = await port.open("groups", "billing")
        assert (reply.status, reply.body, port.open_topics()) == (replies[-1].status, b"no\n", 0)


async def test_a_group_of_another_node_is_a_stream_that_says_so() -> None:
    port = Port(MOVED)
    stream = await port.open("groups", "billing")
    assert isinstance(stream, HttpStream)
    assert b"".join(stream.first[0]) == (
        b'event: elsewhere\ndata: {"told":"node 2 has it","admin_url":"http://10.0.0.2:1"}\n\n'
    )
    assert port.open_topics() == 1
    await stream.events.aclose()
    assert port.open_topics() == 0


@pytest.mark.parametrize("path", [("groups",), ("groups", "billing")])
async def test_an_error_at_the_first_look_is_left_to_the_port(path: tuple[str, ...]) -> None:
    port = Port(*([LAG] * (len(path) - 1)), KeyError("unforeseen"))
    with pytest.raises(KeyError):
        await port.open(*path)
    assert port.open_topics() == 0


async def test_there_are_no_other_streams() -> None:
    for path in ((), ("nothing",), ("groups", "billing", "lag")):
        assert (await Port(LAG).open(*path)).status == 404
