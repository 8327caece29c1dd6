"""The validity of a classic member's heartbeat: who gets one, what renewing does, what ends it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from groupd.coordinator.core.classic_group import heartbeat
from groupd.coordinator.core.types import ReplyValidity
from groupd.protocol.messages.classic_group import HeartbeatRequest
from tests.unit.classic_group.harness import Bench

SESSION_MS = 10_000


def validity_of(bench: Bench, member: str, instance: str | None = None) -> ReplyValidity | None:
    request = HeartbeatRequest("g", bench.group.generation, member, instance)
    outcome = heartbeat.handle(bench.state, bench.context(4), request, bench.now)
    return outcome.reply_validity


def settled() -> tuple[Bench, list[str], ReplyValidity]:
    bench = Bench()
    members = bench.stable(2)
    validity = validity_of(bench, members[0])
    assert validity is not None
    return bench, list(members), validity


def test_renewing_starts_the_session_anew_and_does_nothing_else() -> None:
    bench, (a, b), validity = settled()
    bench.advance(4000)
    assert validity.renew(bench.now_ms)
    assert (bench.session_due_in(a), bench.session_due_in(b)) == (SESSION_MS, SESSION_MS - 4000)
    bench.advance(SESSION_MS, beating=[b])
    assert a not in bench.group.members, "a full session after the renewal"


def test_only_a_stable_group_gives_one() -> None:
    bench = Bench()
    (a,) = bench.completing(1)
    assert validity_of(bench, a) is None
    bench.sync_all([a])
    assert validity_of(bench, a) is not None
    bench.enter("B")
    assert validity_of(bench, a) is None


def test_a_refused_heartbeat_gives_none() -> None:
    bench, (a, _), _ = settled()
    for request in (HeartbeatRequest("g", 0, a), HeartbeatRequest("g", 1, "x")):
        assert (
            heartbeat.handle(bench.state, bench.context(4), request, bench.now).reply_validity
            is None
        )


ENDINGS: dict[str, Callable[[Bench, str, str], object]] = {
    "another member joins": lambda bench, a, b: bench.enter("C"),
    "the other member leaves": lambda bench, a, b: bench.leave(b),
    "the member leaves": lambda bench, a, b: bench.leave(a),
    "the member is silent for a session": lambda bench, a, b: bench.advance(SESSION_MS, [b]),
    "the shard is loaded again": lambda bench, a, b: bench.state.groups.clear(),
}


@pytest.mark.parametrize("change", ENDINGS.values(), ids=ENDINGS.keys())
def test_what_ends_a_lease(change: Callable[[Bench, str, str], object]) -> None:
    bench, (a, b), validity = settled()
    change(bench, a, b)
    before = bench.state.deadlines.items()
    assert not validity.renew(bench.now_ms)
    assert bench.state.deadlines.items() == before


def test_a_new_generation_ends_it_though_the_members_stay() -> None:
    bench, (a, b), validity = settled()
    bench.join(a, protocols=(("range", b"new"),))
    bench.join(b)
    bench.sync_all([a, b])
    assert bench.group.generation == 2
    assert not validity.renew(bench.now_ms)
    assert validity_of(bench, a) is not None
