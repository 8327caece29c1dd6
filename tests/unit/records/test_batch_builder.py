"""Records of a batch that are encoded in several pieces."""

from __future__ import annotations

from itertools import accumulate

from hypothesis import given
from hypothesis import strategies as st

from groupd.protocol.records.batch import (
    TRANSACTIONAL,
    BatchRecord,
    check,
    iter_records,
    parse_header,
)
from groupd.protocol.records.batch_builder import (
    KeyValue,
    encode_batch,
    encode_records,
    new_header,
    pack_batch,
    plain_batch,
    rebuild_batch,
)

DATA = st.none() | st.binary(max_size=80) | st.integers(2040, 2060).map(bytes)
PIECES = st.lists(st.lists(st.tuples(DATA, DATA), min_size=1, max_size=5), min_size=1, max_size=5)


@given(PIECES, st.booleans())
def test_pieces_of_a_batch_are_the_batch(pieces: list[list[KeyValue]], in_txn: bool) -> None:
    records = [record for piece in pieces for record in piece]
    starts = accumulate((len(piece) for piece in pieces), initial=0)
    bodies = [encode_records(piece, first) for piece, first in zip(pieces, starts, strict=False)]
    whole = encode_batch(70, 0, 1234, records, 9 if in_txn else -1, 2, transactional=in_txn)
    header = new_header(
        70,
        69 + len(records),
        1234,
        1234,
        attributes=TRANSACTIONAL if in_txn else 0,
        producer=(9 if in_txn else -1, 2, 0),
        record_count=len(records),
    )
    assert pack_batch(header, b"".join(bodies)) == whole
    check(whole)
    assert [(record.key, record.value) for record in iter_records(whole)] == records


def test_many_records_have_deltas_of_several_bytes() -> None:
    records: list[KeyValue] = [(b"%d" % number, None) for number in range(5000)]
    body = encode_records(records[:2000]) + encode_records(records[2000:], 2000)
    header = new_header(10, 9 + len(records), 1, 1, record_count=len(records))
    read = list(iter_records(pack_batch(header, body)))
    assert [record.offset for record in read] == list(range(10, 5010))
    assert [(record.key, record.value) for record in read] == records


RECORDS = st.lists(
    st.builds(
        BatchRecord,
        st.integers(40, 5000),
        st.integers(0, 2**45),
        DATA,
        DATA,
        st.lists(st.tuples(st.sampled_from(["", "h", "trace-id"]), DATA), max_size=3).map(tuple),
    ),
    min_size=1,
    max_size=5,
    unique_by=lambda record: record.offset,
)


@given(RECORDS)
def test_a_batch_built_from_records_holds_those_records(records: list[BatchRecord]) -> None:
    records.sort()
    payload = plain_batch(records)
    check(payload)
    assert list(iter_records(payload)) == records
    some = records[::2]
    rebuilt = rebuild_batch(parse_header(payload), some)
    check(rebuilt)
    assert list(iter_records(rebuilt)) == some
    assert parse_header(rebuilt).last_offset == records[-1].offset
