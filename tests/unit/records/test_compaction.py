"""What the cleaner leaves of a log (docs/spec/offsets-and-log.md#8)."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any, TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groupd.coordinator.core.offsets.replay import apply_marker, replay_offset
from groupd.coordinator.core.offsets.store import OffsetStore
from groupd.coordinator.core.types import AppliedAt
from groupd.protocol.records.batch import (
    DELETE_HORIZON,
    HEADER_BYTES,
    Batch,
    check,
    decode_marker,
    iter_records,
    parse_header,
    records_data,
)
from groupd.protocol.records.batch_builder import (
    encode_batch,
    encode_headers,
    encode_marker,
    encode_record,
    new_header,
    pack_batch,
)
from groupd.protocol.records.codec import decode_record, encode_key, encode_value
from groupd.protocol.records.compaction import (
    KEY_BYTES,
    TURN_RECORDS,
    Compaction,
    Rules,
    Survey,
    offsets_identity,
    plain_identity,
)
from groupd.protocol.records.compression import GZIP, LZ4, SNAPPY, ZSTD, Plain, compress
from groupd.protocol.records.schema import OffsetCommitKey, OffsetCommitValue, Record
from tests.support.examples import examples

T = TypeVar("T")

NOW_MS = 1_700_000_000_000
RETENTION_MS = 1000
LATER_MS = NOW_MS + RETENTION_MS
PRODUCER_EXPIRATION_MS = 86_400_000
MUCH_LATER_MS = NOW_MS + PRODUCER_EXPIRATION_MS + RETENTION_MS

KeyValue = tuple[bytes | None, bytes | None]


def drain(steps: Generator[None, None, T]) -> T:
    while True:
        try:
            next(steps)
        except StopIteration as ended:
            result: T = ended.value
            return result


def offset(partition: int, value: int | None) -> KeyValue:
    """An offset commit of group g on t; None: its tombstone."""
    key = OffsetCommitKey("g", "t", partition)
    committed = None if value is None else OffsetCommitValue(value)
    return encode_key(key), encode_value(Record(key, committed))


class Log:
    """Batches at consecutive offsets, a millisecond apart."""

    def __init__(self) -> None:
        self.batches: list[bytes] = []
        self.end = 0

    def plain(self, *records: KeyValue) -> Log:
        return self._add(encode_batch(self.end, 0, NOW_MS - 60_000 + self.end, records))

    def txn(self, producer_id: int, *records: KeyValue) -> Log:
        at_ms = NOW_MS - 60_000 + self.end
        return self._add(
            encode_batch(self.end, 0, at_ms, records, producer_id, 0, 0, transactional=True)
        )

    def marker(self, producer_id: int, *, commit: bool, epoch: int = 0) -> Log:
        at_ms = NOW_MS - 60_000 + self.end
        return self._add(encode_marker(self.end, 0, at_ms, producer_id, epoch, 1, commit=commit))

    def _add(self, batch: bytes) -> Log:
        self.batches.append(batch)
        self.end = parse_header(batch).next_offset
        return self


def whole(batch: bytes) -> Batch:
    return Batch(parse_header(batch), batch)


def with_records(batch: bytes) -> tuple[Batch, Plain]:
    return whole(batch), records_data(*whole(batch))


def survey(batches: Sequence[bytes]) -> Survey:
    found = Survey(offsets_identity)
    for batch in batches:
        drain(found.add(*with_records(batch)))
    return found


def cleanable(batches: Sequence[bytes]) -> int:
    """How many of the batches may be cleaned."""
    end = survey(batches).stable_end(parse_header(batches[-1]).next_offset) if batches else 0
    return sum(parse_header(batch).next_offset <= end for batch in batches)


def clean_each(
    batches: Sequence[bytes], dirty: int = 0, now_ms: int = NOW_MS, last_offset: int | None = None
) -> list[bytes | None]:
    """What becomes of each batch; those before `dirty` are clean already."""
    if not batches:
        return []
    if last_offset is None:
        last_offset = parse_header(batches[-1]).last_offset
    rules = Rules(now_ms, RETENTION_MS, last_offset, PRODUCER_EXPIRATION_MS)
    compaction = Compaction(survey(batches[dirty:]), rules)
    return [drain(compaction.clean(*with_records(batch))) for batch in batches]


def clean(batches: Sequence[bytes], dirty: int = 0, now_ms: int = NOW_MS) -> list[bytes]:
    return [left for left in clean_each(batches, dirty, now_ms) if left is not None]


def offsets(batches: Sequence[bytes]) -> list[int]:
    """The offsets of all records."""
    return [record.offset for batch in batches for record in iter_records(batch)]


def state(batches: Sequence[bytes]) -> dict[str, Any]:
    """What a shard knows after replaying them: values with their log offsets, also pending."""
    store = OffsetStore()
    for batch in batches:
        header = parse_header(batch)
        for raw in iter_records(batch):
            if header.is_control:
                marker = decode_marker(raw)
                assert marker is not None
                apply_marker(store, header.producer_id, commit=marker.committed)
            elif raw.key is not None:
                record = decode_record(raw.key, raw.value)
                key, value = record.key, record.value
                assert isinstance(key, OffsetCommitKey)
                assert value is None or isinstance(value, OffsetCommitValue)
                producer_id = header.producer_id if header.is_transactional else -1
                at = AppliedAt(raw.offset, producer_id)
                replay_offset(store, {}, lambda _: None, key, value, at)  # type: ignore[arg-type, return-value]
    committed = {p: s for t in store.topics("g").values() for p, s in t.items()}
    pending = {
        place: sorted(v.offset for v in store.all_pending("g", *place))
        for place in store.pending("g")
    }
    return {"committed": committed, "pending": pending}


def test_lg_26_only_the_newest_record_of_a_key_is_left_and_the_state_is_the_same() -> None:
    log = Log().plain(offset(0, 1), offset(1, 1)).plain(offset(0, 2)).plain(offset(0, 3))
    left = clean(log.batches)
    assert offsets(left) == [1, 3]
    assert state(left) == state(log.batches)
    assert [(parse_header(b).base_offset, parse_header(b).last_offset) for b in left] == [
        (0, 1),
        (3, 3),
    ]
    assert all(check(batch) for batch in left)


def test_lg_27_a_tombstone_stays_for_a_while_and_what_it_hides_never_comes_back() -> None:
    log = Log().plain(offset(0, 1)).plain(offset(0, None)).plain(offset(1, 7))
    first = clean(log.batches)
    assert offsets(first) == [1, 2]
    header = parse_header(first[0])
    assert header.attributes & DELETE_HORIZON
    assert header.base_timestamp_ms == LATER_MS
    (tombstone,) = iter_records(first[0])
    (original,) = iter_records(log.batches[1])
    assert tombstone == original, "with its own time"
    assert header.max_timestamp_ms == original.timestamp_ms
    assert clean(first, len(first), LATER_MS - 1) == first
    second = clean(first, len(first), LATER_MS)
    assert offsets(second) == [2]
    assert state(second) == state(log.batches) == state(first)


def test_lg_28_nothing_is_touched_from_an_open_transaction_on() -> None:
    log = Log()
    for value in range(20):
        log.plain(offset(0, value))
    log.txn(7, offset(1, 1)).plain(offset(0, 99)).plain(offset(0, 100))
    found = survey(log.batches)
    assert found.stable_end(log.end) == 20
    assert found.stable_end(15) == 15
    assert cleanable(log.batches) == 20


def test_transactions_that_overlap_are_cleaned_together_or_not_at_all() -> None:
    log = Log().plain(offset(0, 1)).txn(1, offset(1, 1)).txn(2, offset(2, 2))
    log.marker(1, commit=True).txn(3, offset(3, 3)).marker(2, commit=False)
    found = survey(log.batches)
    # 4 is in 2's, which began in 1's; only 1 lies in none of them.
    assert found.stable_end(log.end) == 1
    log.marker(3, commit=True)
    assert survey(log.batches).stable_end(log.end) == log.end


def test_lg_29_an_aborted_record_does_not_shadow_a_committed_one() -> None:
    log = Log().plain(offset(0, 5)).txn(7, offset(0, 9)).marker(7, commit=False)
    log.plain(offset(1, 1))
    left = clean(log.batches)
    assert offsets(left) == [0, 2, 3]
    assert state(left)["committed"][0].offset == 5


def test_a_commit_that_came_before_a_plain_one_ended_loses_against_it() -> None:
    log = Log().txn(7, offset(0, 9)).plain(offset(0, 5)).marker(7, commit=True)
    left = clean(log.batches)
    assert offsets(left) == [1, 2]
    assert state(left) == state(log.batches)


def test_lg_30_the_last_batch_leaves_its_header_so_that_the_next_offset_is_right() -> None:
    without_key = Log().plain(offset(0, 1)).plain((None, b"x"), (None, b"y"))
    left = clean(without_key.batches)
    header = check(left[-1])
    assert (header.record_count, header.size) == (0, HEADER_BYTES)
    assert (header.base_offset, header.next_offset) == (1, 3)
    assert list(iter_records(left[-1])) == []
    assert clean(left, len(left)) == left


def test_a_marker_stays_while_its_transaction_has_records() -> None:
    log = Log().txn(7, offset(0, 1)).marker(7, commit=True).plain(offset(1, 1))
    first = clean(log.batches, now_ms=MUCH_LATER_MS)
    assert first == log.batches
    tail = Log()
    tail.end = log.end
    tail.plain(offset(0, 2)).plain(offset(2, 2))
    second = clean([*first, *tail.batches], len(first), MUCH_LATER_MS)
    assert offsets(second) == [1, 2, 3, 4], "the record is gone, the marker gets its horizon"
    marker = parse_header(second[0])
    assert marker.attributes & DELETE_HORIZON
    assert marker.base_timestamp_ms == MUCH_LATER_MS + RETENTION_MS
    third = clean(second, len(second), MUCH_LATER_MS + RETENTION_MS)
    assert offsets(third) == [2, 3, 4]


def test_the_last_data_of_a_producer_leaves_its_header_until_the_producer_is_forgotten() -> None:
    log = Log().txn(7, offset(0, 1)).txn(7, offset(0, 2)).marker(7, commit=False)
    log.plain(offset(1, 1))
    first = clean(log.batches)
    header = check(first[0])
    assert (header.producer_id, header.base_offset, header.record_count) == (7, 1, 0)
    assert header.is_transactional
    assert not header.is_control
    assert first[1] == log.batches[2], "the marker stays as long as its transaction has a batch"
    assert clean(first, len(first), LATER_MS) == first
    second = clean(first, len(first), MUCH_LATER_MS)
    assert [parse_header(batch).base_offset for batch in second] == [2, 3]
    third = clean(second, len(second), MUCH_LATER_MS + RETENTION_MS)
    assert [parse_header(batch).base_offset for batch in third] == [3]


def test_a_marker_that_begins_an_epoch_leaves_its_header_instead() -> None:
    """Transaction version 2: the marker says the next epoch, whose sequences begin at 0."""
    log = Log().txn(7, offset(0, 1)).marker(7, commit=False, epoch=1).plain(offset(1, 1))
    first = clean(log.batches)
    assert [parse_header(batch).base_offset for batch in first] == [1, 2]
    second = clean(first, len(first), LATER_MS)
    header = check(second[0])
    assert (header.producer_id, header.producer_epoch, header.record_count) == (7, 1, 0)
    assert header.is_control
    third = clean(second, len(second), MUCH_LATER_MS)
    assert [parse_header(batch).base_offset for batch in third] == [2]


def test_aborted_batches_leave_headers_where_their_records_can_still_be_read() -> None:
    log = Log().txn(7, offset(0, 1)).marker(7, commit=False).txn(8, offset(1, 1))
    log.marker(8, commit=False).plain(offset(2, 1))
    rules = Rules(MUCH_LATER_MS, RETENTION_MS, log.end - 1, PRODUCER_EXPIRATION_MS, aborted_from=2)
    compaction = Compaction(survey(log.batches), rules)
    left = [drain(compaction.clean(*with_records(batch))) for batch in log.batches]
    assert left[0] is None
    header = check(left[2] or b"")
    assert (header.producer_id, header.base_offset, header.record_count) == (8, 2, 0)
    assert header.is_transactional
    assert not header.is_control
    assert left[3] == log.batches[3], "the marker stays as it was"
    rest = [batch for batch in left if batch is not None]
    again = Compaction(
        survey([]),
        Rules(MUCH_LATER_MS, RETENTION_MS, log.end - 1, PRODUCER_EXPIRATION_MS, aborted_from=2),
    )
    assert [drain(again.clean(*with_records(batch))) for batch in rest][1:] == rest[1:]
    folded = clean(rest, len(rest), MUCH_LATER_MS)
    assert [parse_header(batch).base_offset for batch in folded][-1] == 4
    assert not any(parse_header(b).record_count == 0 for b in folded[:-1])


def test_records_without_key_go_and_legacy_keys_mean_the_same_offset() -> None:
    key, _ = offset(0, 1)
    assert key is not None
    legacy = b"\x00\x00" + key[2:]
    value = b"\x00\x00" + (41).to_bytes(8, "big") + b"\x00\x01m" + (5).to_bytes(8, "big")
    log = Log().plain((legacy, value), (None, b"?"), offset(1, 3)).plain(offset(0, None))
    assert offsets(clean(log.batches)) == [2, 3]


@pytest.mark.parametrize("codec", [GZIP, SNAPPY, LZ4, ZSTD])
def test_a_compressed_batch_is_written_anew_only_if_something_goes(codec: int) -> None:
    plain = whole(encode_batch(0, 0, NOW_MS, [offset(0, 1), offset(1, 1)]))
    packed = pack_batch(
        plain.header._replace(attributes=codec), compress(codec, plain.payload[HEADER_BYTES:])
    )
    after = encode_batch(2, 0, NOW_MS, [offset(2, 2)])
    assert clean([packed, after])[0] == packed
    newer = encode_batch(2, 0, NOW_MS, [offset(0, 2)])
    left = clean([packed, newer])
    assert check(left[0]).codec == codec
    assert offsets(left) == [1, 2]


def test_keys_of_a_topic_are_what_they_are() -> None:
    keys = [b"\x00\x00a", b"\x00\x01a", b"", b"k"]
    batches = [encode_batch(0, 0, NOW_MS, [(key, b"v") for key in keys])]
    batches.append(encode_batch(4, 0, NOW_MS, [(b"k", b"w"), (b"", b"w")]))
    found = Survey(plain_identity)
    for batch in batches:
        drain(found.add(*with_records(batch)))
    assert found.keys == {b"\x00\x00a": 0, b"\x00\x01a": 1, b"k": 4, b"": 5}
    assert found.size == sum(len(key) + KEY_BYTES for key in keys)


def test_of_long_keys_a_digest_is_noted() -> None:
    long = b"k" * 300_000
    keys = [long + b"a", long + b"b", b"\x00\x00" + long, b"\x00\x01" + long]
    batch = encode_batch(0, 0, NOW_MS, [(key, b"v") for key in keys])
    topic, shard = Survey(plain_identity), Survey(offsets_identity)
    for found in (topic, shard):
        drain(found.add(*with_records(batch)))
    assert sorted(topic.keys.values()) == [0, 1, 2, 3]
    assert sorted(shard.keys.values()) == [0, 1, 3], "key types 0 and 1 mean the same"
    assert topic.size < 20_000
    newer = encode_batch(4, 0, NOW_MS, [(keys[1], None)])
    left = clean([batch, newer])
    assert [record.key for record in iter_records(left[0])] == [keys[0], keys[3]]
    assert [record.key for record in iter_records(left[1])] == [keys[1]]


@pytest.mark.parametrize("codec", [0, GZIP, SNAPPY, LZ4, ZSTD])
def test_records_that_get_other_deltas_keep_everything_else(codec: int) -> None:
    """A tombstone gives the batch a delete horizon, in its base timestamp."""
    headers = encode_headers([("h", b"1"), ("h", None)])
    body = encode_record(0, b"a" * 70, bytes(40_000), 5, headers)
    body += encode_record(1, offset(1, None)[0], None, 9000) + encode_record(2, None, b"gone")
    header = new_header(0, 2, NOW_MS, NOW_MS + 9000, attributes=codec, record_count=3)
    batch = pack_batch(header, compress(codec, body))
    (left,) = clean([batch])
    assert check(left).codec == codec
    before = list(iter_records(batch))
    assert list(iter_records(left)) == before[:2]
    assert check(left).base_timestamp_ms == NOW_MS + RETENTION_MS


def test_a_large_batch_gives_others_their_turn() -> None:
    batch = encode_batch(0, 0, NOW_MS, [offset(n, 1) for n in range(4 * TURN_RECORDS)])
    found = Survey(offsets_identity)
    assert sum(1 for _ in found.add(*with_records(batch))) == 4
    rules = Rules(NOW_MS, RETENTION_MS, 0, PRODUCER_EXPIRATION_MS)
    assert sum(1 for _ in Compaction(found, rules).clean(*with_records(batch))) == 4


# Properties

records = st.builds(offset, st.integers(0, 3), st.one_of(st.none(), st.integers(0, 50)))
commits = st.builds(offset, st.integers(0, 3), st.integers(0, 50))
keyless = st.just((None, b"x"))
steps = st.one_of(
    st.tuples(st.just("plain"), st.lists(st.one_of(records, keyless), min_size=1, max_size=4)),
    # Tombstones are never written in transactions.
    st.tuples(st.just("txn"), st.integers(1, 3), st.lists(commits, min_size=1, max_size=3)),
    st.tuples(st.just("marker"), st.integers(1, 3), st.booleans()),
)


@st.composite
def logs(draw: st.DrawFn) -> list[bytes]:
    log = Log()
    for step in draw(st.lists(steps, min_size=1, max_size=25)):
        if step[0] == "plain":
            log.plain(*step[1])
        elif step[0] == "txn":
            log.txn(step[1], *step[2])
        else:
            log.marker(step[1], commit=step[2])
    return log.batches


def assert_faithful(before: Sequence[bytes], after: Sequence[bytes]) -> None:
    """Nothing but omissions: same records, offsets and times, batches at their places."""
    original = {r.offset: r for batch in before for r in iter_records(batch)}
    places = {(parse_header(b).base_offset, parse_header(b).last_offset) for b in before}
    for batch in after:
        header = check(batch)
        assert (header.base_offset, header.last_offset) in places
        assert all(original[record.offset] == record for record in iter_records(batch))


@examples(300)
@given(logs(), st.data())
def test_cleaning_changes_no_state_whereever_it_stops(batches: list[bytes], data: Any) -> None:
    upto = data.draw(st.integers(0, len(batches)), label="asked for")
    upto = cleanable(batches[:upto])
    end = [parse_header(batch) for batch in batches][-1].last_offset
    each = clean_each(batches[:upto], last_offset=end)
    wanted = state(batches)
    for done in range(upto + 1):  # a crash after each batch
        left = [batch for batch in each[:done] if batch is not None]
        assert state([*left, *batches[done:]]) == wanted
    assert_faithful(batches, [batch for batch in each if batch is not None])


@examples(200)
@given(logs(), st.data())
def test_cleaning_again_and_again_keeps_the_state_and_loses_the_tombstones(
    batches: list[bytes], data: Any
) -> None:
    wanted = state(batches)
    log, dirty, now_ms = list(batches), 0, NOW_MS
    for _ in range(3):
        upto = data.draw(st.integers(dirty, len(log)), label="asked for")
        upto = dirty + cleanable(log[dirty:upto])
        left = [
            batch
            for batch in clean_each(log[:upto], dirty, now_ms, parse_header(log[-1]).last_offset)
            if batch is not None
        ]
        assert_faithful(log[:upto], left)
        log, dirty = [*left, *log[upto:]], len(left)
        assert state(log) == wanted
        again = clean_each(log[:dirty], dirty, now_ms, parse_header(log[-1]).last_offset)
        assert again == log[:dirty], "idempotent at one moment"
        now_ms += data.draw(st.sampled_from([0, RETENTION_MS, PRODUCER_EXPIRATION_MS]))


@examples(200)
@given(logs())
def test_a_fully_cleaned_log_has_one_record_per_key(batches: list[bytes]) -> None:
    upto = cleanable(batches)
    last = parse_header(batches[-1]).last_offset
    left = clean_each(batches[:upto], last_offset=last)
    left = clean_each([b for b in left if b], upto, MUCH_LATER_MS, last)
    rest = [batch for batch in left if batch is not None]
    live = [r.key for b in rest if not parse_header(b).is_control for r in iter_records(b)]
    assert len(live) == len(set(live))
    assert all(
        record.value is not None
        for batch in rest
        if not parse_header(batch).is_control
        for record in iter_records(batch)
    )
    assert len(state(rest)["committed"]) == len(live)
