"""The fold over classic groups, on records that the core itself has written."""

from __future__ import annotations

from typing import Any

from groupd.coordinator.core.classic_group import leave
from groupd.protocol.consumer_protocol import EmbeddedAssignment, encode_assignment
from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages.classic_group import LeaveGroupRequest, LeavingMember
from groupd.protocol.records.schema import (
    GroupMetadataKey,
    GroupMetadataMember,
    GroupMetadataValue,
    Record,
)
from tests.pipeline.group_logs import entry_of, facts_of
from tests.unit.classic_group.harness import WALL_MS, Bench, subscription

SECOND = 1000


def assigned(*partitions: int) -> bytes:
    return encode_assignment(EmbeddedAssignment(0, (("orders", partitions),) if partitions else ()))


class History:
    """Hand-written generations of a cooperative or eager group."""

    def __init__(self) -> None:
        self.entries: list[Any] = []

    def generation(
        self,
        number: int,
        at_s: int,
        members: dict[str, tuple[int, ...]],
        *,
        topics: tuple[str, ...] = ("orders",),
        protocol: str = "range",
        instances: dict[str, str] | None = None,
    ) -> None:
        value = GroupMetadataValue(
            "consumer",
            number,
            protocol if members else None,
            min(members, default=None),
            WALL_MS + at_s * SECOND - 250,
            tuple(
                GroupMetadataMember(
                    member_id,
                    (instances or {}).get(member_id),
                    f"client-{member_id}",
                    "/10.0.0.1",
                    30_000,
                    10_000,
                    subscription(*topics),
                    assigned(*members[member_id]),
                )
                for member_id in sorted(members)
            ),
        )
        record = Record(GroupMetadataKey("g"), value)
        self.entries.append(entry_of(len(self.entries), WALL_MS + at_s * SECOND, record))

    def facts(self) -> dict[str, list[dict[str, Any]]]:
        return facts_of(self.entries, {})


def brief(rows: list[dict[str, Any]], *columns: str) -> list[tuple[Any, ...]]:
    return [tuple(row[column] for column in columns) for row in rows]


def test_generations_that_the_core_writes() -> None:
    bench = Bench(group_initial_rebalance_delay_ms=0)
    times: list[int] = []

    def note() -> None:
        times.extend([bench.now.wall_ms] * (len(bench.log) - len(times)))

    metadata = (("range", subscription("orders")),)
    bench.advance(0)
    token = bench.join(version=3, protocols=metadata)
    bench.advance(SECOND)
    first = bench.replies[token].member_id
    bench.sync(first, 1, {first: assigned(0, 1, 2)})
    note()
    bench.advance(SECOND, [first])
    second_token = bench.join(version=3, protocols=metadata)
    bench.join(first, protocols=metadata)
    bench.advance(SECOND)
    second = bench.replies[second_token].member_id
    bench.sync(first, 2, {first: assigned(0, 1), second: assigned(2)})
    note()
    for gone in (first, second):
        bench.advance(SECOND)
        leave_group(bench, gone)
        note()
    bench.advance(60 * SECOND)
    note()
    entries = [
        entry_of(offset, at_ms, record)
        for offset, (at_ms, record) in enumerate(zip(times, bench.log, strict=True))
    ]
    found = facts_of(entries, {})
    columns = ("epoch", "trigger", "members_before", "members_after", "moved", "status")
    assert brief(found["rebalances"], *columns) == [
        (1, "join", 0, 1, 0, "completed"),
        (2, "join", 1, 2, 1, "completed"),
        (3, "leave", 2, 0, 0, "emptied"),
    ]
    assert {row["started"] for row in found["rebalances"]} == {None}
    assert all(row["target_at"] <= row["stable_at"] for row in found["rebalances"])
    assert {row["ended_by"] for row in found["members"]} == {"left"}


def leave_group(bench: Bench, member_id: str) -> None:

    context = bench.context(5)
    request = LeaveGroupRequest("g", (LeavingMember(member_id, None, None),))
    bench.settle(leave.handle(bench.state, context, request, bench.now))
    assert bench.replies[context.token].error is ErrorCode.NONE


