"""Logins over TCP: SE-15 to SE-46, SE-48 (`docs/spec/security.md#2`)."""

from __future__ import annotations

import contextlib
import socket
import struct
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.request import urlopen

import pytest

from tests.support.daemon import Daemon
from tests.support.peer import running
from tests.support.raw import api_versions, frame, metadata, request
from tests.support.sasl_client import (
    PLAIN_ALICE,
    SaslConnection,
    add_users,
    bearer,
    sasl_daemon,
)
from tests.support.sasl_frames import (
    AuthenticateBody,
    authenticate,
    handshake,
    read_authenticated,
    read_handshake,
)
from tests.support.scram_client import ScramClient
from tests.support.tokens import message
from tests.support.wire_client import WireClient

pytestmark = pytest.mark.skipif(
    "os.environ.get('GROUPD_PEER') == 'kafka'", reason="settings of groupd"
)


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    with running(sasl_daemon(tmp_path_factory.mktemp("sasl"))) as made:
        add_users(made)
        yield made


@pytest.fixture
def connection(daemon: Daemon) -> Iterator[SaslConnection]:
    with SaslConnection(daemon.ports["sasl_plaintext"]) as made:
        yield made


def works(connection: SaslConnection) -> bool:
    """Whether Metadata is answered with the topic: then the client is known."""
    connection.send(metadata(77))
    correlation, body = connection.reply()
    return correlation == 77 and b"orders" in body


def ended(connection: SaslConnection) -> bool:
    """Whether the stream ends, with FIN: the reply before it was not lost."""
    return connection.socket.recv(1) == b""


# The state machine ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "first",
    [
        metadata(1),
        frame(request(0, 9, 1, b"\0")),
        frame(authenticate(PLAIN_ALICE)),
        frame(request(999, 0, 1)),
        struct.pack(">i", 524289),
        struct.pack(">i", -1),
    ],
)
def test_what_cannot_come_first(connection: SaslConnection, first: bytes) -> None:
    """SE-15, SE-83."""
    connection.send(first)
    assert connection.is_closed_by_peer()


def test_versions_may_be_asked_for_once(connection: SaslConnection) -> None:
    """SE-16."""
    connection.send(frame(request(18, 99, 1, b"\0")))
    assert connection.reply()[1][:2] == b"\0\x23"
    connection.send(frame(request(18, 3, 2, b"\0\x04a b\x021\0")))
    assert connection.reply()[1][:2] == b"\0\x2a"
    connection.send(frame(request(18, 3, 3, b"\0\x02a\x021\0")))
    assert connection.reply()[1][:2] == b"\0\0"
    assert connection.plain().error == 0
    assert works(connection)


def test_versions_twice(connection: SaslConnection) -> None:
    """SE-16."""
    assert connection.works()
    connection.send(api_versions(2))
    assert connection.is_closed_by_peer()


@pytest.mark.parametrize("mechanism", ["NOPE", "plain", "GSSAPI"])
def test_other_mechanisms(connection: SaslConnection, mechanism: str) -> None:
    """SE-17."""
    refused = connection.handshake(mechanism)
    assert refused.error == 33
    assert refused.mechanisms == ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"]
    assert ended(connection)


@pytest.mark.parametrize(
    ("other", "at"),
    [(metadata(5, ("orders",)), 12), (api_versions(5), 0), (frame(handshake("PLAIN")), 0)],
)
def test_other_requests_in_the_middle(connection: SaslConnection, other: bytes, at: int) -> None:
    """SE-18."""
    assert connection.handshake("PLAIN").error == 0
    connection.send(other)
    assert struct.unpack_from(">h", connection.reply()[1], at)[0] == 34
    assert ended(connection)


@pytest.mark.parametrize("other", [request(36, 9, 1, bytes(9)), authenticate(None)])
def test_broken_requests_in_the_middle(connection: SaslConnection, other: bytes) -> None:
    """SE-19."""
    assert connection.handshake("PLAIN").error == 0
    connection.send(frame(other))
    assert connection.is_closed_by_peer()


