"""TxnOffsetCommit and markers: what the scenarios of `transactions` do not show (OF-53)."""

from __future__ import annotations

from typing import Any

import pytest

from groupd.coordinator.core.offsets.refusals import refuse_txn_commit
from groupd.coordinator.core.types import EventKind, Resource
from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages.offsets import FetchTopic, TxnOffsetCommitRequest
from tests.unit.offsets.harness import T1_ID, Shard, codes, topic

P0 = FetchTopic("t1", (0,))


def test_a_transactional_commit_belongs_to_its_producer_and_restarts_no_session(
    shard: Shard,
) -> None:
    group = shard.group()
    assert codes(shard.txn_commit(topic(p0=9), version=0, producer=77)) == {("t1", 0): 0}
    assert shard.outcome.transaction == (77, 0)
    assert next(iter(shard.outcome.logged)).value.topic_id == T1_ID
    assert group.commit_checks[0]["transactional"] is True
    assert group.session_restarts == []
    (event,) = shard.outcome.events
    assert (event.kind, event.details) == (
        EventKind.OFFSETS_COMMITTED,
        {"count": 1, "transactional": True},
    )


def test_marker_of_an_unknown_producer_changes_nothing(shard: Shard) -> None:
    shard.commit(topic(p0=5))
    shard.marker(99, commit=True)
    assert shard.offset() == 5


def test_the_first_producer_of_all_has_the_id_0(shard: Shard) -> None:
    shard.txn_commit(topic(p0=9), producer=0)
    assert shard.offset() is None
    shard.marker(0, commit=True)
    assert shard.offset() == 9


def test_tombstone_takes_the_pending_of_all_producers(shard: Shard) -> None:
    for producer in (1, 2):
        shard.txn_commit(topic(p0=producer, p1=producer), producer=producer)
    shard.delete(P0)
    assert set(shard.offsets.store.pending("g")) == {("t1", 1)}
    shard.delete(FetchTopic("t1", (1,)))
    assert not shard.offsets.store.pending("g")
    shard.marker(1, commit=True)
    assert shard.offsets.store.count == 0


@pytest.mark.parametrize(("version", "code"), [(1, 15), (2, 14)])
def test_of_53_loading(version: int, code: int) -> None:
    request = TxnOffsetCommitRequest("tid", "g", 1, 0, (topic(p0=1),))
    reply = refuse_txn_commit(request, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, version)
    assert codes(reply) == {("t1", 0): code}


def test_unknown_group_becomes_simple(shard: Shard) -> None:
    shard.txn_commit(topic(p0=1))
    assert shard.state.groups["g"].protocol_type == ""


def test_empty_group_id_and_denials(shard: Shard) -> None:
    assert codes(shard.txn_commit(topic(p0=1), group="")) == {("t1", 0): 24}
    for denied, code in ((Resource.TRANSACTIONAL_ID, 53), (Resource.GROUP, 30)):
        shard.allows = lambda operation, resource, name, denied=denied: resource is not denied
        assert codes(shard.txn_commit(topic(p0=1))) == {("t1", 0): code}
        assert shard.outcome is None


def test_unknown_topics_by_name_and_id(shard: Shard) -> None:
    assert codes(shard.txn_commit(topic("nope", p0=1))) == {("nope", 0): 3}
    reply = shard.txn_commit(topic("t1", b"?" * 16, p0=1), version=6)
    assert codes(reply) == {("", 0): 100}
    assert reply.topics[0].topic_id == b"?" * 16


def test_a_stable_fetch_looks_up_what_it_asks_for_among_all_that_is_pending(shard: Shard) -> None:
    """Going through all of it for each topic took a second with 100,000 pending offsets."""

    class LookedUp(dict[Any, Any]):
        def __iter__(self) -> Any:
            raise AssertionError("all of it is gone through")

    shard.commit(topic(p0=5))
    shard.txn_commit(topic(p0=9))
    pending = shard.offsets.store._producers
    pending["g"] = LookedUp(pending["g"])
    unstable = ErrorCode.UNSTABLE_OFFSET_COMMIT
    assert codes(shard.fetch(P0, require_stable=True)) == {("t1", 0): unstable}
    assert codes(shard.fetch_all(require_stable=True)) == {("t1", 0): unstable}
