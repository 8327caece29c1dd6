"""The "consumer" subscription and assignment, byte by byte."""

from __future__ import annotations

from struct import pack

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groupd.protocol.consumer_protocol import (
    EmbeddedAssignment,
    EmbeddedSubscription,
    MalformedSubscription,
    encode_assignment,
    parse_assignment,
    parse_subscription,
    subscribed_topics,
)
from tests.unit.classic_group.harness import subscription

OWNED = pack(">i", 1) + pack(">h2s", 2, b"t1") + pack(">iii", 2, 0, 3)
V3 = subscription("t1", "t2", version=3, tail=OWNED + pack(">i", 7) + pack(">h2s", 2, b"r1"))


def test_version_3():
    assert parse_subscription(V3) == EmbeddedSubscription(
        3, ("t1", "t2"), None, (("t1", (0, 3)),), generation_id=7, rack_id="r1"
    )


@pytest.mark.parametrize(
    ("version", "tail", "expected"),
    [
        (0, b"", EmbeddedSubscription(0, ("t1",))),
        (1, OWNED, EmbeddedSubscription(1, ("t1",), None, (("t1", (0, 3)),))),
        (2, OWNED + pack(">i", 7), EmbeddedSubscription(2, ("t1",), None, (("t1", (0, 3)),), 7)),
    ],
)
def test_older_versions_have_fewer_fields(version, tail, expected):
    assert parse_subscription(subscription("t1", version=version, tail=tail)) == expected


def test_a_newer_version_is_read_as_the_newest_known():
    newer = pack(">h", 9) + V3[2:] + b"more"
    assert parse_subscription(newer).generation_id == 7


def test_user_data():
    raw = pack(">hi", 0, 0) + pack(">i3s", 3, b"abc")
    assert parse_subscription(raw).user_data == b"abc"


@pytest.mark.parametrize("length", range(len(V3)))
def test_truncated_anywhere(length):
    with pytest.raises(MalformedSubscription):
        parse_subscription(V3[:length])


@pytest.mark.parametrize(
    "raw",
    [
        pack(">h", -1) + V3[2:],
        pack(">hi", 0, -1) + pack(">i", -1),
        pack(">hi", 0, 2**31 - 1),
        pack(">hih", 0, 1, -1) + pack(">i", -1),
        pack(">hih1s", 0, 1, 1, b"\xff") + pack(">i", -1),
        pack(">hi", 0, 2) + pack(">h", 0) + pack(">b", 0),
    ],
    ids=["version", "null array", "huge array", "null name", "not utf-8", "more than fit"],
)
def test_malformed(raw):
    with pytest.raises(MalformedSubscription):
        parse_subscription(raw)


def test_topics_need_only_the_common_prefix():
    assert subscribed_topics(subscription("t1", "t2", "t1", version=3, tail=b"?")) == {"t1", "t2"}
    with pytest.raises(MalformedSubscription):
        subscribed_topics(b"r")


def test_an_assignment_byte_by_byte():
    raw = bytes.fromhex("0001 00000001 0002 7431 00000002 00000000 00000003 ffffffff")
    assignment = EmbeddedAssignment(1, (("t1", (0, 3)),))
    assert encode_assignment(assignment) == raw
    assert parse_assignment(raw) == assignment
    for length in range(len(raw)):
        with pytest.raises(MalformedSubscription):
            parse_assignment(raw[:length])


@given(
    st.builds(
        EmbeddedAssignment,
        st.integers(0, 3),
        st.lists(
            st.tuples(st.text(max_size=5), st.lists(st.integers(0, 2**31 - 1)).map(tuple)),
            max_size=4,
        ).map(tuple),
        st.none() | st.binary(max_size=5),
    )
)
def test_assignments_round_trip(assignment):
    assert parse_assignment(encode_assignment(assignment)) == assignment
