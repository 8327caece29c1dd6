"""The lag of partitions and members, as pages show it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from groupd.coordinator.core.slices import run_through
from groupd.coordinator.lag.growth import Bounds
from groupd.coordinator.lag.rows import Ends, add_lag, ends_of
from groupd.coordinator.lag.watch import LagWatch


def partition(number: int, committed: int | None, member: str | None = "m") -> dict[str, Any]:
    return {
        "topic": "orders",
        "partition": number,
        "committed_offset": committed,
        "member_id": member,
    }


def page(*partitions: dict[str, Any]) -> dict[str, Any]:
    member = {"member_id": "m", "last_commit_ms": None}
    return {"now_ms": 0, "partitions": list(partitions), "members": [member]}


def with_lag(shown: dict[str, Any], ends: Ends) -> tuple[list[Any], dict[str, Any]]:
    """End and lag of each partition, and the member."""
    run_through(add_lag(shown, ends))
    (member,) = shown["members"]
    return [(row["end_offset"], row["lag"]) for row in shown["partitions"]], member


def ten(_: str, number: int) -> tuple[int, int] | None:
    """Logs from 2 to 10; of partition 9 nothing is known."""
    return None if number == 9 else (2, 10)


def test_without_a_commit_there_is_no_lag() -> None:
    found, member = with_lag(page(partition(0, None)), ten)
    assert found == [(10, None)]
    assert member["lag"] is None
    found, member = with_lag(page(partition(0, None), partition(1, 7), partition(2, 0)), ten)
    assert found == [(10, None), (10, 3), (10, 8)]
    assert member["lag"] == 11


def test_what_another_process_has_found_stays_where_nothing_newer_is_known() -> None:
    known = {**partition(9, 4), "end_offset": 6, "lag": 2}
    shown = page(known, partition(9, 4), {**partition(0, 4), "end_offset": 6, "lag": 2})
    found, member = with_lag(shown, ten)
    assert found == [(6, 2), (None, None), (10, 6)]
    assert member["lag"] == 8


def test_ends_of_logs_that_are_not_open_are_those_of_the_last_round() -> None:
    """After a restart, and where another node of the cluster leads the partition."""
    bounds = {"orders": {0: Bounds(1, 5), 9: Bounds(0, 4)}}
    watch = cast("LagWatch", SimpleNamespace(bounds=bounds))
    ends = ends_of(watch, ten)
    assert [ends("orders", number) for number in (0, 9)] == [(2, 10), (0, 4)]
    assert ends("other", 9) is None
