"""Messages as JSON and back, and where two replies differ."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groupd.coordinator.recording.compare import FieldDifference, differences
from groupd.coordinator.recording.plain import Checksum, from_tree, to_json, to_tree
from groupd.coordinator.recording.requests import facts_of, value_shown
from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages.classic_group import HeartbeatReply, JoinGroupRequest, JoinProtocol
from groupd.protocol.messages.data import ProducePartition, ProduceRequest, ProduceTopic
from groupd.protocol.messages.lazily import Lazily
from groupd.protocol.messages.offsets import CommitPartition, CommitTopic, OffsetCommitRequest

COMMIT = OffsetCommitRequest(
    "g", (CommitTopic("t", (CommitPartition(0, 5), CommitPartition(1, 7))),)
)


@pytest.mark.parametrize(
    "message",
    [
        COMMIT,
        ProduceRequest((ProduceTopic("t", b"\x01" * 16, (ProducePartition(0, b"\x00\xff"),)),)),
        JoinGroupRequest("g", 1, 2, "m", "consumer", (JoinProtocol("range", b"\x00"),), None),
    ],
)
def test_a_request_comes_back(message: object) -> None:
    assert from_tree(to_tree(message)) == message


@pytest.mark.parametrize(
    "tree",
    [
        {"@": "Popen", "args": "x"},
        {"@": "OffsetCommitRequest", "shell": True},
        {"@": ["a"]} | {"@": "dict"},
        {"$": 5},
        {"$": "*"},
    ],
)
def test_nothing_but_messages_is_made_of_a_recording(tree: object) -> None:
    with pytest.raises(ValueError, match=r"."):
        from_tree(tree)


def test_what_is_made_later_is_an_array() -> None:
    assert to_tree(Lazily(2, lambda: iter((HeartbeatReply(ErrorCode.NONE), b"x")))) == to_tree(
        (HeartbeatReply(ErrorCode.NONE), b"x")
    )


def test_what_has_no_place_in_a_recording() -> None:
    with pytest.raises(TypeError, match="object has no place"):
        to_json({"a": object()})
    assert to_json([ValueError("no"), Checksum(b"abc")]) == '[{"!":"no"},891568578]'


def test_an_error_code_is_a_number_in_a_file_and_a_name_for_people() -> None:
    tree = to_tree(HeartbeatReply(ErrorCode.ILLEGAL_GENERATION))
    assert tree == {"@": "HeartbeatReply", "error": 22}
    assert value_shown("topics[0].error", 22) == "22 (ILLEGAL_GENERATION)"
    assert value_shown("error", 31_000) == "31000"
    assert value_shown("member_epoch", 22) == "22"
    assert len(value_shown("records", "x" * 5000)) < 400


def test_each_place_that_differs_is_named() -> None:
    other = OffsetCommitRequest("g", (CommitTopic("t", (CommitPartition(0, 6),)),), member_id="m")
    found = list(differences(to_tree(COMMIT), to_tree(other)))
    assert {one.path for one in found} == {
        "topics[0].partitions[0].offset",
        "topics[0].partitions[1]",
        "member_id",
    }
    by_path = {one.path: one for one in found}
    assert by_path["topics[0].partitions[0].offset"] == FieldDifference(
        "topics[0].partitions[0].offset", 5, 6
    )
    assert by_path["topics[0].partitions[1]"].got == "(missing)"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (1, True),
        (0, False),
        (0, None),
        ("", None),
        ([], {}),
        ({"$": "AA=="}, {"$": "AQ=="}),
        (1, "1"),
    ],
)
def test_what_is_alike_is_not_equal(one: object, other: object) -> None:
    assert len(list(differences(one, other))) == 1
    assert list(differences(one, one)) == []


@given(st.binary(max_size=60))
def test_any_frame_can_be_described(frame: bytes) -> None:
    assert facts_of(1, 2, 3, 4, frame).shown().startswith("request 1 at +0.002 s: ")
