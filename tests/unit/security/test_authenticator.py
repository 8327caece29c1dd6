"""The state machine around the mechanisms, without sockets: SE-15 to SE-20, SE-38, SE-45."""

from __future__ import annotations

import struct
from typing import Any

import pytest

from groupd.coordinator.core.types import Instant
from groupd.coordinator.security.sasl.authenticator import (
    TOKENS_MAX,
    Authenticator,
    Claimed,
    Complete,
    Drop,
    Enabled,
    InThread,
    Proceed,
    Refuse,
    SaslAction,
    SaslIdentity,
)
from groupd.coordinator.security.sasl.mechanisms import (
    Authenticated,
    Challenge,
    Later,
    PlainMechanism,
    Rejected,
    SaslStep,
)
from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages.cluster import ApiVersionsReply, ApiVersionsRequest
from tests.support.raw import api_versions, metadata, request
from tests.support.sasl_frames import (
    AuthenticateBody,
    Handshake,
    authenticate,
    handshake,
    read_authenticated,
    read_handshake,
)

NOW = Instant(1_000, 50_000)
GOOD = b"\0alice\0pw"


class Scripted:
    """A mechanism whose messages are names of steps."""

    name = "SCRIPTED"

    def begin(self) -> Scripted:
        return self

    def respond(self, token: bytes) -> SaslStep | Later:
        match token.split():
            case [b"more"]:
                return Challenge(b"go on")
            case [b"later"]:
                return Later(lambda: Authenticated(b"done", "alice"))
            case [b"until", end]:
                return Authenticated(b"", "alice", int(end))
            case [b"as", name]:
                return Authenticated(b"", name.decode())
        return Rejected("no", "no")


def versions(version: int, asked: ApiVersionsRequest) -> ApiVersionsReply:
    bad = asked.client_software_name == "a b"
    return ApiVersionsReply(ErrorCode.INVALID_REQUEST if bad else ErrorCode.NONE, ())


class AtOnce(Authenticator):
    """Nobody is slowed down."""

    def frame(self, frame: bytes) -> SaslAction:
        action = super().frame(frame)
        return self.judged(action.step) if isinstance(action, Claimed) else action


def begin(before: SaslIdentity | None = None, max_reauth_ms: int = 0) -> Authenticator:
    enabled = {
        "PLAIN": Enabled(PlainMechanism({"alice": "pw"}), max_reauth_ms),
        "SCRIPTED": Enabled(Scripted(), max_reauth_ms),
    }
    return AtOnce(enabled, versions, lambda: NOW, before)


def version_request(version: int, name: str = "test", body: bytes | None = None) -> bytes:
    """ApiVersions without its length. From version 3 on it says which software asks."""
    if version < 3:
        return api_versions(9, version)[4:]
    said = bytes([len(name) + 1]) + name.encode() + b"\x021\0"
    return request(18, version, 9, b"\0" + (said if body is None else body))


def body(action: SaslAction) -> bytes:
    """The body of the reply, behind its correlation id."""
    frame = getattr(action, "frame", None)
    assert frame is not None, action
    assert struct.unpack_from(">i", frame)[0] == len(frame) - 4
    return bytes(frame[8:])


def error(action: SaslAction) -> int:
    found: int = struct.unpack_from(">h", body(action))[0]
    return found


def started(mechanism: str = "PLAIN", version: int = 1, **more: Any) -> Authenticator:
    authenticator = begin(**more)
    reply = authenticator.frame(handshake(mechanism, version))
    assert isinstance(reply, Proceed)
    assert read_handshake(body(reply)) == Handshake(0, ["PLAIN", "SCRIPTED"])
    return authenticator


def test_the_usual_way() -> None:
    authenticator = begin()
    assert isinstance(authenticator.frame(version_request(3)), Proceed)
    assert isinstance(authenticator.frame(handshake("PLAIN")), Proceed)
    done = authenticator.frame(authenticate(GOOD))
    assert isinstance(done, Complete)
    assert read_authenticated(body(done)) == AuthenticateBody(0, None, b"", 0)
    assert done.identity == SaslIdentity("User:alice", "PLAIN", None, may_repeat=True)


@pytest.mark.parametrize(
    "first",
    [
        metadata(1)[4:],
        authenticate(GOOD),
        request(999, 0, 1),
        request(17, 2, 1, b"\0\x05PLAIN"),
        request(17, 1, 1, b"\0\x09PLAIN"),
        request(18, 3, 1, b"\0\xff"),
        b"",
        b"\0",
    ],
)
def test_what_cannot_come_first(first: bytes) -> None:
    """SE-15."""
    assert isinstance(begin().frame(first), Drop)


def test_versions_may_be_asked_for_until_they_are_told() -> None:
    """SE-16."""
    authenticator = begin()
    for _ in range(2):
        unknown = authenticator.frame(request(18, 99, 9, b"\0"))
        assert isinstance(unknown, Proceed)
        assert error(unknown) == ErrorCode.UNSUPPORTED_VERSION
        refused = authenticator.frame(version_request(3, "a b"))
        assert isinstance(refused, Proceed)
        assert error(refused) == ErrorCode.INVALID_REQUEST
    assert error(authenticator.frame(version_request(3))) == 0
    assert isinstance(authenticator.frame(version_request(3)), Drop)


def test_a_version_that_nobody_knows_after_the_versions_were_told() -> None:
    authenticator = begin()
    authenticator.frame(version_request(0))
    assert isinstance(authenticator.frame(request(18, 99, 9, b"\0")), Drop)


@pytest.mark.parametrize("name", ["NOPE", "plain", "GSSAPI", ""])
def test_mechanisms_that_are_not_enabled(name: str) -> None:
    """SE-17."""
    refused = begin().frame(handshake(name))
    assert isinstance(refused, Refuse)
    assert read_handshake(body(refused)) == Handshake(33, ["PLAIN", "SCRIPTED"])