def test_two_rounds_of_a_cooperative_group_leave_a_gap_that_is_measured() -> None:
    history = History()
    history.generation(1, 0, {"a": (0, 1, 2, 3)}, protocol="cooperative-sticky")
    history.generation(2, 5, {"a": (0, 1), "b": ()}, protocol="cooperative-sticky")
    history.generation(3, 8, {"a": (0, 1), "b": (2, 3)}, protocol="cooperative-sticky")
    found = history.facts()
    columns = ("epoch", "trigger", "moved", "lost", "unowned_sum_ms", "unowned_max_ms", "needless")
    assert brief(found["rebalances"], *columns) == [
        (1, "join", 0, 0, 0, 0, 0),
        (2, "join", 0, 2, 0, 0, 0),
        (3, "follow-up", 2, 0, 6 * SECOND, 3 * SECOND, 0),
    ]
    assert {row["assignor"] for row in found["rebalances"]} == {"cooperative-sticky"}


def test_an_eager_move_has_no_known_gap() -> None:
    history = History()
    history.generation(1, 0, {"a": (0, 1, 2, 3)})
    history.generation(2, 5, {"a": (0, 1), "b": (2, 3)})
    row = history.facts()["rebalances"][1]
    assert (row["moved"], row["unowned_sum_ms"], row["unowned_unknown"]) == (2, None, 2)
    assert (row["started"], row["duration_ms"]) == (None, None)
    assert row["stable_at"] - row["target_at"] == 250


def test_movement_without_need() -> None:
    history = History()
    history.generation(1, 0, {"a": (0, 1), "b": (2, 3)})
    history.generation(2, 60, {"a": (2, 3), "b": (0, 1)})
    row = history.facts()["rebalances"][1]
    assert (row["trigger"], row["moved"], row["minimal"], row["needless_share"]) == (
        "unknown",
        4,
        0,
        1.0,
    )


def test_triggers_of_classic_generations() -> None:
    history = History()
    history.generation(1, 0, {"a": (0, 1), "b": (2,)})
    history.generation(2, 10, {"a": (0, 1), "b": (2, 3)})
    history.generation(3, 20, {"a": (0, 1), "b": (2, 3)}, topics=("orders", "more"))
    history.generation(
        4, 30, {"a": (0, 1), "b": (2, 3)}, topics=("orders", "more"), protocol="roundrobin"
    )
    history.generation(6, 90, {"a": (0, 1, 2, 3)}, topics=("orders", "more"), protocol="roundrobin")
    rows = history.facts()["rebalances"]
    assert brief(rows[1:], "trigger", "trigger_members", "skipped_generations") == [
        ("metadata-change", [], 0),
        ("subscription-change", ["a", "b"], 0),
        ("assignor-change", [], 0),
        ("removal", ["b"], 1),
    ]


def test_a_static_member_comes_back_in_the_same_generation() -> None:
    history = History()
    history.generation(1, 0, {"a1": (0, 1), "b": (2, 3)}, instances={"a1": "inst"})
    history.generation(1, 5, {"a2": (0, 1), "b": (2, 3)}, instances={"a2": "inst"})
    found = history.facts()
    assert len(found["rebalances"]) == 1
    lives = {row["member_id"]: row for row in found["members"]}
    assert (lives["a1"]["ended_by"], lives["a1"]["replaced_by"]) == ("replaced", "a2")
    held = [row for row in found["ownership"] if row["partition"] == 0]
    assert brief(held, "member_id", "until") == [
        ("a1", WALL_MS + 5 * SECOND),
        ("a2", None),
    ]


def test_members_with_a_format_of_their_own_have_lives_and_no_partitions() -> None:
    value = GroupMetadataValue(
        "connect",
        1,
        "sessioned",
        "w",
        WALL_MS,
        (GroupMetadataMember("w", None, "connect", "/h", 60_000, 10_000, b"\x01", b"\x02"),),
    )
    found = facts_of([entry_of(0, WALL_MS, Record(GroupMetadataKey("g"), value))], {})
    assert len(found["members"]) == len(found["rebalances"]) == 1
    assert found["ownership"] == []
