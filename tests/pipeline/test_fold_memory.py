"""The folds hold the groups as they stand, however long their history is."""

from __future__ import annotations

import pickle

from groupd.coordinator.core.assignors.uniform import UniformAssignor
from groupd.pipeline.fold.entry import FoldFacts
from groupd.pipeline.fold.findings import Thresholds
from groupd.pipeline.fold.groups import GroupsFold
from groupd.pipeline.fold.health import HealthFold
from groupd.pipeline.fold.state import TopicNames
from groupd.pipeline.fold.what_if import WhatIf
from groupd.protocol.records.schema import OffsetCommitKey, OffsetCommitValue, Record
from tests.pipeline.group_logs import TimedShard, entry_of
from tests.unit.consumer_group.harness import FOO, topic


def held_after(cycles: int) -> int:
    """The bytes of the live state after so many members have come and gone, and committed."""
    log = TimedShard(topic("foo", FOO, 6))
    log.join("a")
    log.settle_all(1000)
    facts, topics = FoldFacts(frozenset()), TopicNames(log.names())
    health = HealthFold(facts, topics, Thresholds(), {}, 0)
    what_if = WhatIf(facts, topics, UniformAssignor(), 1.0)
    fold = GroupsFold(facts, topics, observers=[health, what_if])
    for number in range(cycles):
        log.join(f"b{number:05}", client_id=f"client{number % 3}")
        log.settle_all(1000)
        log.advance(20_000)
        log.leave(f"b{number:05}")
        log.settle_all(1000)
    last = 0
    for entry in log.entries():
        fold.feed(entry)
        if entry.at_ms != last:
            last = entry.at_ms
            value = OffsetCommitValue(entry.log_offset, commit_timestamp_ms=last, topic_id=FOO)
            record = Record(OffsetCommitKey("g", "foo", entry.log_offset % 6), value)
            fold.feed(entry_of(entry.log_offset, last, record))
    facts.take()
    return len(pickle.dumps((fold.groups, vars(health), vars(what_if))))


def test_a_longer_history_needs_no_more_memory() -> None:
    short, long = held_after(60), held_after(240)
    assert long < short * 1.1
