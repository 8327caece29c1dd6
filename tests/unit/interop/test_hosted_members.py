"""Classic members in a consumer group: timers, offsets, describe, and writes that fail."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from groupd.coordinator.core.types import EventKind
from groupd.protocol.errors import ApiError, ErrorCode
from groupd.protocol.messages.offsets import CommitPartition, commit_topic
from tests.unit.interop.harness import Bench
from tests.unit.interop.values import (
    FOO,
    REBALANCE_MS,
    SESSION_MS,
    Failed,
    classic_member,
    member,
)


def mixed(**settings: Any) -> Bench:
    """G@10: c on the classic protocol with foo 0-2, m with foo 3-5."""
    bench = Bench(**settings)
    bench.given_consumer(classic_member("c", 0, 1, 2), member("m", 3, 4, 5))
    return bench


@pytest.mark.parametrize("kind", ["session", "join", "sync"])
def test_timers_of_classic_members_fence(kind: str) -> None:
    bench = Bench()
    bench.given_consumer(classic_member("c", 0, 1, 2), member("m", 3, 4, 5), member("n"))
    if kind == "session":
        bench.join("c", owned={"foo": [0, 1, 2]})
        wait_ms = SESSION_MS
    else:
        if kind == "join":
            bench.leave(("n", None))
            bench.beat("m", 10)
        else:
            bench.join("c", owned={"foo": [0, 1, 2]})
        wait_ms = REBALANCE_MS
        for _ in range(5):
            bench.classic_beat("c", bench.consumer.members["c"].member_epoch)
            bench.advance(wait_ms // 5 - 1)
            bench.beat("m", bench.consumer.members["m"].member_epoch)
        bench.classic_beat("c", bench.consumer.members["c"].member_epoch)
        wait_ms = 5
    bench.advance(wait_ms - 1)
    assert "c" in bench.consumer.members
    bench.advance(1)
    assert "c" not in bench.consumer.members
    assert bench.events[-2].kind is EventKind.MEMBER_FENCED
    assert bench.classic_beat("c", 10) is ErrorCode.UNKNOWN_MEMBER_ID


def test_successful_sync_ends_the_sync_timer() -> None:
    bench = mixed()
    bench.join("c", owned={"foo": [0, 1, 2]})
    assert bench.due("consumer-sync", "c") == REBALANCE_MS
    bench.sync("c", 9)
    assert bench.due("consumer-sync", "c") == REBALANCE_MS
    bench.sync("c", 10)
    assert bench.due("consumer-sync", "c") is None


def test_loaded_classic_members_get_the_consumer_session() -> None:
    bench = mixed()
    bench.reload()
    assert bench.due("consumer-session", "c") == 45_000
    bench.classic_beat("c", 10)
    assert bench.due("consumer-session", "c") == SESSION_MS


def commit(
    bench: Bench, who: str, epoch: int, partitions: Sequence[int], version: int = 8
) -> ErrorCode | None:
    topics = (commit_topic("foo", tuple(CommitPartition(p, 1) for p in partitions), FOO),)
    try:
        bench.consumer.check_offset_commit(
            who,
            None,
            epoch,
            topics,
            api_version=version,
            transactional=False,
            too_long=frozenset(),
        )
    except ApiError as error:
        return error.code
    return None


def test_a_classic_member_may_commit_late_what_it_has_had_for_long() -> None:
    bench = mixed()
    bench.given_consumer(classic_member("c", 0, member_epoch=12), epoch=12)
    assert commit(bench, "c", 10, [0]) is None
    assert commit(bench, "c", 10, [1]) is ErrorCode.ILLEGAL_GENERATION


# Writes


def test_answers_wait_for_the_records_they_rest_on() -> None:
    bench = mixed()
    bench.hold = True
    joining = bench.join_token("new")
    beating = bench.sync_token("new", 11)
    assert bench.unanswered() == {joining, beating}
    bench.commit()
    assert bench.replies[joining].generation_id == 11
    assert bench.replies[beating].error is ErrorCode.NONE


def test_failed_append_of_a_join() -> None:
    bench = mixed()
    bench.hold = True
    joining = bench.join_token("new")
    bench.fail()
    assert isinstance(bench.replies[joining], Failed)
    assert set(bench.consumer.members) == {"c", "m"}
    assert bench.due("consumer-sync", "new") is None