@pytest.mark.parametrize(
    ("other", "error_at"),
    [
        (metadata(5, ("topic",))[4:], 12),
        (version_request(0), 0),
        (version_request(3), 0),
        (handshake("PLAIN"), 0),
    ],
)
def test_other_requests_in_the_middle(other: bytes, error_at: int) -> None:
    """SE-18: in the form of their API."""
    refused = started().frame(other)
    assert isinstance(refused, Refuse)
    found = struct.unpack_from(">h", body(refused), error_at)[0]
    assert found == ErrorCode.ILLEGAL_SASL_STATE


def test_a_request_without_a_reply_in_the_middle() -> None:
    """SE-18: Produce with acks=0 is refused as others are, but nothing is sent."""
    transactional_id, acks, timeout_ms, topics = -1, 0, 1000, 0
    produce = struct.pack(">hhii", transactional_id, acks, timeout_ms, topics)
    refused = started().frame(request(0, 3, 1, produce))
    assert refused == Refuse(None, "Produce during authentication")


@pytest.mark.parametrize(
    "other",
    [
        request(36, 9, 1, b"\0\0\0\0"),
        authenticate(None),
        request(36, 1, 1, b"\0\0\0\x09x"),
        request(999, 0, 1),
        request(3, 1, 1, b"\x7f\xff\xff\xff"),
        b"",
    ],
)
def test_broken_requests_in_the_middle(other: bytes) -> None:
    """SE-19."""
    assert isinstance(started().frame(other), Drop)


def test_an_empty_message_is_a_message() -> None:
    """SE-19."""
    refused = started().frame(authenticate(b""))
    assert isinstance(refused, Refuse)
    assert read_authenticated(body(refused)).error == 58


def test_bare_messages() -> None:
    """SE-20."""
    done = started(version=0).frame(GOOD)
    assert isinstance(done, Complete)
    assert done.frame == b"\0\0\0\0"
    assert not done.identity.may_repeat
    refused = started(version=0).frame(b"\0alice\0wrong")
    assert refused == Refuse(None, "unknown user or wrong password")


def test_a_challenge_and_work_in_a_thread() -> None:
    for version in (0, 1):
        authenticator = started("SCRIPTED", version)
        wrap = authenticate if version else bytes
        go_on = authenticator.frame(wrap(b"more"))
        assert isinstance(go_on, Proceed)
        assert b"go on" in go_on.frame
        work = authenticator.frame(wrap(b"later"))
        assert isinstance(work, InThread)
        done = authenticator.judged(work.work())
        assert isinstance(done, Complete)
        assert b"done" in done.frame


def test_tokens_are_counted() -> None:
    authenticator = started("SCRIPTED")
    for _ in range(TOKENS_MAX):
        assert isinstance(authenticator.frame(authenticate(b"more")), Proceed)
    refused = authenticator.frame(authenticate(b"more"))
    assert isinstance(refused, Refuse)
    assert read_authenticated(body(refused)).error == 58


@pytest.mark.parametrize(
    ("token", "max_reauth_ms", "lifetime_ms"),
    [
        (b"as alice", 0, None),
        (b"as alice", 700, 700),
        (b"until 50500", 0, 500),
        (b"until 50500", 700, 500),
        (b"until 59000", 700, 700),
        (b"until 30000", 700, 0),
    ],
)
def test_the_shortest_lifetime_counts(
    token: bytes, max_reauth_ms: int, lifetime_ms: int | None
) -> None:
    for version in (0, 1):
        authenticator = started("SCRIPTED", max_reauth_ms=max_reauth_ms)
        done = authenticator.frame(authenticate(token, version))
        assert isinstance(done, Complete)
        told = (lifetime_ms or 0) if version else None
        assert read_authenticated(body(done), version).lifetime_ms == told
        assert done.identity == SaslIdentity("User:alice", "SCRIPTED", lifetime_ms, version == 1)


BEFORE = SaslIdentity("User:alice", "SCRIPTED", 1000, may_repeat=True)


def test_authenticating_again() -> None:
    done = started("SCRIPTED", before=BEFORE).frame(authenticate(b"as alice"))
    assert isinstance(done, Complete)
    assert done.identity.principal == "User:alice"


def test_nobody_becomes_somebody_else() -> None:
    """SE-45."""
    refused = started("SCRIPTED", before=BEFORE).frame(authenticate(b"as bob"))
    assert isinstance(refused, Refuse)
    told = read_authenticated(body(refused))
    assert told.error == 58
    assert told.message is not None
    assert "User:alice" in told.message
    assert "User:bob" in told.message


def test_another_mechanism_the_second_time() -> None:
    """SE-45: the handshake is answered, the message behind it is not."""
    assert isinstance(started("PLAIN", before=BEFORE).frame(authenticate(GOOD)), Drop)
    unknown = begin(BEFORE).frame(handshake("NOPE"))
    assert isinstance(unknown, Refuse)
    assert read_handshake(body(unknown)).error == 33
    assert isinstance(begin(BEFORE).frame(version_request(0)), Drop)


def test_the_error_of_every_api_can_be_written() -> None:
    """SE-18: whatever a client sends in the middle."""
    from groupd.protocol.wire.apis import API_BY_KEY

    for api in API_BY_KEY.values():
        for version in range(api.min_version, api.max_version + 1):
            if api.request_type is ApiVersionsRequest:
                continue
            for filler in (b"\0" * 200, b"\0\0\0\0" + b"\1" * 200):
                head = b"\0" if version >= api.flexible_from else b""
                action = started().frame(request(api.key, version, 1, head + filler))
                assert isinstance(action, Drop | Refuse), api.name
