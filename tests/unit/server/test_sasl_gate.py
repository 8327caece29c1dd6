"""The gate before a connection's requests: order, delays, deadlines, the end of a session."""

from __future__ import annotations

import asyncio
import gc
import struct
import weakref
from typing import Any

import pytest
from structlog.testing import capture_logs

from groupd.coordinator.config import CoordinatorConfig
from groupd.coordinator.core.types import Access
from groupd.coordinator.security.sasl.authenticator import Enabled
from groupd.coordinator.security.sasl.enabled import EnabledMechanisms
from groupd.coordinator.security.sasl.mechanism import (
    Authenticated,
    Challenge,
    Later,
    Rejected,
    Step,
)
from groupd.coordinator.server.client_session import KafkaEndpoint
from groupd.coordinator.server.connection import Connection
from groupd.coordinator.server.recent_failures import WINDOW_S, RecentFailures
from groupd.coordinator.server.sasl_endpoint import (
    Judge,
    SaslEndpoint,
)
from groupd.coordinator.server.slot import Slot
from groupd.protocol.messages.cluster import ApiVersionsReply
from tests.support.raw import api_versions, frame
from tests.support.sasl_frames import authenticate, handshake, read_authenticated
from tests.unit.server.harness import Client, FakeTransport, heartbeat, reply_to

ALICE = "User:alice"


class Scripted:
    """A mechanism whose messages are names of steps; "in-thread" and "bug" take theirs in a
    thread."""

    name = "TEST"

    def begin(self) -> Scripted:
        return self

    def respond(self, token: bytes) -> Step | Later:
        match token.split():
            case [b"more"]:
                return Challenge(b"go on")
            case [b"in-thread"]:
                return Later(lambda: Authenticated(b"", "alice"))
            case [b"bug"]:
                return Later(lambda: Rejected(*[]))
            case [b"as", name]:
                return Authenticated(b"", name.decode())
        return Rejected("told to the client", "wrong password")


class Named(Access):
    def __init__(self, principal: str) -> None:
        self.principal = principal


class Transport(FakeTransport):
    """A transport that knows the end of the stream, too."""

    ended = False

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        assert not self.aborted
        self.ended = True


class SaslClient(Client):
    """A connection whose client has to log in."""

    def __init__(self, reauth_ms: int = 0, **config: Any) -> None:
        self.reauth_ms = reauth_ms
        self.judge = Judge()
        self.failures: RecentFailures | None = None
        super().__init__(**config)
        self.at_once = True

    def connect(self) -> tuple[Transport, Connection]:
        if self.failures is None:
            self.failures = RecentFailures(
                self.config.authentication_failures_per_ip,
                10,
                lambda: self.clock.monotonic_ms() / 1000,
            )
        mechanisms = {"TEST": Enabled(Scripted(), self.reauth_ms)}
        endpoint = SaslEndpoint(
            "EXTERNAL",
            self.config,
            EnabledMechanisms(mechanisms, []),
            lambda version, request: ApiVersionsReply(api_keys=()),
            self.clock,
            self.stats.sasl,
            self.failures,
            self.judge,
        )
        kafka = KafkaEndpoint("EXTERNAL", lambda principal, host: Named(principal), endpoint)
        connection = Connection(
            self.config, self.clock, self, self.stats, self.registry, self.fairness, kafka
        )
        transport = Transport()
        transport.connection = connection
        connection.connection_made(transport)
        return transport, connection

    @property
    def principal(self) -> str:
        return self.connection.session.access.principal

    def login(self, token: bytes = b"as alice") -> None:
        self.send(frame(handshake("TEST")) + frame(authenticate(token)))

    def replies(self) -> list[bytes]:
        """What follows the correlation ids of the replies sent so far."""
        found, at, sent = [], 0, self.transport.sent
        while at < len(sent):
            (length,) = struct.unpack_from(">i", sent, at)
            found.append(sent[at + 8 : at + 4 + length])
            at += 4 + length
        return found

    def counted(self) -> dict[tuple[str, bool, bool], int]:
        """The number of logins by (mechanism, again, succeeded)."""
        return {key[1:]: count for key, count in self.stats.sasl.logins.items()}


