"""Records of `__transaction_state`: bytes written out by hand from Kafka's message definitions."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groupd.protocol.records.codec import CorruptRecord, UnknownRecordType
from groupd.protocol.records.transaction_records import (
    TransactionLogValue,
    decode_key,
    decode_value,
    encode_key,
    encode_value,
)

OPEN = TransactionLogValue(
    producer_id=4000,
    producer_epoch=7,
    timeout_ms=60000,
    state=1,
    partitions=(("ab", (0, 2)),),
    last_update_ms=258,
    start_ms=257,
    previous_producer_id=3999,
    next_producer_id=4001,
    client_version=2,
)
EMPTY = TransactionLogValue(4000, 0, 60000, 0, None, 258, -1)

FIXED = "0000000000000fa0 0007 0000ea60 01"
TIMES = "0000000000000102 0000000000000101"
OPEN_V1 = (
    f"0001 {FIXED} 02 03 6162 03 00000000 00000002 00 {TIMES} "
    "03 00 08 0000000000000f9f 01 08 0000000000000fa1 02 02 0002"
)
OPEN_V0 = f"0000 {FIXED} 00000001 0002 6162 00000002 00000000 00000002 {TIMES}"
EMPTY_FIXED = "0000000000000fa0 0000 0000ea60 00"
EMPTY_TIMES = "0000000000000102 ffffffffffffffff"
EMPTY_V1 = f"0001 {EMPTY_FIXED} 00 {EMPTY_TIMES} 00"
EMPTY_V0 = f"0000 {EMPTY_FIXED} ffffffff {EMPTY_TIMES}"


@pytest.mark.parametrize(
    ("value", "version", "text"),
    [(OPEN, 1, OPEN_V1), (OPEN, 0, OPEN_V0), (EMPTY, 1, EMPTY_V1), (EMPTY, 0, EMPTY_V0)],
)
def test_written_bytes(value: TransactionLogValue, version: int, text: str) -> None:
    assert encode_value(value, version) == bytes.fromhex(text)


def test_read_values() -> None:
    assert decode_value(bytes.fromhex(OPEN_V1)) == OPEN
    assert decode_value(bytes.fromhex(EMPTY_V1)) == EMPTY
    assert decode_value(bytes.fromhex(EMPTY_V0)) == EMPTY
    old = decode_value(bytes.fromhex(OPEN_V0))
    assert (old.partitions, old.previous_producer_id, old.client_version) == (
        OPEN.partitions,
        -1,
        0,
    )


def test_unknown_tags_are_passed_over() -> None:
    """Tag 3 is defined by Kafka and not used; 9 is from the future (KIP-915)."""
    text = EMPTY_V1[:-2] + "02 03 02 0005 09 01 ff"
    assert decode_value(bytes.fromhex(text)) == EMPTY


def test_keys() -> None:
    assert encode_key("tx") == bytes.fromhex("0000 0002 7478")
    assert decode_key(bytes.fromhex("0000 0002 7478")) == "tx"
    with pytest.raises(UnknownRecordType):
        decode_key(bytes.fromhex("0001 0002 7478"))
    with pytest.raises(ValueError):
        encode_key("x" * 32768)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "0002" + EMPTY_V1[4:],
        "ffff" + EMPTY_V1[4:],
        EMPTY_V1 + "00",
        EMPTY_V1[:-3],
        f"0001 {FIXED} ff ff ff ff 0f 03",
        f"0000 {FIXED} fffffffe {TIMES}",
        f"0000 {FIXED} 00000001 ffff 00000000 {TIMES}",
        EMPTY_V1[:-2] + "01 00 07 00000000000000",
    ],
)
def test_damage_is_corrupt(text: str) -> None:
    with pytest.raises(CorruptRecord):
        decode_value(bytes.fromhex(text))


@given(st.binary(max_size=80))
def test_any_bytes_are_a_value_or_corrupt(data: bytes) -> None:
    for decode in (decode_value, decode_key):
        try:
            decode(data)
        except (CorruptRecord, UnknownRecordType):
            continue


LONG = st.integers(-(2**63), 2**63 - 1)
VALUES = st.builds(
    TransactionLogValue,
    producer_id=LONG,
    producer_epoch=st.integers(-(2**15), 2**15 - 1),
    timeout_ms=st.integers(-(2**31), 2**31 - 1),
    state=st.integers(0, 7),
    partitions=st.none()
    | st.lists(
        st.tuples(st.text(max_size=5), st.lists(st.integers(0, 2**31 - 1), max_size=4).map(tuple)),
        max_size=4,
    ).map(tuple),
    last_update_ms=LONG,
    start_ms=LONG,
    previous_producer_id=LONG,
    next_producer_id=LONG,
    client_version=st.integers(0, 2),
)


@given(VALUES)
def test_round_trip(value: TransactionLogValue) -> None:
    assert decode_value(encode_value(value, 1)) == value
