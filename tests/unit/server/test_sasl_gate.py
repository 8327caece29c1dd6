"""The gate before a connection's requests: order, delays, deadlines, the end of a session."""

from __future__ import annotations

import asyncio
import gc
import struct
import weakref
from typing import Any

import pytest
from structlog.testing import capture_logs

from groupd.coordinator.config.coordinator_config import CoordinatorConfig
from groupd.coordinator.core.types import Access
from groupd.coordinator.security.sasl.authenticator import Enabled
from groupd.coordinator.security.sasl.enabled import EnabledMechanisms
from groupd.coordinator.security.sasl.mechanisms import (
    Authenticated,
    Challenge,
    Later,
    Rejected,
    SaslStep,
)
from groupd.coordinator.server.client_session import KafkaEndpoint
from groupd.coordinator.server.connection import Connection
from groupd.coordinator.server.login_throttle import LoginThrottle
from groupd.coordinator.server.sasl_endpoint import SaslEndpoint
from groupd.coordinator.server.slot import Slot
from groupd.coordinator.server.token_verifier_thread import TokenVerifierThread
from groupd.protocol.messages.cluster import ApiVersionsReply
from tests.support.raw import api_versions, frame
from tests.support.sasl_frames import authenticate, handshake, read_authenticated
from tests.unit.server.harness import AlwaysValid, Client, FakeTransport, heartbeat, reply_to

ALICE = "User:alice"