async def test_nothing_reaches_the_broker_before_the_login() -> None:
    """SE-22: also what comes in the same write does not."""
    client = SaslClient()
    seen: list[str] = []
    submit = client.submit

    def noted(slot: Slot, api: Any, request: Any) -> None:
        seen.append(slot.connection.session.access.principal)
        submit(slot, api, request)

    client.submit = noted  # type: ignore[method-assign]
    assert client.principal == "User:ANONYMOUS"
    client.send(frame(api_versions(1)[4:]))
    client.send(frame(handshake("TEST")) + frame(authenticate(b"as alice")) + heartbeat(3))
    assert seen == [ALICE]
    assert len(client.replies()) == 4
    assert client.principal == ALICE
    assert client.connection.session.listener == "EXTERNAL"
    assert client.counted() == {("TEST", False, True): 1}


async def test_one_byte_at_a_time() -> None:
    """SE-84."""
    client = SaslClient()
    for byte in frame(handshake("TEST")) + frame(authenticate(b"as alice")) + heartbeat(3):
        client.send(bytes([byte]))
    assert client.pending() == [3]


async def test_frames_wait_while_a_token_is_judged() -> None:
    client = SaslClient()
    client.send(frame(handshake("TEST")))
    client.send(frame(authenticate(b"in-thread")) + heartbeat(3))
    assert client.pending() == []
    assert not client.transport.reading
    for _ in range(1000):
        await asyncio.sleep(0.001)
        if client.pending():
            break
    assert client.pending() == [3]
    assert client.principal == ALICE
    client.judge.close()


async def test_a_bug_in_a_mechanism_is_a_failed_login() -> None:
    client = SaslClient(connection_failed_authentication_delay_ms=0)
    client.login(b"bug")
    for _ in range(1000):
        await asyncio.sleep(0.001)
        if client.counted():
            break
    assert client.counted() == {("TEST", False, False): 1}
    client.judge.close()


async def test_a_failure_is_told_after_a_delay_and_before_the_end() -> None:
    """SE-23."""
    client = SaslClient()
    client.at_once = False
    with capture_logs() as lines:
        client.login(b"secret-token")
    assert lines == [
        {
            "event": "authentication failed",
            "log_level": "info",
            "client": "/10.0.0.7",
            "listener": "EXTERNAL",
            "mechanism": "TEST",
            "reason": "wrong password",
        }
    ]
    assert len(client.replies()) == 1
    assert not client.transport.reading
    client.send(heartbeat(3))
    client.clock.advance(99)
    assert len(client.replies()) == 1
    client.clock.advance(2)
    told = read_authenticated(client.replies()[1])
    assert (told.error, told.message) == (58, "told to the client")
    transport = client.transport
    assert isinstance(transport, Transport)
    assert transport.ended
    assert transport.reading, "unread input would make a reset of the end"
    assert not transport.aborted
    assert client.pending() == []
    client.clock.advance(10_000)
    assert transport.aborted


async def test_garbage_behind_a_failure_does_not_cost_the_answer() -> None:
    client = SaslClient()
    client.send(frame(handshake("TEST")) + frame(authenticate(b"wrong")) + b"x" * 100)
    client.clock.advance(101)
    assert read_authenticated(client.replies()[1]).error == 58


async def test_delays_do_not_add_up() -> None:
    """SE-23: each connection has its own."""
    client = SaslClient()
    others = [client.connect() for _ in range(100)]
    for _, connection in others:
        connection.data_received(frame(handshake("TEST")) + frame(authenticate(b"wrong")))
    client.clock.advance(101)
    assert all(isinstance(one, Transport) and one.ended for one, _ in others)
    client.login()
    assert client.principal == ALICE


async def test_garbage_is_closed_at_once() -> None:
    """SE-15."""
    client = SaslClient()
    client.send(heartbeat(1))
    assert client.transport.aborted
    assert client.transport.sent == b""
    assert client.counted() == {("", False, False): 1}


