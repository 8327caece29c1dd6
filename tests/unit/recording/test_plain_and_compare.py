"""Messages as JSON and back, and where two replies differ."""

from __future__ import annotations

import base64
import struct
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groupd.coordinator.recording.difference import (
    FieldDifference,
    differences,
    facts_of,
    value_shown,
    without_secrets,
)
from groupd.coordinator.recording.plain import ChecksummedBytes, from_tree, to_json, to_tree
from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages.classic_group import HeartbeatReply, JoinGroupRequest, JoinProtocol
from groupd.protocol.messages.data import ProducePartition, ProduceRequest, ProduceTopic
from groupd.protocol.messages.lazily import Lazily
from groupd.protocol.messages.offsets import (
    CommitPartition,
    CommitRows,
    CommitTopic,
    OffsetCommitRequest,
    commit_topic,
)
from groupd.protocol.messages.sasl import SaslAuthenticateReply, SaslAuthenticateRequest
from groupd.protocol.messages.secret import Secret
from groupd.protocol.messages.users import (
    AlterUserScramCredentialsRequest,
    ScramDeletion,
    ScramUpsertion,
)
from groupd.protocol.wire.apis import API_BY_KEY
from groupd.protocol.wire.header import parse_request_header
from groupd.protocol.wire.registry import MalformedRequest

COMMIT = OffsetCommitRequest(
    "g", (commit_topic("t", (CommitPartition(0, 5), CommitPartition(1, 7))),)
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
    again = from_tree(to_tree(message))
    assert again == message
    for topic in getattr(again, "topics", None) or ():
        if isinstance(topic, CommitTopic):
            assert isinstance(topic.partitions, CommitRows), "handlers rely on it"


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
    assert to_json([ValueError("no"), ChecksummedBytes(b"abc")]) == '[{"!":"no"},891568578]'


def test_an_error_code_is_a_number_in_a_file_and_a_name_for_people() -> None:
    tree = to_tree(HeartbeatReply(ErrorCode.ILLEGAL_GENERATION))
    assert tree == {"@": "HeartbeatReply", "error": 22}
    assert value_shown("topics[0].error", 22) == "22 (ILLEGAL_GENERATION)"
    assert value_shown("error", 31_000) == "31000"
    assert value_shown("member_epoch", 22) == "22"
    assert len(value_shown("records", "x" * 5000)) < 400


def test_each_place_that_differs_is_named() -> None:
    other = OffsetCommitRequest("g", (commit_topic("t", (CommitPartition(0, 6),)),), member_id="m")
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


HUSH = b"hush-hush-hush-hush"
SASL_AUTHENTICATE, ALTER_USERS = 36, 51


def request_frame(key: int, version: int, body: bytes, *, tags: bytes = b"") -> bytes:
    header = struct.pack(">hhih", key, version, 7, 5) + b"alice" + tags
    return header + body


def authenticate_v1(secret: bytes) -> bytes:
    return request_frame(SASL_AUTHENTICATE, 1, struct.pack(">i", len(secret)) + secret)


def authenticate_v2(secret: bytes) -> bytes:
    body = bytes([len(secret) + 1]) + secret + b"\0"
    return request_frame(SASL_AUTHENTICATE, 2, body, tags=b"\0")


def alter_users(secret: bytes) -> bytes:
    """Deletes carol; sets the passwords of bob and dave."""
    body = b"\x02\x06carol\x01\0" + b"\x03"
    for user in (b"\x04bob", b"\x05dave"):
        salted = bytes([len(secret) + 1]) + secret
        body += user + b"\x01" + struct.pack(">i", 4096) + b"\x05salt" + salted + b"\0"
    return request_frame(ALTER_USERS, 0, body + b"\0", tags=b"\0")


def decoded(frame: bytes) -> Any:
    header = parse_request_header(frame, API_BY_KEY)
    return API_BY_KEY[header.api_key].decode(frame, header.body_offset, header.api_version)


@pytest.mark.parametrize("build", [authenticate_v1, authenticate_v2, alter_users])
@pytest.mark.parametrize("secret", [HUSH, b"\x05alic", b"\0\0\1", b""])
def test_a_recorded_frame_has_zeros_for_its_secrets(
    build: Callable[[bytes], bytes], secret: bytes
) -> None:
    frame = without_secrets(build(secret))
    assert frame.replace(b"salt", bytes(4)) == build(bytes(len(secret))).replace(b"salt", bytes(4))
    assert b"alice" in frame
    if build is alter_users:
        request = decoded(frame)
        assert [one.user for one in request.deletions] == ["carol"]
        assert [one.user for one in request.upsertions] == ["bob", "dave"]
        assert not any(request.upsertions[1].salt + request.upsertions[1].salted_password)


@pytest.mark.parametrize("build", [authenticate_v1, authenticate_v2, alter_users])
def test_what_cannot_be_read_is_recorded_without_what_follows(
    build: Callable[[bytes], bytes],
) -> None:
    whole = build(HUSH)
    for end in range(4, len(whole)):
        cut = without_secrets(whole[:end])
        assert b"hush" not in cut
        with pytest.raises(MalformedRequest):
            decoded(cut)


def test_other_frames_are_recorded_as_they_are() -> None:
    frame = request_frame(12, 0, HUSH)
    assert without_secrets(frame) is frame
    assert without_secrets(b"") == b""


def test_a_message_with_secrets_is_recorded_with_zeros() -> None:
    secret = Secret(HUSH)
    for message in (
        SaslAuthenticateRequest(secret),
        SaslAuthenticateReply(auth_bytes=secret),
        AlterUserScramCredentialsRequest(
            (ScramDeletion("carol", 1),), (ScramUpsertion("bob", 1, 4096, secret, secret),)
        ),
    ):
        text = to_json(message)
        assert base64.b64encode(HUSH).decode() not in text
        assert base64.b64encode(bytes(len(HUSH))).decode() in text
