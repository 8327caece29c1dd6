"""OffsetCommit: what the scenarios of `offsets` do not show of it; the group's own rules are its
verdict here."""

from __future__ import annotations

import pytest

from groupd.coordinator.core.offsets.refusals import refuse_commit
from groupd.coordinator.core.types import Operation, Resource
from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages.offsets import CommitPartition, OffsetCommitRequest
from tests.unit.offsets.harness import T1_ID, Shard, codes, topic


def test_a_refused_commit_makes_no_group(shard: Shard) -> None:
    shard.commit(topic(p0=CommitPartition(0, 1, -1, "x" * 4097)))
    assert shard.state.groups == {}
    assert shard.outcome.events == []


def test_group_verdict_stands_on_every_partition(shard: Shard) -> None:
    code = ErrorCode.ILLEGAL_GENERATION
    group = shard.group(commit_error=code)
    reply = shard.commit(topic(p0=1, p1=2), topic("t2", p0=3), version=9)
    assert codes(reply) == {("t1", 0): code, ("t1", 1): code, ("t2", 0): code}
    assert list(shard.outcome.logged) == shard.outcome.events == []
    assert group.commit_checks[0]["version"] == 9
    assert group.session_restarts == []


def test_older_epochs_are_checked_by_id_without_refused_partitions(shard: Shard) -> None:
    group = shard.group(type_name="consumer")
    reply = shard.commit(topic(p0=1, p1=CommitPartition(1, 2, -1, "x" * 5000)), version=8)
    assert codes(reply) == {("t1", 0): 0, ("t1", 1): 12}
    assert group.commit_checks[0]["checked"] == [("t1", T1_ID, 0)]


def test_of_20_share_group(shard: Shard) -> None:
    shard.group(type_name="share", commit_error=ErrorCode.GROUP_ID_NOT_FOUND)
    for version in (2, 9, 10):
        reply = shard.commit(topic("t1", T1_ID, p0=1), version=version)
        assert codes(reply) == {("t1", 0): 69}


def test_the_limit_of_metadata_counts_utf16_units(shard: Shard) -> None:
    reply = shard.commit(
        topic(
            p0=CommitPartition(0, 1, -1, "\U0001f642" * 2048),
            p1=CommitPartition(1, 1, -1, "\U0001f642" * 2048 + "x"),
            p2=CommitPartition(2, 1, -1, "я" * 4096),
        )
    )
    assert [code for _, code in sorted(codes(reply).items())] == [0, 12, 0]
    assert [record.key.partition for record in list(shard.outcome.logged)] == [0, 2]
    assert shard.outcome.events[0].details == {"count": 2}


def test_what_is_denied_comes_before_what_is_unknown(shard: Shard) -> None:
    shard.allows = lambda operation, resource, name: name != "nope"
    assert codes(shard.commit(topic("nope", p0=1))) == {("nope", 0): 29}
    asked = []

    def deny_group(operation: Operation, resource: Resource, name: str) -> bool:
        asked.append((operation, resource, name))
        return resource is not Resource.GROUP

    shard.allows = deny_group
    reply = shard.commit(topic(p0=1), topic("nope", p0=1))
    assert codes(reply) == {("t1", 0): 30, ("nope", 0): 30}
    assert asked == [(Operation.READ, Resource.GROUP, "g")]
    assert shard.outcome is None


def test_refusal_of_a_whole_commit() -> None:
    request = OffsetCommitRequest("g", (topic(p0=1), topic("t2", p1=1)))
    reply = refuse_commit(request, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    assert codes(reply) == {("t1", 0): 14, ("t2", 1): 14}


@pytest.mark.parametrize("api", ["commit", "txn_commit"])
def test_a_topic_that_is_refused_is_in_the_reply_even_without_partitions(
    shard: Shard, api: str
) -> None:
    shard.allows = lambda operation, resource, name: name != "t"
    reply = getattr(shard, api)(topic("t"))
    assert [topic.name for topic in reply.topics] == ["t"]