@pytest.mark.parametrize("size", [524289, -1, 2**31 - 1])
async def test_large_frames_before_the_login(size: int) -> None:
    """SE-83."""
    client = SaslClient()
    client.send(struct.pack(">i", size))
    assert client.transport.aborted
    assert client.transport.sent == b""


async def test_after_the_login_frames_may_be_large() -> None:
    client = SaslClient()
    client.login()
    client.send(struct.pack(">i", 1_000_000))
    assert not client.transport.aborted


async def test_a_login_has_a_deadline() -> None:
    client = SaslClient()
    client.send(frame(handshake("TEST")) + frame(authenticate(b"more")))
    client.clock.advance(29_999)
    assert not client.transport.aborted
    client.clock.advance(2)
    assert client.transport.aborted
    assert client.counted() == {("TEST", False, False): 1}


async def test_after_the_login_there_is_no_deadline() -> None:
    client = SaslClient()
    client.login()
    client.clock.advance(60_000)
    client.send(heartbeat(3))
    assert client.pending() == [3]


async def test_a_client_that_leaves_stops_all_timers() -> None:
    """SE-92."""
    client = SaslClient(reauth_ms=10_000)
    client.login(b"wrong")
    client.connection.connection_lost(None)
    client.transport, client.connection = client.connect()
    client.connection.connection_lost(None)
    client.transport, client.connection = client.connect()
    client.login()
    client.connection.connection_lost(None)
    with capture_logs() as lines:
        client.clock.advance(100_000)
    assert lines == []


@pytest.mark.parametrize("token", [None, b"more", b"wrong", b"as alice"])
async def test_nothing_is_left_of_a_connection(token: bytes | None) -> None:
    """SE-92: a serving process does not look for cycles."""
    client = SaslClient(reauth_ms=10_000)
    gc.collect()
    gc.disable()
    try:
        if token is not None:
            client.login(token)
        left = weakref.ref(client.connection)
        client.connection.connection_lost(None)
        client.transport.connection = None
        client.transport, client.connection = client.connect()
        # Cancelled timers stay in the clock of a test until their time comes.
        client.clock.advance(100_000)
        assert left() is None
    finally:
        gc.enable()


async def test_a_session_ends_at_the_next_request() -> None:
    """SE-44."""
    client = SaslClient(reauth_ms=10_000)
    client.login()
    assert read_authenticated(client.replies()[1]).lifetime_ms == 10_000
    client.clock.advance(9_999)
    client.send(heartbeat(3))
    client.clock.advance(1)
    transport = client.transport
    assert isinstance(transport, Transport)
    assert not transport.ended
    client.send(heartbeat(4))
    assert transport.ended
    assert client.pending() == [3]
    assert client.stats.sasl.expired == 1


class AlwaysLease:
    def renew(self) -> bool:
        return True


async def test_a_stored_reply_ends_with_the_session() -> None:
    """The quick way of a repeated heartbeat asks no gate."""
    client = SaslClient(reauth_ms=10_000)
    client.login()
    submit = client.submit

    def leased(slot: Slot, api: Any, request: Any) -> None:
        slot.may_repeat(AlwaysLease())
        submit(slot, api, request)

    client.submit = leased  # type: ignore[method-assign]
    client.send(heartbeat(3))
    client.send(heartbeat(4))
    assert client.pending() == [3], "the second one is answered with the first reply"
    client.clock.advance(10_000)
    client.send(heartbeat(5))
    transport = client.transport
    assert isinstance(transport, Transport)
    assert transport.ended
    assert len(client.replies()) == 4


async def test_a_reply_that_comes_after_the_session_is_not_stored() -> None:
    client = SaslClient(reauth_ms=10_000)
    client.login()
    client.at_once = False
    client.send(heartbeat(3))
    client.clock.advance(10_000)
    client.slots[0].may_repeat(AlwaysLease())
    client.slots[0].send(reply_to(client.slots[0]))
    assert len(client.connection.stored_replies) == 0


