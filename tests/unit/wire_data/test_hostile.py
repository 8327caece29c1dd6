"""Bytes from anyone: every broken body is a MalformedRequest, at once and in little memory."""

from __future__ import annotations

import random
import tracemalloc

import pytest

from groupd.protocol.wire.registry import MalformedReply, MalformedRequest
from tests.unit.wire_data.cases import VERSIONED, VERSIONED_IDS, Case
from tests.unit.wire_data.data_samples import NAME
from tests.unit.wire_data.oracle import request_bytes

WITHOUT_STRINGS = {
    "describe_cluster",
    "get_telemetry_subscriptions",
    "list_config_resources",
    "expire_delegation_token",
    "push_telemetry",
    "renew_delegation_token",
    "sasl_authenticate",
}

WITH_TAGS = {"produce", "fetch"}
"""Replies with tagged fields of their own at the end."""

TAGS = b"\x02" + b"\x63\x03abc" + b"\x80\x02\x00"
HUGE = (b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff\x0f", b"\xff\xff\xff\xff\x07", b"\x7f\xff")

versioned = pytest.mark.parametrize(("case", "version"), VERSIONED, ids=VERSIONED_IDS)

FLEXIBLE = [(case, version) for case, version in VERSIONED if case.api.flexible(version)]


def body_of(case: Case, version: int) -> bytes:
    _, values = case.requests[0](version)
    return request_bytes(case.name, version, values)


def decodes(case: Case, version: int, body: bytes) -> bool:
    """Whether `body` is a request; raises whatever is not MalformedRequest."""
    try:
        case.api.decode(body, 0, version)
    except MalformedRequest:
        return False
    return True


@versioned
def test_truncated_at_every_byte(case: Case, version: int) -> None:
    body = body_of(case, version)
    assert decodes(case, version, body)
    assert not any(decodes(case, version, body[:size]) for size in range(len(body)))


def reads(case: Case, version: int, body: bytes) -> bool:
    """Whether `body` is a reply; raises whatever is not MalformedReply."""
    try:
        case.api.decode_reply(body, 0, version)
    except MalformedReply:
        return False
    return True


@versioned
@pytest.mark.slow
def test_replies_truncated_at_every_byte(case: Case, version: int) -> None:
    for sample in case.replies:
        body = bytes(case.api.encode(sample(version)[0], version))
        assert reads(case, version, body)
        assert not any(reads(case, version, body[:size]) for size in range(len(body)))


@versioned
@pytest.mark.slow
def test_huge_lengths_in_replies(case: Case, version: int) -> None:
    """A server that lies about a length costs its client no memory."""
    tracemalloc.start()
    try:
        for sample in case.replies:
            body = bytes(case.api.encode(sample(version)[0], version))
            for at in range(min(len(body), 200)):
                for length in HUGE:
                    reads(case, version, body[:at] + length + body[at + len(length) :])
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 1 << 20


@versioned
def test_offset_behind_the_frame(case: Case, version: int) -> None:
    with pytest.raises(MalformedRequest):
        case.api.decode(b"", 1000, version)


@versioned
def test_huge_lengths_at_every_position(case: Case, version: int) -> None:
    """Whatever length or count stands at a position, no memory is taken before the bytes are
    there."""
    body = body_of(case, version)
    rejected = 0
    tracemalloc.start()
    try:
        for at in range(min(len(body), 200)):
            for length in HUGE:
                rejected += not decodes(
                    case, version, body[:at] + length + body[at + len(length) :]
                )
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 1 << 20
    assert rejected >= 1


@versioned
def test_random_damage(case: Case, version: int) -> None:
    body = body_of(case, version)
    chance = random.Random(f"{case.name} {version}")
    for _ in range(100):
        damaged = bytearray(body)
        for _ in range(chance.randint(1, 4)):
            damaged[chance.randrange(len(damaged))] = chance.choice((0, 1, 0x7F, 0x80, 0xFF))
        decodes(case, version, bytes(damaged))


@versioned
def test_invalid_utf8(case: Case, version: int) -> None:
    body = body_of(case, version)
    name = NAME.encode()
    if name not in body:
        # These have no string, Produce from v13 and Fetch from v13 no topic name.
        assert case.name in WITHOUT_STRINGS or (case.name in {"produce", "fetch"} and version >= 13)
        return
    at = body.index(name)
    assert not decodes(case, version, body[:at] + b"\xff" + body[at + 1 :])


@pytest.mark.parametrize(
    ("case", "version"),
    FLEXIBLE,
    ids=[f"{case.name}-v{version}" for case, version in FLEXIBLE],
)
def test_unknown_tagged_fields_are_skipped(case: Case, version: int) -> None:
    """KIP-482: a newer client may add a tagged field to any version."""
    message, values = case.requests[-1](version)
    body = request_bytes(case.name, version, values)
    assert body[-1] == 0
    extended = body[:-1] + TAGS
    assert case.api.decode(extended, 0, version) == message
    for reply in case.replies:
        answer = reply(version)[0]
        body_of_reply = bytes(case.api.encode(answer, version))
        if case.name not in WITH_TAGS:
            found = case.api.decode_reply(body_of_reply[:-1] + TAGS, 0, version)
            assert case.api.encode(found, version) == body_of_reply
    for size in range(len(body), len(extended)):
        assert not decodes(case, version, extended[:size])


@versioned
def test_only_nulls_and_only_ones(case: Case, version: int) -> None:
    for filler in (b"\x00", b"\xff", b"\x80", b"\x7f"):
        decodes(case, version, filler * 5000)
    assert not decodes(case, version, b"\x80" * 5000)
