"""JSON in slices is the same JSON."""

from __future__ import annotations

import json
from collections.abc import Generator
from typing import Any

import pytest
from msgspec.json import encode

from groupd.coordinator.admin.pages import Encoded, json_steps
from groupd.coordinator.core.slices import SLICE_ITEMS, Pairs, run_through


@pytest.mark.parametrize(
    "value",
    [
        {},
        [],
        {"a": 1, "ü": [1, 2], "z": []},
        [{"n": n} for n in range(SLICE_ITEMS + 1)],
        {"few": [1], "many": [[n] for n in range(3 * SLICE_ITEMS)], "last": None},
    ],
)
def test_slices_give_the_same_text(value: Any) -> None:
    found = run_through(json_steps(value)).body
    assert found == encode(value) + b"\n"
    assert json.loads(found) == value


def test_an_iterator_is_a_list() -> None:
    steps = json_steps({"none": iter(()), "some": iter([1, 2])})
    assert run_through(steps).body == b'{"none":[],"some":[1,2]}\n'


def test_an_iterator_may_stop_where_it_has_no_item_yet() -> None:
    value = {"found": iter([None, 1, None, None, 2, None]), "nulls": [None, None]}
    steps = json_steps(value)
    assert sum(1 for _ in steps) == 4
    value = {"found": iter([None, 1, None, None, 2, None]), "nulls": [None, None]}
    assert run_through(json_steps(value)).body == b'{"found":[1,2],"nulls":[null,null]}\n'


def test_a_long_list_of_nulls_is_one() -> None:
    nulls = [None] * (SLICE_ITEMS + 1)
    assert json.loads(run_through(json_steps(nulls)).body) == nulls


def stops(steps: Generator[None, None, Encoded]) -> int:
    return sum(1 for _ in steps)


def test_what_is_long_has_stops_wherever_it_stands() -> None:
    assert stops(json_steps({"many": list(range(3 * SLICE_ITEMS + 1))})) == 3
    assert stops(json_steps({"few": list(range(SLICE_ITEMS - 1))})) == 0
    one_item = [{"owned": {"t": list(range(10 * SLICE_ITEMS))}}]
    assert stops(json_steps(one_item)) >= 10
    assert run_through(json_steps(one_item)).body == encode(one_item) + b"\n"
    nested = [{"owned": [["x"] * SLICE_ITEMS, *range(SLICE_ITEMS), [], {}] * 2}]
    assert run_through(json_steps(nested)).body == encode(nested) + b"\n"
    text = "x" * (SLICE_ITEMS * 1024)
    assert run_through(json_steps([text])).body == encode([text]) + b"\n"


def test_pairs_are_an_object() -> None:
    value = {"by": Pairs(iter([("a", [1]), None, ("b", {})])), "none": Pairs(iter(()))}
    steps = json_steps(value)
    assert run_through(steps).body == b'{"by":{"a":[1],"b":{}},"none":{}}\n'


def test_a_page_ends_after_so_many_items_and_says_what_it_left_out() -> None:
    page = run_through(json_steps({"a": [1, 2, 3], "b": iter([1, 2]), "c": 3}, items=2))
    assert page.body == b'{"a":[1,2],"b":[1,2],"c":3,"left_out":["a"]}\n'
    assert page.cut == {"a": 2}
    page = run_through(json_steps(iter([1, None, 2, 3]), items=2))
    assert (page.body, page.cut) == (b"[1,2]\n", {"": 2})
    assert run_through(json_steps(iter([1, 2, None]), items=2)).cut == {}


def test_a_page_ends_after_so_many_bytes() -> None:
    page = run_through(json_steps({"a": ["x" * 90] * 3, "b": [1], "c": []}, size=150))
    assert json.loads(page.body) == {"a": ["x" * 90] * 2, "b": [], "c": [], "left_out": ["a", "b"]}
    assert page.cut == {"a": "x" * 90, "b": None}
