"""The two walks of docs/architecture.md: a heartbeat and a durable commit call what the page says,
in that order, and nothing else of the server and the runtime but what helps a named function."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import FrameType
from typing import Any

from tests.bench.frames import consumer_heartbeat, offset_commit
from tests.unit.server.test_stored_replies import TOPIC, Peer, parse

PAGE = Path(__file__).resolve().parents[3] / "docs" / "architecture.md"
HEARTBEAT_STEPS, COMMIT_STEPS = 15, 20
HEARTBEAT_CALLS, COMMIT_CALLS = 35, 75
"""The calls of Python functions in the packages `server` and `runtime` and in the front end,
helpers too."""


def steps(heading: str) -> list[str]:
    """The functions of a walk, as the page numbers them."""
    section = PAGE.read_text().split(f"### {heading}\n")[1].split("\n### ")[0].split("\n## ")[0]
    return re.findall(r"^\d+\. `([\w.]+)`", section, flags=re.MULTILINE)


class Calls:
    """Context manager: qualified names of the product's functions that are called."""

    def __init__(self) -> None:
        self.all: list[str] = []
        self.own = 0

    def _note(self, frame: FrameType, event: str, arg: Any) -> None:
        if event != "call":
            return
        code = frame.f_code
        room = re.search(r"/(coordinator|protocol)/(\w+)(?:/|\.py)", code.co_filename)
        if room is None or "site-packages" in code.co_filename:
            return
        self.all.append(f"{Path(code.co_filename).stem}.{code.co_qualname}"
                        if "." not in code.co_qualname else code.co_qualname)  # fmt: skip
        ticks = "loop_stalls" in code.co_filename or code.co_qualname == "PauseAwareClock.ring"
        helps = "<" in code.co_qualname or ticks
        self.own += not helps and (
            room[2] in ("server", "runtime") or "/frontend/" in code.co_filename
        )

    def __enter__(self) -> Calls:
        sys.setprofile(self._note)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)


def assert_walked(walk: list[str], calls: list[str]) -> None:
    at = 0
    for step in walk:
        assert step in calls[at:], f"{step} is not called, or not in its place"
        at = calls.index(step, at) + 1


async def test_the_way_of_a_heartbeat(tmp_path: Path) -> None:
    walk = steps("The way of a heartbeat")
    assert 0 < len(walk) <= HEARTBEAT_STEPS
    async with Peer(tmp_path, steady=False) as peer:
        epoch = parse(await peer.ask(consumer_heartbeat("g", "m", 0, (TOPIC,), ()), 1))[1]
        for number in range(2):
            await peer.ask(consumer_heartbeat("g", "m", epoch), number)
        with Calls() as calls:
            reply = await peer.ask(consumer_heartbeat("g", "m", epoch), 3)
    assert parse(reply)[0] == 0
    assert_walked(walk, calls.all)
    assert calls.own <= HEARTBEAT_CALLS


async def test_what_a_lone_consumers_first_heartbeat_leads_to_is_one_group_commit(
    tmp_path: Path,
) -> None:
    """Member, group epoch, target and reconciliation (KIP-848; ADR 21)."""
    async with Peer(tmp_path, steady=False) as peer:
        writer = peer.daemon.broker.writer
        before = writer.transactions, writer.batches
        reply = await peer.ask(consumer_heartbeat("g", "m", 0, (TOPIC,), ()), 1)
        assert (writer.transactions, writer.batches) == (before[0] + 1, before[1] + 1)
    error, epoch, assignment = parse(reply)
    assert (error, epoch) == (0, 2)
    assert assignment is not None
    assert [partitions for _, partitions in assignment] == [(0, 1, 2, 3, 4, 5)]


async def test_the_way_of_a_commit(tmp_path: Path) -> None:
    walk = steps("The way of a durable commit")
    assert 0 < len(walk) <= COMMIT_STEPS
    async with Peer(tmp_path, steady=False) as peer:
        for number in range(2):
            await peer.ask(offset_commit("g", TOPIC, 1, 42), number)
        with Calls() as calls:
            reply = await peer.ask(offset_commit("g", TOPIC, 1, 43), 3)
    assert reply[-4:-2] == b"\0\0", "no error"
    assert_walked(walk, calls.all)
    assert calls.own <= COMMIT_CALLS
