"""The journal of a shard: offsets, group commit, what waits for what."""

from __future__ import annotations

from groupd.coordinator.core.types import Completion, OutsideCall
from groupd.coordinator.runtime.journal import WHOLE_SHARD, EncodedWrite, Journal, measured
from groupd.protocol.records.batch import iter_batches, iter_records
from groupd.protocol.records.codec import encode_pairs
from groupd.protocol.records.schema import OffsetCommitKey, OffsetCommitValue, Record


def commit(group: str, offset: int, metadata: str = "") -> Record:
    return Record(OffsetCommitKey(group, "t", 0), OffsetCommitValue(offset, metadata=metadata))


def encode(records: list[Record]) -> EncodedWrite:
    return measured(encode_pairs(records), sorted({record.key.group for record in records}))


def accept(journal: Journal, group: str, token: int, records: int = 1) -> None:
    encoded = encode([commit(group, i) for i in range(records)])
    journal.accept(encoded, [(token, f"reply {token}")], None, now_ms=0)


def test_records_take_consecutive_offsets_and_share_a_batch() -> None:
    journal = Journal(100, 1_000_000)
    accept(journal, "a", 1, records=2)
    accept(journal, "b", 2)
    (taken,) = journal.take("log", 1, 1000)
    assert (taken.base_offset, taken.last_offset) == (100, 102)
    (batch,) = iter_batches(taken.payload)
    assert [record.offset for record in iter_records(batch)] == [100, 101, 102]
    assert journal.next_offset == 103
    assert journal.durable_offset == 100


def test_replies_leave_only_when_durable_and_in_order() -> None:
    journal = Journal(0, 1_000_000)
    accept(journal, "a", 1)
    journal.take("log", 1, 0)
    accept(journal, "a", 2)
    (settled,) = journal.durable()
    assert settled.replies == [(1, "reply 1")]
    assert "a" in journal.pending, "the second record is still in the open batch"
    journal.take("log", 1, 0)
    (settled,) = journal.durable()
    assert settled.replies == [(2, "reply 2")]
    assert journal.idle
    assert journal.durable_offset == 2


def test_a_reply_without_records_waits_for_its_groups_pending_batch() -> None:
    journal = Journal(0, 1_000_000)
    accept(journal, "a", 1)
    journal.take("log", 1, 0)
    accept(journal, "b", 2)
    assert journal.park("a", [(3, "read a")])
    assert not journal.park("c", [(4, "read c")]), "nothing of c is pending"
    (settled,) = journal.durable()
    assert (3, "read a") in settled.replies


def test_the_whole_shard_gate_waits_for_the_newest_batch() -> None:
    journal = Journal(0, 1_000_000)
    assert not journal.park(WHOLE_SHARD, [(1, "list")])
    accept(journal, "a", 2)
    journal.take("log", 1, 0)
    accept(journal, "b", 3)
    assert journal.park(WHOLE_SHARD, [(4, "list")])
    (first,) = journal.durable()
    assert (4, "list") not in first.replies
    journal.take("log", 1, 0)
    (second,) = journal.durable()
    assert (4, "list") in second.replies


def test_an_atomic_write_never_spans_batches() -> None:
    journal = Journal(0, 400)
    accept(journal, "a", 1, records=3)
    accept(journal, "b", 2, records=3)
    taken = journal.take("log", 1, 0)
    assert [(t.base_offset, t.last_offset) for t in taken] == [(0, 2), (3, 5)]
    assert all(len(t.payload) <= 400 for t in taken)


def test_failure_loses_what_is_open_and_in_flight() -> None:
    journal = Journal(0, 1_000_000)
    accept(journal, "a", 1)
    journal.take("log", 1, 0)
    encoded = encode([commit("b", 1)])
    journal.accept(encoded, [(2, "r")], Completion("x"), now_ms=0)
    lost = journal.failed()
    assert [token for batch in lost for token, _ in batch.replies] == [1, 2]
    assert [c.owner for batch in lost for c in batch.completions] == ["x"]
    assert journal.idle


def test_overdue_replies_are_taken_out_once_and_the_records_stay() -> None:
    journal = Journal(0, 1_000_000)
    encoded = encode([commit("a", 1)])
    journal.accept(encoded, [(1, "r")], None, now_ms=1000)
    assert journal.oldest_ms() == 1000
    assert journal.overdue(1000) == []
    assert journal.overdue(1001) == [[1]]
    assert journal.overdue(9999) == []
    assert journal.oldest_ms() is None
    (taken,) = journal.take("log", 1, 0)
    assert taken.last_offset == 0
    (settled,) = journal.durable()
    assert settled.replies == []


def test_a_request_that_waits_for_a_call_is_overdue_and_the_call_stays() -> None:
    journal = Journal(0, 1_000_000)
    journal.accept(encode([commit("a", 1)]), [], None, now_ms=1000)
    calls = [OutsideCall("them", "a", "delete", token=7), OutsideCall("them", "a", "tell")]
    assert journal.park(WHOLE_SHARD, (), calls)
    assert journal.oldest_ms() == 1000
    assert journal.overdue(1001) == [[7]]
    assert journal.oldest_ms() is None
    journal.take("log", 1, 0)
    (settled,) = journal.durable()
    assert settled.calls == calls
