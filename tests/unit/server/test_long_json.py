"""JSON in slices is the same JSON."""

from __future__ import annotations

import json
from typing import Any

import pytest

from groupd.coordinator.core.slices import SLICE_ITEMS, run_through
from groupd.coordinator.server.long_json import json_steps


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
    whole = json.dumps(value, ensure_ascii=False).encode() + b"\n"
    assert run_through(json_steps(value)) == whole


def test_an_iterator_is_a_list() -> None:
    steps = json_steps({"none": iter(()), "some": iter([1, 2])})
    assert run_through(steps) == b'{"none": [], "some": [1, 2]}\n'


def test_an_iterator_may_stop_where_it_has_no_item_yet() -> None:
    value = {"found": iter([None, 1, None, None, 2, None]), "nulls": [None, None]}
    steps = json_steps(value)
    assert sum(1 for _ in steps) == 4
    value = {"found": iter([None, 1, None, None, 2, None]), "nulls": [None, None]}
    assert run_through(json_steps(value)) == b'{"found": [1, 2], "nulls": [null, null]}\n'


def test_a_long_list_of_nulls_is_one() -> None:
    nulls = [None] * (SLICE_ITEMS + 1)
    assert json.loads(run_through(json_steps(nulls))) == nulls


def test_a_long_list_has_a_stop_after_each_part() -> None:
    assert sum(1 for _ in json_steps({"many": list(range(3 * SLICE_ITEMS + 1))})) == 4
