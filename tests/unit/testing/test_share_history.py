"""What the harness remembers of records of share groups, and the promises that it checks: every one
is broken once."""

from __future__ import annotations

import pytest

from groupd.coordinator.share_partitions.counts import ShareEvent
from groupd.protocol.records.share_state_records import (
    SharePartitionKey,
    ShareSnapshot,
    ShareUpdate,
)
from groupd.testing import share_history
from groupd.testing.share_history import SeenRecord, ShareHistory

TOPIC = bytes(15) + b"\1"
STATES = "available", "acquired", "acknowledged", "archived"
KEY = SharePartitionKey("g", TOPIC, 0)


class World:
    """A history, and the promises that were broken."""

    def __init__(self) -> None:
        self.broken: list[tuple[str, str]] = []
        self.history = ShareHistory(lambda group, what: self.broken.append((group, what)))

    def tell(
        self, what: str, first: int, last: int, count: int = 1, member: str = "", why: str = ""
    ) -> None:
        event = ShareEvent(0, "g", TOPIC, 0, first, last, what, why, count, member)
        self.history.on_event(event)

    @property
    def texts(self) -> list[str]:
        prefix = f" of partition 0 of topic id {TOPIC.hex()}"
        return [text.replace(prefix, "") for _, text in self.broken]

    def states(self) -> dict[int, str]:
        found = {offset: seen.state for offset, seen in self.history.of(KEY).items()}
        for state in STATES:
            assert self.history.count(KEY, state) == list(found.values()).count(state)
        return found


@pytest.fixture
def world() -> World:
    return World()


def snapshot(state_epoch: int) -> ShareSnapshot:
    return ShareSnapshot(0, state_epoch, 0, 0, 0, 0)


def test_a_life_without_a_broken_promise(world: World) -> None:
    world.tell("loaded", 0, 0)
    world.tell("acquired", 0, 3, member="a")
    world.tell("accepted", 0, 0)
    world.tell("released", 1, 1)
    world.tell("archived", 2, 2, why="rejected")
    world.tell("expired", 3, 3)
    world.tell("acquired", 1, 1, 2, "b")
    assert world.history.of(KEY) == {
        0: SeenRecord("acknowledged", 1, "a", "accepted"),
        1: SeenRecord("acquired", 2, "b", None),
        2: SeenRecord("archived", 1, "a", "rejected"),
        3: SeenRecord("available", 1, "a", "expired"),
    }
    counts = [world.history.count(KEY, what) for what in ("acquired", "acknowledged", "released")]
    assert (counts, world.broken) == ([1, 1, 2], [])
    assert list(world.history.partitions("g")) == [KEY]
    assert list(world.history.partitions("other")) == []


@pytest.mark.parametrize("other", ["a", "b"])
def test_a_record_is_held_twice(world: World, other: str) -> None:
    world.tell("acquired", 0, 4, member="a")
    world.tell("acquired", 2, 6, 2, other)
    assert world.texts == [f"record 2 was given to {other} while a held it"], "only the first"


def test_a_record_is_accepted_twice(world: World) -> None:
    for _ in range(2):
        world.tell("accepted", 0, 0)
    assert world.texts == ["record 0 was accepted twice"]


@pytest.mark.parametrize(("end", "state"), [("accepted", "acknowledged"), ("archived",) * 2])
def test_a_record_comes_back(world: World, end: str, state: str) -> None:
    world.tell(end, 5, 5, why="rejected" if end == "archived" else "")
    world.tell("loaded", 0, 0)
    world.tell("acquired", 5, 5, 2, "b")
    assert world.texts == [f"record 5 was given to b although it was {state} before"]


def test_locks_end_with_their_leader(world: World) -> None:
    world.tell("acquired", 0, 1, member="a")
    world.tell("accepted", 0, 0)
    world.tell("loaded", 1, 1)
    assert world.states() == {0: "acknowledged", 1: "available"}
    world.tell("acquired", 1, 1, member="b")
    world.history.locks_gone()
    assert world.states() == {0: "acknowledged", 1: "available"}
    world.tell("acquired", 1, 1, member="b")
    world.history.locks_gone("other")
    assert world.states()[1] == "acquired"
    world.history.locks_gone("g")
    assert world.states()[1] == "available"
    assert world.broken == []


def test_offsets_without_a_record_are_not_kept(world: World) -> None:
    world.tell("acquired", 0, 1, member="a")
    world.tell("archived", 1, 1, why="gap")
    assert world.states() == {0: "acquired"}


def test_a_new_state_begins_anew(world: World) -> None:
    world.history.on_state(KEY, snapshot(1))
    world.tell("accepted", 0, 0)
    world.history.on_state(KEY, snapshot(1))
    world.history.on_state(KEY, ShareUpdate(0, 0, 1))
    assert world.states() == {0: "acknowledged"}
    world.history.on_state(KEY, snapshot(2))
    assert world.states() == {}
    world.tell("acquired", 0, 0, member="a")
    world.history.on_state(KEY, None)
    assert world.states() == {}
    world.tell("acquired", 0, 0, member="b")
    world.history.reset()
    assert world.states() == {}
    assert world.broken == []


def test_what_is_oldest_is_forgotten(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(share_history, "RECORDS_MAX", 5)
    world.history.on_event(ShareEvent(0, "h", TOPIC, 0, 0, 1, "accepted"))
    world.tell("accepted", 0, 4)
    world.tell("acquired", 5, 5, member="a")
    assert list(world.states()) == [1, 2, 3, 4, 5]
    assert list(world.history.partitions("h")) == []
