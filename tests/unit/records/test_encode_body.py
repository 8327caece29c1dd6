"""Records of a batch that are encoded in several pieces."""

from __future__ import annotations

from itertools import accumulate

from hypothesis import given
from hypothesis import strategies as st

from groupd.protocol.records.batch import (
    TRANSACTIONAL,
    check,
    encode_batch,
    iter_records,
    seal_batch,
)
from groupd.protocol.records.batch_records import KeyValue, encode_body

DATA = st.none() | st.binary(max_size=80) | st.integers(2040, 2060).map(bytes)
PIECES = st.lists(st.lists(st.tuples(DATA, DATA), min_size=1, max_size=5), min_size=1, max_size=5)


@given(PIECES, st.booleans())
def test_pieces_of_a_batch_are_the_batch(pieces: list[list[KeyValue]], in_txn: bool) -> None:
    records = [record for piece in pieces for record in piece]
    starts = accumulate((len(piece) for piece in pieces), initial=0)
    bodies = [encode_body(piece, first) for piece, first in zip(pieces, starts, strict=False)]
    whole = encode_batch(70, 0, 1234, records, 9 if in_txn else -1, 2, transactional=in_txn)
    producer = (9 if in_txn else -1, 2, 0)
    attributes = TRANSACTIONAL if in_txn else 0
    body = b"".join(bodies)
    assert seal_batch(70, 0, 1234, len(records), body, producer, attributes) == whole
    check(whole)
    assert [(record.key, record.value) for record in iter_records(whole)] == records


def test_many_records_have_deltas_of_several_bytes() -> None:
    records: list[KeyValue] = [(b"%d" % number, None) for number in range(5000)]
    body = encode_body(records[:2000]) + encode_body(records[2000:], 2000)
    read = list(iter_records(seal_batch(10, 0, 1, len(records), body)))
    assert [record.offset for record in read] == list(range(10, 5010))
    assert [(record.key, record.value) for record in read] == records
