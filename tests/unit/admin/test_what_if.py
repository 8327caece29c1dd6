"""`/groups/{id}/what-if`: what the page says, for consumer groups and classic ones."""

from __future__ import annotations

from statistics import pstdev
from typing import Any

import pytest

from groupd.coordinator.admin.group_pages import MOVES_SHOWN, what_if_steps
from groupd.coordinator.admin.http_messages import Refusal
from groupd.coordinator.core.assignors.api import Assignment, GroupSpec, TopicDescriber
from groupd.coordinator.core.slices import run_through
from tests.unit.interop.harness import Bench
from tests.unit.interop.values import FOO_TOPIC, GROUP, TopicImage, assignment, member


class Stubborn:
    name = "stubborn"

    def assign(self, spec: GroupSpec, topics: TopicDescriber) -> dict[str, Assignment]:
        raise RuntimeError("does not feel like it")


def shown(bench: Bench, name: str | None = None) -> Any:
    return run_through(what_if_steps(bench.state, bench.state.groups[GROUP], name))


def uneven(*topics: TopicImage) -> Bench:
    """A classic group, in which one member has five partitions, one has one, and one has none."""
    bench = Bench(*topics)
    given = {"a": {"foo": [0, 1, 2, 3, 5]}, "b": {"foo": [4]}, "c": {}}
    bench.given_classic(5, {name: assignment(its) for name, its in given.items()})
    return bench


def test_a_classic_group_uses_none_of_the_assignors() -> None:
    assert shown(uneven()) == {"assignors": ["uniform", "range"], "used": None}


def test_a_classic_group_side_by_side_with_what_it_would_be() -> None:
    found = shown(uneven(), "range")
    assert found["compared"] == (
        "Now: assigned by its members with range. Compared with the assignor range of the "
        "consumer protocol (group.protocol=consumer)."
    )
    assert found["current"] == {"a": 5, "b": 1, "c": 0}
    assert found["proposed"] == {"a": 2, "b": 2, "c": 2}
    assert found["target"] == {"a": {"foo": [0, 1]}, "b": {"foo": [2, 3]}, "c": {"foo": [4, 5]}}
    assert found["moves"] == [
        {"topic": "foo", "partition": 2, "from": "a", "to": "b"},
        {"topic": "foo", "partition": 3, "from": "a", "to": "b"},
        {"topic": "foo", "partition": 4, "from": "b", "to": "c"},
        {"topic": "foo", "partition": 5, "from": "a", "to": "c"},
    ]
    assert found["moved"] == 4
    assert found["balance"] == {
        "current": {"least": 0, "most": 5, "deviation": round(pstdev([5, 1, 0]), 2)},
        "proposed": {"least": 2, "most": 2, "deviation": 0.0},
    }


def test_partitions_that_nobody_has_and_that_nobody_would_have() -> None:
    bench = Bench(FOO_TOPIC)
    assigned = assignment({"foo": [0, 1, 2, 3, 4, 6]})
    bench.given_classic(5, {"a": assigned})  # six partitions, so 6 is none of them
    assert shown(bench, "uniform")["moves"] == [
        {"topic": "foo", "partition": 5, "from": None, "to": "a"},
        {"topic": "foo", "partition": 6, "from": "a", "to": None},
    ]


def test_a_consumer_group_is_compared_with_its_target() -> None:
    bench = Bench()
    bench.given_consumer(member("m", 0, 1, 2, 3, 4, 5), member("n"))
    assert shown(bench) == {"assignors": ["uniform", "range"], "used": "uniform"}
    found = shown(bench, "range")
    assert found["compared"] == "Now: the group's target. Compared with the assignor range."
    assert (found["current"], found["proposed"]) == ({"m": 6, "n": 0}, {"m": 3, "n": 3})
    assert [(one["partition"], one["from"], one["to"]) for one in found["moves"]] == [
        (number, "m", "n") for number in (3, 4, 5)
    ]


def test_more_moves_than_are_listed() -> None:
    count = MOVES_SHOWN + 3
    bench = Bench(TopicImage(FOO_TOPIC.topic_id, "foo", count))
    bench.given_classic(5, {"a": assignment({})})
    found = shown(bench, "range")
    assert found["moved"] == count
    assert [one["partition"] for one in found["moves"]] == list(range(MOVES_SHOWN))


def test_a_group_on_which_none_can_be_tried() -> None:
    bench = Bench()
    bench.given_classic(5, {"a": b""}, protocol_type="connect")
    for name in (None, "uniform"):
        with pytest.raises(Refusal, match=r"^the protocol type of the group is 'connect': "):
            shown(bench, name)


def test_an_assignor_that_is_not_there() -> None:
    with pytest.raises(Refusal, match=r"^assignor must be one of uniform, range$"):
        shown(uneven(), "sticky")


def test_an_assignor_that_fails() -> None:
    bench = uneven()
    bench.state.assignors = {"stubborn": Stubborn()}
    told = r"^the assignor stubborn failed: RuntimeError: does not feel like it$"
    with pytest.raises(Refusal, match=told):
        shown(bench, "stubborn")