def test_bare_messages(connection: SaslConnection) -> None:
    """SE-20."""
    assert connection.handshake("PLAIN", 0).error == 0
    connection.send(frame(PLAIN_ALICE))
    assert connection.frame() == b""
    assert works(connection)


def test_bare_messages_of_scram(connection: SaslConnection) -> None:
    """SE-20."""
    assert connection.handshake("SCRAM-SHA-256", 0).error == 0
    client = ScramClient("SCRAM-SHA-256", "alice", "alice-pw")
    connection.send(frame(client.first()))
    connection.send(frame(client.final(connection.frame())))
    assert client.verifies(connection.frame())
    assert works(connection)


def test_a_bare_failure(connection: SaslConnection) -> None:
    """SE-20."""
    assert connection.handshake("PLAIN", 0).error == 0
    connection.send(frame(b"\0alice\0wrong"))
    assert connection.is_closed_by_peer()


def test_logins_where_nobody_logs_in(daemon: Daemon, connection: SaslConnection) -> None:
    """SE-21, SE-34, SE-46."""
    assert connection.plain().lifetime_ms == 0
    with SaslConnection(daemon.port) as plaintext:
        for known in (connection, plaintext):
            assert known.handshake("PLAIN").error == 34
            refused = known.authenticate(PLAIN_ALICE)
            assert (refused.error, bool(refused.message)) == (34, True)
            assert works(known)


def test_everything_in_one_write(connection: SaslConnection) -> None:
    """SE-22."""
    connection.send(
        frame(handshake("PLAIN")) + frame(authenticate(PLAIN_ALICE)) + metadata(3) + metadata(4)
    )
    assert read_handshake(connection.reply()[1]).error == 0
    assert read_authenticated(connection.reply()[1]).error == 0
    assert [connection.reply()[0] for _ in range(2)] == [3, 4]


def test_a_failure_comes_late_and_whole(connection: SaslConnection) -> None:
    """SE-23. What the client sends meanwhile does not make a reset of the end."""
    connection.handshake("PLAIN")
    before = time.monotonic()
    connection.send(frame(authenticate(b"\0alice\0wrong")) + metadata(4) * 100)
    assert read_authenticated(connection.reply()[1]).error == 58
    assert time.monotonic() - before >= 0.1
    assert ended(connection)


def test_the_list_of_apis_is_the_same(daemon: Daemon, connection: SaslConnection) -> None:
    """SE-24."""
    found = []
    connection.send(api_versions(1))
    found.append(connection.reply()[1])
    connection.plain()
    connection.send(api_versions(2))
    found.append(connection.reply()[1])
    with SaslConnection(daemon.port) as plaintext:
        plaintext.send(api_versions(3))
        found.append(plaintext.reply()[1])
    assert found[0] == found[1] == found[2]
    with WireClient("127.0.0.1", daemon.port) as client:
        keys = {one["api_key"] for one in client.call("ApiVersions", 0)["api_keys"]}
    assert {17, 36} <= keys


# Mechanisms ---------------------------------------------------------------------------------


@pytest.mark.parametrize("token", [PLAIN_ALICE, b"alice" + PLAIN_ALICE])
def test_plain(connection: SaslConnection, token: bytes) -> None:
    """SE-25."""
    assert connection.plain(token) == AuthenticateBody(0, None, b"", 0)
    assert works(connection)


@pytest.mark.parametrize(
    "token",
    [
        b"bob" + PLAIN_ALICE,
        PLAIN_ALICE[1:],
        PLAIN_ALICE + b"\0",
        b"\0\0alice-pw",
        b"\0alice\0",
        b"\0nobody\0alice-pw",
        b"",
    ],
)
def test_bad_plain(connection: SaslConnection, token: bytes) -> None:
    """SE-25."""
    assert connection.plain(token).error == 58
    assert ended(connection)


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
@pytest.mark.parametrize(
    ("user", "password", "error"),
    [
        ("alice", "alice-pw", 0),
        ("alice", "wrong", 58),
        ("nobody", "alice-pw", 58),
        ("a=3Db=2Cc", "odd-pw", 0),
        ("a=b=2Cc", "odd-pw", 58),
    ],
)
def test_scram(
    connection: SaslConnection, mechanism: str, user: str, password: str, error: int
) -> None:
    """SE-27, SE-30, SE-32."""
    assert connection.scram(mechanism, user, password).error == error
    assert ended(connection) if error else works(connection)