class Scripted:
    """A mechanism whose messages are names of steps; "in-thread" and "bug" take theirs in a
    thread."""

    name = "TEST"

    def begin(self) -> Scripted:
        return self

    def respond(self, token: bytes) -> SaslStep | Later:
        match token.split():
            case [b"more"]:
                return Challenge(b"go on")
            case [b"in-thread"]:
                return Later(lambda: Authenticated(b"", "alice"))
            case [b"bug"]:
                return Later(lambda: Rejected(*[]))
            case [b"as", name]:
                return Authenticated(b"", name.decode())
            case [b"guess", name]:
                return Rejected("told to the client", "wrong password", name.decode())
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
        self.token_verifier = TokenVerifierThread()
        self.login_throttle: LoginThrottle | None = None
        super().__init__(**config)
        self.at_once = True

    def connect(self) -> tuple[Transport, Connection]:
        if self.login_throttle is None:
            self.login_throttle = LoginThrottle(self.config, self.clock.monotonic_ms)
        mechanisms = {"TEST": Enabled(Scripted(), self.reauth_ms)}
        endpoint = SaslEndpoint(
            "EXTERNAL",
            self.config,
            EnabledMechanisms(mechanisms, []),
            lambda version, request: ApiVersionsReply(api_keys=()),
            self.clock,
            self.stats.sasl,
            self.login_throttle,
            self.token_verifier,
        )
        kafka = KafkaEndpoint("EXTERNAL", lambda principal, host: Named(principal), endpoint)
        connection = Connection(
            self.config, self.clock, self, self.stats, self.registry, self.shared, kafka
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
    client.token_verifier.close()


async def test_a_token_that_waits_counts_and_goes_with_its_connection() -> None:
    client = SaslClient()
    first, second = client.connect()[1], client.connect()[1]
    token = b"in-thread" + b" " * 50_000
    for connection in (first, second):
        connection.data_received(frame(handshake("TEST")) + frame(authenticate(token)))
    assert client.token_verifier.waiting == 1
    assert client.shared.budget.used > 2 * 30_000
    second.connection_lost(None)
    assert client.token_verifier.waiting == 0
    assert client.shared.budget.used < 50_000
    client.token_verifier.close()


async def test_a_bug_in_a_mechanism_is_a_failed_login() -> None:
    client = SaslClient(connection_failed_authentication_delay_ms=0)
    client.login(b"bug")
    for _ in range(1000):
        await asyncio.sleep(0.001)
        if client.counted():
            break
    assert client.counted() == {("TEST", False, False): 1}
    client.token_verifier.close()


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


async def test_a_stored_reply_ends_with_the_session() -> None:
    """The quick way of a repeated heartbeat asks no gate."""
    client = SaslClient(reauth_ms=10_000)
    client.login()
    submit = client.submit

    def leased(slot: Slot, api: Any, request: Any) -> None:
        slot.may_repeat(AlwaysValid())
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
    client.slots[0].may_repeat(AlwaysValid())
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


class Guesser(SaslClient):
    """Each login has a connection of its own, from `host`."""

    def attempt(self, token: bytes, host: str = "10.0.0.7") -> tuple[Transport, Connection]:
        made = _, connection = self.connect()
        connection.host = f"/{host}"
        connection.data_received(frame(handshake("TEST")) + frame(authenticate(token)))
        return made

    def logs_in(self, token: bytes, host: str = "10.0.0.7", wait_ms: int = 0) -> bool:
        """Whether the client of a new connection is known, at once or after some time."""
        _, connection = self.attempt(token, host)
        self.clock.advance(wait_ms)
        return connection.session.access.principal == f"User:{token.split()[1].decode()}"


def answered(transport: Transport) -> bool:
    """Whether the client has got the answer to its password, behind that to the handshake."""
    return len(transport.sent) > 50


async def test_connections_made_before_do_not_help_a_guesser() -> None:
    client = Guesser(authentication_failures_per_user=5)
    connections = [client.connect() for _ in range(300)]
    for _, connection in connections:
        connection.data_received(frame(handshake("TEST")) + frame(authenticate(b"guess alice")))
    transport, right = client.attempt(b"as alice")
    client.clock.advance(101)
    assert sum(answered(one) for one, _ in connections) == 5
    assert isinstance(transport, Transport)
    assert not answered(transport)
    client.clock.advance(4_000)
    # One more each two seconds. The others got no answer, right or wrong.
    assert sum(answered(one) for one, _ in connections) == 6
    assert right.session.access.principal == "User:ANONYMOUS"
    assert transport.ended


async def test_a_guesser_at_one_user_keeps_no_other_user_out() -> None:
    client = Guesser(authentication_failures_per_user=5, authentication_failures_per_ip=50)
    for _ in range(550):
        client.attempt(b"guess alice")
    assert client.logs_in(b"as bob")
    assert client.logs_in(b"as alice", "10.0.0.8")
    assert not client.logs_in(b"as alice")
    client.clock.advance(10_000)
    assert client.logs_in(b"as alice"), "when nobody guesses any more"


async def test_who_is_right_and_who_is_wrong_wait_equally_long() -> None:
    client = Guesser(authentication_failures_per_user=20)
    for _ in range(20):
        client.attempt(b"guess alice")
    assert not client.logs_in(b"as alice", wait_ms=499)
    client.clock.advance(2)
    assert client.logs_in(b"as alice", wait_ms=1_000)
    wrong, _ = client.attempt(b"guess alice")
    client.clock.advance(101)
    assert answered(wrong)


async def test_many_users_of_one_address_keep_out_nobody_who_was_there_before() -> None:
    client = Guesser(authentication_failures_per_ip=50)
    assert client.logs_in(b"as bob")
    for number in range(550):
        client.attempt(b"guess user-%d" % number)
    assert client.logs_in(b"as bob")
    assert not client.logs_in(b"as carol")
    assert client.logs_in(b"as carol", "10.0.0.8")
    client.clock.advance(10_000)
    assert client.logs_in(b"as carol")


async def test_who_authenticates_again_as_itself_is_not_slowed_down() -> None:
    client = Guesser(reauth_ms=60_000, authentication_failures_per_user=1)
    client.login()
    for number in range(10):
        client.attempt(b"guess alice")
        client.attempt(b"guess user-%d" % number)
    client.clock.advance(2_000)
    client.login()
    assert client.counted()["TEST", True, True] == 1
    client.clock.advance(2_000)
    client.attempt(b"guess bob")
    client.login(b"as bob")
    assert len(client.replies()) == 5, "whether that was the password of bob is not told"


async def test_what_is_no_password_counts_for_nobody() -> None:
    client = Guesser(authentication_failures_per_ip=1, authentication_failures_per_user=1)
    for token in (b"wrong", b"more", b"bug"):
        _, connection = client.attempt(token)
        connection.connection_lost(None)
    assert client.logs_in(b"as alice")
    client.token_verifier.close()


def test_the_defaults() -> None:
    config = CoordinatorConfig()
    assert config.sasl_server_max_receive_size == 524288
    assert config.connection_failed_authentication_delay_ms == 100
    assert config.connections_max_reauth_ms == 0
    assert config.oauthbearer_clock_skew_seconds == 30