async def test_authenticating_again() -> None:
    client = SaslClient(reauth_ms=10_000)
    client.login()
    for _ in range(5):
        client.clock.advance(9_000)
        client.login()
        client.send(heartbeat(3))
    assert len(client.pending()) == 5
    assert client.counted() == {("TEST", False, True): 1, ("TEST", True, True): 5}


async def test_also_when_the_session_is_over() -> None:
    client = SaslClient(reauth_ms=10_000)
    client.login()
    client.clock.advance(60_000)
    client.login()
    client.send(heartbeat(3))
    assert client.pending() == [3]


async def test_only_the_login_goes_on_meanwhile() -> None:
    client = SaslClient(reauth_ms=10_000)
    client.login()
    client.clock.advance(2_000)
    client.send(frame(handshake("TEST")))
    client.send(heartbeat(3))
    assert client.pending() == []
    client.clock.advance(101)
    assert struct.unpack_from(">h", client.replies()[-1])[0] == 34
    assert client.counted() == {("TEST", False, True): 1, ("TEST", True, False): 1}


async def test_requests_before_it_are_answered_first() -> None:
    """SE-47."""
    client = SaslClient(reauth_ms=10_000)
    client.login()
    client.clock.advance(2_000)
    client.at_once = False
    client.send(heartbeat(3) + frame(handshake("TEST")))
    assert len(client.replies()) == 2
    await client.answer(3)
    await asyncio.sleep(0)
    assert len(client.replies()) == 4


async def test_twice_within_a_second_is_an_ordinary_request() -> None:
    """SE-46."""
    client = SaslClient(reauth_ms=10_000)
    client.login()
    client.login()
    client.at_once = False
    client.clock.advance(999)
    client.send(frame(handshake("TEST")))
    assert [slot.api.name for slot in client.slots] == ["SaslHandshake"]


async def test_without_a_lifetime_it_is_an_ordinary_request() -> None:
    """SE-46."""
    client = SaslClient()
    client.login()
    client.at_once = False
    client.send(frame(handshake("TEST")))
    assert [slot.api.name for slot in client.slots] == ["SaslHandshake"]


async def test_another_principal() -> None:
    """SE-45."""
    client = SaslClient(reauth_ms=10_000)
    client.login()
    client.clock.advance(2_000)
    client.login(b"as bob")
    assert client.principal == ALICE
    client.clock.advance(101)
    told = read_authenticated(client.replies()[-1])
    assert told.error == 58
    assert ALICE in str(told.message)


async def test_clients_that_cannot_authenticate_again_are_counted() -> None:
    """SE-93: they are told nothing, and end like all others."""
    client = SaslClient(reauth_ms=10_000)
    client.send(frame(handshake("TEST", 0)) + frame(b"as alice"))
    assert client.stats.sasl.no_reauthentication == 1
    client.clock.advance(10_000)
    client.send(heartbeat(3))
    assert client.pending() == []


async def test_an_address_that_fails_too_often_is_kept_out_for_a_while() -> None:
    """SE-91."""
    client = SaslClient(authentication_failures_per_ip=3)
    for _ in range(3):
        assert not client.transport.aborted
        client.login(b"wrong")
        client.transport, client.connection = client.connect()
    assert client.transport.aborted
    assert client.stats.refused == 1
    client.clock.advance(int(WINDOW_S * 1000))
    client.transport, client.connection = client.connect()
    client.login()
    assert client.principal == ALICE


async def test_who_leaves_in_the_middle_has_failed() -> None:
    client = SaslClient(authentication_failures_per_ip=1)
    client.send(frame(handshake("TEST")))
    client.connection.connection_lost(None)
    client.transport, client.connection = client.connect()
    assert not client.transport.aborted, "without a guess nothing is learned"
    client.login(b"more")
    client.connection.connection_lost(None)
    client.transport, client.connection = client.connect()
    assert client.transport.aborted


def test_the_defaults() -> None:
    config = CoordinatorConfig()
    assert config.sasl_server_max_receive_size == 524288
    assert config.connection_failed_authentication_delay_ms == 100
    assert config.connections_max_reauth_ms == 0
    assert config.oauthbearer_clock_skew_seconds == 30