def test_oauthbearer(connection: SaslConnection) -> None:
    """SE-35."""
    connection.handshake("OAUTHBEARER")
    done = connection.authenticate(bearer(600))
    assert done.error == 0
    assert done.lifetime_ms is not None
    assert 590_000 < done.lifetime_ms <= 600_000
    assert works(connection)


def test_a_bad_token(connection: SaslConnection) -> None:
    """SE-36."""
    connection.handshake("OAUTHBEARER")
    refused = connection.authenticate(message("a.b.c"))
    assert refused == AuthenticateBody(0, None, b'{"status":"invalid_token"}', 0)
    last = connection.authenticate(b"\x01")
    assert (last.error, last.message) == (58, '{"status":"invalid_token"}')
    assert ended(connection)


def test_clients_that_take_the_refusal_for_success(connection: SaslConnection) -> None:
    """SE-40."""
    connection.handshake("OAUTHBEARER")
    assert connection.authenticate(message("a.b.c")).error == 0
    connection.send(metadata(5, ("orders",)))
    assert struct.unpack_from(">h", connection.reply()[1], 12)[0] == 34
    assert ended(connection)


def test_a_token_that_has_just_expired(connection: SaslConnection) -> None:
    """SE-38: within the skew it counts, but only once."""
    connection.handshake("OAUTHBEARER")
    done = connection.authenticate(bearer(-20))
    assert (done.error, done.lifetime_ms) == (0, 0)
    connection.send(metadata(5))
    assert connection.is_closed_by_peer()


def test_long_tokens(daemon: Daemon, connection: SaslConnection) -> None:
    """SE-41."""
    connection.handshake("OAUTHBEARER")
    assert connection.authenticate(message("a." + "b" * 60_000 + ".c")).error == 0
    with SaslConnection(daemon.ports["sasl_plaintext"]) as other:
        other.handshake("OAUTHBEARER")
        with contextlib.suppress(ConnectionError):
            other.send(frame(authenticate(bytes(600_000))))
        assert other.is_closed_by_peer()


# Again --------------------------------------------------------------------------------------

SESSION_MAX_S = 60.0
"""A session of two seconds is over by then, however busy the machine is."""


def short(daemon: Daemon) -> SaslConnection:
    return SaslConnection(daemon.ports["short"])


def test_authenticating_again(daemon: Daemon) -> None:
    """SE-43, SE-46."""
    with short(daemon) as connection:
        assert connection.plain().lifetime_ms == 2000
        assert connection.plain().lifetime_ms == 2000
        assert works(connection)
        assert connection.handshake("PLAIN").error == 34
        assert works(connection)


def test_as_somebody_else(daemon: Daemon) -> None:
    """SE-45."""
    with short(daemon) as connection:
        connection.plain()
        refused = connection.plain(b"\0bob\0bob-pw")
        assert refused.error == 58
        assert refused.message is not None
        assert "User:alice" in refused.message
        assert "User:bob" in refused.message
        assert ended(connection)


@pytest.mark.parametrize(("mechanism", "error"), [("SCRAM-SHA-256", 0), ("NOPE", 33)])
def test_by_another_mechanism(daemon: Daemon, mechanism: str, error: int) -> None:
    """SE-45."""
    with short(daemon) as connection:
        connection.plain()
        assert connection.handshake(mechanism).error == error
        if not error:
            connection.send(frame(authenticate(b"n,,n=alice,r=x")))
        assert connection.is_closed_by_peer()


def metric(daemon: Daemon, name: str) -> float:
    """The sum over all labels."""
    with urlopen(f"{daemon.admin_url}/metrics") as page:
        lines = page.read().decode().splitlines()
    return sum(float(line.split()[-1]) for line in lines if line.startswith(name))


