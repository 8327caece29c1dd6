"""A connection to a broker: requests under way, versions, limits, deadlines, logins, and answers
that are none."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from typing import Any

import pytest

from groupd.client import connection as client
from groupd.client.connection import (
    UNPROTECTED,
    ClientSecurity,
    ConnectionLimits,
    KafkaConnection,
)
from groupd.client.errors import FAILED, REFUSED, TIMEOUT, CallFailed, LoginFailed, NotOffered
from groupd.client.sasl import SaslLogin, SaslTokens, bearer_login, password_login
from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages.cluster import ApiRange
from groupd.protocol.messages.groups import (
    DeletedGroup,
    DeleteGroupsReply,
    DeleteGroupsRequest,
    ListGroupsReply,
    ListGroupsRequest,
)
from groupd.protocol.messages.sasl import (
    SaslAuthenticateReply,
    SaslAuthenticateRequest,
    SaslHandshakeReply,
    SaslHandshakeRequest,
)
from groupd.protocol.messages.secret import Secret
from tests.support.fake_broker import FakeBroker, FakeNetwork, settle
from tests.support.manual_clock import ManualClock

LIMITS = ConnectionLimits(
    frame_bytes=1000, requests=3, request_bytes=1000, connect_ms=3000, timeout_ms=10_000
)


def deleted(request: Any) -> Any:
    return DeleteGroupsReply(tuple(DeletedGroup(name) for name in request.group_ids))


class Client:
    """Makes connections to one broker, which is `broker:1`."""

    def __init__(self, network: FakeNetwork) -> None:
        self.network = network
        self.clock = ManualClock()
        self.broker = network.brokers[1] = FakeBroker(deleted)

    def make(
        self, security: ClientSecurity = UNPROTECTED, limits: ConnectionLimits = LIMITS
    ) -> KafkaConnection:
        return KafkaConnection("broker:1", "test", self.clock, security, limits)

    async def open(self, security: ClientSecurity = UNPROTECTED) -> KafkaConnection:
        made = self.make(security)
        await made.open("broker", 1)
        return made


@pytest.fixture
async def kafka(monkeypatch: pytest.MonkeyPatch) -> Client:
    return Client(FakeNetwork(monkeypatch))


def delete(connection: KafkaConnection, name: str) -> asyncio.Task[Any]:
    return asyncio.ensure_future(connection.call(DeleteGroupsRequest((name,))))


async def name_in(task: asyncio.Task[Any]) -> str:
    reply: DeleteGroupsReply = await task
    return reply.results[0].group_id


async def failure(task: Any) -> CallFailed:
    with pytest.raises(CallFailed) as failed:
        await task
    return failed.value


# Requests and replies -----------------------------------------------------------------------


async def test_requests_are_under_way_together(kafka: Client) -> None:
    connection = await kafka.open()
    kafka.broker.hold()
    tasks = [delete(connection, name) for name in "abc"]
    await settle()
    assert [one.group_ids for one in kafka.broker.requests] == [("a",), ("b",), ("c",)]
    assert connection.under_way == 3
    kafka.broker.release()
    assert [await name_in(task) for task in tasks] == ["a", "b", "c"]
    assert connection.under_way == 0


@pytest.mark.parametrize("chunk", [1, 3, 7])
async def test_replies_in_pieces(kafka: Client, chunk: int) -> None:
    kafka.broker.chunk = chunk
    connection = await kafka.open()
    assert await name_in(delete(connection, "a")) == "a"


async def test_several_replies_at_once(kafka: Client) -> None:
    connection = await kafka.open()
    kafka.broker.hold()
    tasks = [delete(connection, name) for name in "abc"]
    await settle()
    (transport,) = kafka.broker.connections
    answers: list[bytes] = []
    transport.answer = answers.append  # type: ignore[assignment]
    kafka.broker.release()
    connection.data_received(b"".join(answers))
    assert [await name_in(task) for task in tasks] == ["a", "b", "c"]


async def test_the_highest_version_that_both_have(kafka: Client) -> None:
    kafka.broker.ranges = (ApiRange(42, 0, 1), ApiRange(16, 3, 90), ApiRange(32, 0, 0))
    kafka.broker.answer = lambda request: (
        deleted(request) if isinstance(request, DeleteGroupsRequest) else ListGroupsReply()
    )
    connection = await kafka.open()
    await connection.call(DeleteGroupsRequest(("a",)))
    await connection.call(DeleteGroupsRequest(("a",)), 0)
    await connection.call(ListGroupsRequest())
    await connection.call(ListGroupsRequest(), 3)
    assert kafka.broker.versions == [1, 0, 5, 3]


async def test_what_the_broker_does_not_offer(kafka: Client) -> None:
    kafka.broker.ranges = (ApiRange(42, 0, 1), ApiRange(16, 90, 91))
    connection = await kafka.open()
    for request, version, named in (
        (DeleteGroupsRequest(("a",)), 2, "DeleteGroups v2"),
        (ListGroupsRequest(), None, "ListGroups v0-5"),
        (SaslHandshakeRequest("PLAIN"), 1, "SaslHandshake v1"),
    ):
        with pytest.raises(NotOffered, match=f"^broker:1 does not offer {named}$"):
            await connection.call(request, version)
    assert kafka.broker.requests == []
    assert connection.usable


async def test_a_caller_that_goes_away(kafka: Client) -> None:
    connection = await kafka.open()
    kafka.broker.hold()
    first, second = delete(connection, "a"), delete(connection, "b")
    await settle()
    first.cancel()
    await settle()
    assert connection.under_way == 2, "its reply is still to come"
    kafka.broker.release()
    assert await name_in(second) == "b"


# Limits and deadlines -----------------------------------------------------------------------


async def test_too_many_requests_are_refused(kafka: Client) -> None:
    connection = await kafka.open()
    kafka.broker.hold()
    tasks = [delete(connection, name) for name in "abc"]
    await settle()
    assert (await failure(delete(connection, "d"))).outcome == REFUSED
    kafka.broker.release()
    assert [await name_in(task) for task in tasks] == ["a", "b", "c"]
    assert await name_in(delete(connection, "e")) == "e"


async def test_too_many_bytes_are_refused(kafka: Client) -> None:
    connection = await kafka.open()
    kafka.broker.hold()
    long = delete(connection, "a" * 1000)
    await settle()
    assert (await failure(delete(connection, "b"))).outcome == REFUSED
    assert len(kafka.broker.requests) == 1
    connection.close("the test is over")
    await failure(long)


async def test_a_reply_that_does_not_come(kafka: Client) -> None:
    connection = await kafka.open()
    kafka.broker.hold()
    first = delete(connection, "a")
    await settle()
    kafka.clock.advance(9_999)
    second = delete(connection, "b")
    await settle()
    assert not first.done()
    kafka.clock.advance(1)
    errors = [await failure(first), await failure(second)]
    assert [one.outcome for one in errors] == [TIMEOUT, TIMEOUT]
    assert str(errors[0]) == "broker:1 did not answer DeleteGroups: timed out"
    assert (connection.usable, kafka.broker.open) == (False, 0)
    assert str(await failure(delete(connection, "c"))) == str(errors[0])


async def test_the_deadline_is_that_of_the_oldest_request(kafka: Client) -> None:
    connection = await kafka.open()
    assert await name_in(delete(connection, "a")) == "a"
    kafka.clock.advance(6_000)
    kafka.broker.hold()
    waits = delete(connection, "b")
    await settle()
    kafka.clock.advance(6_000)
    await settle()
    assert not waits.done()
    kafka.clock.advance(4_000)
    assert (await failure(waits)).outcome == TIMEOUT
    assert kafka.clock.next_timer_ms() is None


async def test_a_reply_longer_than_the_limit(kafka: Client) -> None:
    connection = await kafka.open()
    kafka.broker.hold()
    task = delete(connection, "a")
    await settle()
    kafka.broker.connections[0].answer((1001).to_bytes(4))
    error = await failure(task)
    assert "does not speak Kafka's protocol (frame of 1001 bytes, the limit is 1000)" in str(error)
    assert kafka.broker.open == 0


# Answers that are none ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"\xff\xff\xff\xff", "does not speak Kafka's protocol"),
        (b"HTTP/1.1 400 Bad Request\r\n", "does not speak Kafka's protocol"),
        (b"\x00\x00\x00\x02\x00\x00", "replies out of order"),
        (b"\x00\x00\x00\x04\x00\x00\x00\x63", "replies out of order"),
        (b"\x00\x00\x00\x04\x00\x00\x00\x02", "answer to DeleteGroups not understood: header"),
        (b"\x00\x00\x00\x05\x00\x00\x00\x02\x00", "answer to DeleteGroups not understood: it ends"),
    ],
)
async def test_bytes_that_are_no_reply(kafka: Client, data: bytes, words: str) -> None:
    connection = await kafka.open()
    kafka.broker.hold()
    first, second = delete(connection, "a"), delete(connection, "b")
    await settle()
    kafka.broker.connections[0].answer(data)
    errors = [await failure(first), await failure(second)]
    assert all(str(one).startswith("broker:1") and words in str(one) for one in errors)
    assert {one.outcome for one in errors} == {FAILED}
    assert (connection.usable, kafka.broker.open) == (False, 0)


async def test_a_reply_that_nobody_has_asked_for(kafka: Client) -> None:
    connection = await kafka.open()
    kafka.broker.connections[0].answer(b"\x00\x00\x00\x04\x00\x00\x00\x63")
    await settle()
    assert (connection.usable, kafka.broker.open) == (False, 0)


async def test_a_connection_that_is_lost(kafka: Client) -> None:
    connection = await kafka.open()
    kafka.broker.hold()
    tasks = [delete(connection, "a"), delete(connection, "b")]
    await settle()
    kafka.broker.cut()
    errors = [await failure(task) for task in tasks]
    assert str(errors[0]) == "broker:1 did not answer DeleteGroups: the connection was closed"
    assert all(isinstance(one.__cause__, ConnectionResetError) for one in errors)
    again = await kafka.open()
    refused = ssl.SSLError(1, "[SSL: TLSV13_ALERT_CERTIFICATE_REQUIRED]")
    refused.reason = "TLSV13_ALERT_CERTIFICATE_REQUIRED"
    kafka.broker.cut(refused)
    assert str(await failure(delete(again, "c"))).endswith(
        "tlsv13 alert certificate required; does the broker want a certificate "
        "(ssl.keystore.location)?"
    )


async def test_a_retired_connection_closes_behind_the_last_reply(kafka: Client) -> None:
    connection = await kafka.open()
    kafka.broker.hold()
    task = delete(connection, "a")
    await settle()
    connection.retire()
    assert (connection.usable, kafka.broker.open) == (False, 1)
    kafka.broker.release()
    assert await name_in(task) == "a"
    assert kafka.broker.open == 0
    idle = await kafka.open()
    idle.retire()
    assert kafka.broker.open == 0


# Opening ------------------------------------------------------------------------------------


async def test_nobody_listens(kafka: Client) -> None:
    kafka.network.brokers.clear()
    error = await failure(kafka.open())
    assert str(error) == "no Kafka broker at broker:1: Connection refused"
    assert error.outcome == FAILED


@pytest.mark.parametrize("takes", [False, True])
async def test_no_connection_in_time(kafka: Client, *, takes: bool) -> None:
    """With `takes` the broker takes the connection, but answers nothing."""
    kafka.broker.silent, kafka.broker.mute = not takes, takes
    opening = asyncio.ensure_future(kafka.open())
    await settle()
    kafka.clock.advance(2_999)
    await settle()
    assert not opening.done()
    kafka.clock.advance(1)
    error = await failure(opening)
    waited_for = "broker:1 did not answer ApiVersions" if takes else "no Kafka broker at broker:1"
    assert str(error) == f"{waited_for}: timed out"
    assert (error.outcome, kafka.broker.open) == (TIMEOUT, 0)
    assert kafka.clock.next_timer_ms() is None


async def test_closed_while_it_opens(kafka: Client) -> None:
    kafka.broker.silent = True
    connection = kafka.make()
    opening = asyncio.ensure_future(connection.open("broker", 1))
    await settle()
    connection.close("not wanted")
    assert str(await failure(opening)) == "no Kafka broker at broker:1: not wanted"
    before = kafka.make()
    before.close("not wanted")
    assert str(await failure(before.open("broker", 1))).endswith("not wanted")
    assert kafka.network.tried == 1


@pytest.mark.parametrize("takes", [False, True])
async def test_whoever_opens_it_goes_away(kafka: Client, *, takes: bool) -> None:
    kafka.broker.silent, kafka.broker.mute = not takes, takes
    opening = asyncio.ensure_future(kafka.open())
    await settle()
    opening.cancel()
    with pytest.raises(asyncio.CancelledError):
        await opening
    assert kafka.broker.open == 0
    assert kafka.clock.next_timer_ms() is None


def untrusted(code: int) -> ssl.SSLCertVerificationError:
    error = ssl.SSLCertVerificationError(1, "certificate verify failed")
    error.verify_code, error.verify_message = code, "unable to get local issuer certificate"
    return error


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (ConnectionResetError(104, "x"), "Connection reset by peer; does this port speak TLS?"),
        (
            untrusted(20),
            "unable to get local issuer certificate; is its CA in ssl.truststore.location?",
        ),
        (untrusted(10), "unable to get local issuer certificate"),
    ],
)
async def test_no_tls(kafka: Client, error: OSError, words: str) -> None:
    kafka.broker.tls_error = error
    security = ClientSecurity(tls=ssl.create_default_context)
    assert str(await failure(kafka.open(security))) == f"no TLS with broker:1: {words}"


# Logins -------------------------------------------------------------------------------------


def logins(
    *answers: bytes | ErrorCode, lifetime_ms: int = 0, message: str | None = "no such user"
) -> Callable[[Any], Any]:
    """Has PLAIN, SCRAM-SHA-256 and OAUTHBEARER. `answers`: to each token; a code refuses."""
    left = list(answers)

    def answer(request: Any) -> Any:
        if isinstance(request, SaslHandshakeRequest):
            return SaslHandshakeReply(mechanisms=("PLAIN", "SCRAM-SHA-256", "OAUTHBEARER"))
        if isinstance(request, SaslAuthenticateRequest):
            said = left.pop(0)
            if isinstance(said, ErrorCode):
                return SaslAuthenticateReply(said, message)
            return SaslAuthenticateReply(auth_bytes=Secret(said), session_lifetime_ms=lifetime_ms)
        return deleted(request)

    return answer


PLAIN = ClientSecurity(login=password_login("PLAIN", "alice", "secret"))


async def opened(kafka: Client, security: ClientSecurity) -> KafkaConnection:
    """A login has a thread, so it takes real time."""
    async with asyncio.timeout(10):
        return await kafka.open(security)


async def test_a_login(kafka: Client) -> None:
    kafka.broker.answer = logins(b"")
    connection = await opened(kafka, PLAIN)
    handshake, authenticate = kafka.broker.requests
    assert handshake == SaslHandshakeRequest("PLAIN")
    assert bytes(authenticate.auth_bytes) == b"\0alice\0secret"
    kafka.clock.advance(10**9)
    assert connection.usable, "it never ends"


async def test_a_login_with_several_tokens(kafka: Client) -> None:
    def tokens() -> SaslTokens:
        assert (yield b"one") == b"go on"
        assert (yield b"two") == b"done"

    kafka.broker.answer = logins(b"go on", b"done")
    await opened(kafka, ClientSecurity(login=SaslLogin("SCRAM-SHA-256", tokens)))
    assert [bytes(one.auth_bytes) for one in kafka.broker.requests[1:]] == [b"one", b"two"]


async def test_a_connection_is_not_used_to_the_end_of_its_login(kafka: Client) -> None:
    kafka.broker.answer = logins(b"", lifetime_ms=10_000)
    connection = await opened(kafka, PLAIN)
    kafka.clock.advance(8_499)
    assert connection.usable
    kafka.clock.advance(1)
    assert not connection.usable


@pytest.mark.parametrize(
    ("message", "words"), [("no such user", "no such user"), (None, "SASL_AUTHENTICATION_FAILED")]
)
async def test_a_login_that_is_refused(kafka: Client, message: str | None, words: str) -> None:
    kafka.broker.answer = logins(ErrorCode.SASL_AUTHENTICATION_FAILED, message=message)
    with pytest.raises(LoginFailed, match=f"^broker:1 refused the login: {words}$"):
        await opened(kafka, PLAIN)
    assert kafka.broker.open == 0


async def test_a_token_that_is_refused(kafka: Client) -> None:
    kafka.broker.answer = logins(b"{}", ErrorCode.SASL_AUTHENTICATION_FAILED)
    with pytest.raises(LoginFailed, match="broker:1 refused the login: no such user"):
        await opened(kafka, ClientSecurity(login=bearer_login("aa.bb.cc")))
    assert bytes(kafka.broker.requests[2].auth_bytes) == b"\x01"


async def test_a_broker_that_does_not_know_the_password(kafka: Client) -> None:
    kafka.broker.answer = logins(b"nothing")
    scram = ClientSecurity(login=password_login("SCRAM-SHA-256", "alice", "secret"))
    with pytest.raises(LoginFailed, match=r"^broker:1 does not answer as SCRAM does$"):
        await opened(kafka, scram)
    assert kafka.broker.open == 0


@pytest.mark.parametrize(
    ("code", "mechanisms", "words"),
    [
        (33, ("SCRAM-SHA-512",), "broker:1 does not know PLAIN, but SCRAM-SHA-512"),
        (34, (), "broker:1 has no logins"),
    ],
)
async def test_mechanisms_that_do_not_fit(
    kafka: Client, code: int, mechanisms: tuple[str, ...], words: str
) -> None:
    kafka.broker.answer = lambda _: SaslHandshakeReply(ErrorCode(code), mechanisms)
    with pytest.raises(LoginFailed, match=words):
        await opened(kafka, PLAIN)


# Sockets ------------------------------------------------------------------------------------


async def test_the_first_address_that_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    """`localhost` is often an address of IPv6 first, at which nobody listens."""
    loop = asyncio.get_running_loop()
    server = await loop.create_server(asyncio.Protocol, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    found = await loop.getaddrinfo("127.0.0.1", port, type=client.socket.SOCK_STREAM)
    nobody = await loop.getaddrinfo("127.0.0.1", 1, type=client.socket.SOCK_STREAM)

    async def both(*_: Any, **__: Any) -> Any:
        return [*nobody, *found]

    async def none(*_: Any, **__: Any) -> Any:
        return nobody

    monkeypatch.setattr(loop, "getaddrinfo", both)
    connected = await client.connected_socket("localhost", port)
    assert connected.getpeername() == ("127.0.0.1", port)
    connected.close()
    monkeypatch.setattr(loop, "getaddrinfo", none)
    with pytest.raises(ConnectionRefusedError):
        await client.connected_socket("localhost", port)
    server.close()