def ends(connection: SaslConnection) -> bool:
    """Asks until the session is over: requests before that are answered, the first one after it is
    not. How long that takes is the daemon's affair: it leaves out time in which it stood still."""
    until = time.monotonic() + SESSION_MAX_S
    while time.monotonic() < until:
        connection.send(metadata(9))
        if not connection.socket.recv(1, socket.MSG_PEEK):
            return True
        assert connection.reply()[0] == 9
        time.sleep(0.05)
    return False


def test_the_end_of_sessions(daemon: Daemon) -> None:
    """SE-44, SE-47, SE-93: at the next request, also for clients that are not told."""
    before = metric(daemon, "groupd_expired_connections_killed_total")
    began = time.monotonic()
    with short(daemon) as late, short(daemon) as told, short(daemon) as bare:
        late.plain()
        told.plain()
        bare.handshake("PLAIN", 0)
        bare.send(frame(PLAIN_ALICE))
        assert bare.frame() == b""
        assert ends(told)
        assert ends(bare)
        assert time.monotonic() - began > 1.9
        # Its session was over before theirs. What follows comes in one write, because the next
        # session ends soon, too.
        again = frame(handshake("PLAIN")) + frame(authenticate(PLAIN_ALICE)) + metadata(77)
        late.send(again)
        assert read_handshake(late.reply()[1]).error == 0
        assert read_authenticated(late.reply()[1]).error == 0
        assert late.reply()[0] == 77
    assert metric(daemon, "groupd_expired_connections_killed_total") == before + 2
    assert metric(daemon, "groupd_authentications_without_reauthentication_total") >= 1


def test_a_deleted_user(daemon: Daemon) -> None:
    """SE-48, SE-33."""
    add_users(daemon, {"carol": "carol-pw"})
    with short(daemon) as connection:
        assert connection.scram("SCRAM-SHA-256", "carol", "carol-pw").error == 0
        with WireClient("127.0.0.1", daemon.port) as client:
            deletions = [{"name": "carol", "mechanism": 1}]
            reply = client.call("AlterUserScramCredentials", 0, deletions=deletions, upsertions=[])
            assert reply["results"][0]["error_code"] == 0
        assert works(connection)
        assert connection.scram("SCRAM-SHA-256", "carol", "carol-pw").error == 58
        assert ended(connection)


# All together -------------------------------------------------------------------------------


def test_clients_that_leave_in_every_state(daemon: Daemon) -> None:
    """SE-92."""
    login = frame(handshake("SCRAM-SHA-256"))
    login += frame(authenticate(b"n,,n=alice,r=x"))
    for reset in (False, True):
        for count in range(0, len(login) + 1, 7):
            with SaslConnection(daemon.ports["sasl_plaintext"]) as connection:
                connection.send(login[:count])
                if reset:
                    linger = struct.pack("ii", 1, 0)
                    connection.socket.setsockopt(1, 13, linger)
    with SaslConnection(daemon.ports["sasl_plaintext"]) as connection:
        assert connection.plain().error == 0
    assert "Traceback" not in daemon.logs()


def test_the_log_tells_who_failed_and_why_and_no_secret(daemon: Daemon) -> None:
    """SE-95, for logins."""
    with SaslConnection(daemon.ports["sasl_plaintext"]) as connection:
        assert connection.plain(b"\0alice\0a-wrong-password").error == 58
    text = (daemon.directory / "groupd.log").read_text()
    assert "authentication failed" in text
    assert "unknown user or wrong password" in text
    assert "passwords cross the network unencrypted" in text
    for secret in ("alice-pw", "a-wrong-password", "bob-pw", "eyJ"):
        assert secret not in text
    assert metric(daemon, "groupd_authentications_total") >= 1


def test_a_start_that_is_refused(tmp_path: Path) -> None:
    """SE-42: one line, exit code 2. `tests/unit/security/test_enabled.py` has the others."""
    daemon = sasl_daemon(tmp_path, **{"sasl.oauthbearer.jwks.endpoint.url": ""})
    with pytest.raises(AssertionError, match="no ready line"):
        daemon.start()
    assert daemon.process.wait_exit(5) == 2
    logged = (tmp_path / "groupd.log").read_text()
    assert "groupd: sasl.oauthbearer.jwks.endpoint.url" in logged
    assert "Traceback" not in logged
    daemon.close()
