"""Who guesses passwords, or sends tokens that nobody has signed, keeps no others out, over TCP
(`docs/spec/security.md#2.2`). The figures of unit tests stand in `tests/unit/server`."""

from __future__ import annotations

import select
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from groupd.coordinator.security.scram_credentials import MECHANISMS, salted
from tests.support.daemon import Daemon
from tests.support.peer import running
from tests.support.raw import frame
from tests.support.sasl_client import SaslConnection, bearer, plain_config, sasl_settings
from tests.support.sasl_frames import authenticate
from tests.support.tokens import message, signed
from tests.support.wire_client import WireClient

pytestmark = pytest.mark.skipif(
    "os.environ.get('GROUPD_PEER') == 'kafka'", reason="settings of groupd"
)

GUESSER = "127.0.0.2"
PER_USER, PER_ADDRESS = 20, 100
FORGERS = 500
USERS = {name: f"{name}-pw" for name in ("alice", "bob", "carol")}


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Daemon]:
    settings = {
        **sasl_settings(tmp_path),
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": plain_config(USERS),
        "groupd.authentication.failures.per.user": str(PER_USER),
        "groupd.authentication.failures.per.ip": str(PER_ADDRESS),
    }
    with running(Daemon(tmp_path, settings=settings, topics={"orders": 1})) as made:
        yield made


def connection(daemon: Daemon, source: str = GUESSER) -> SaslConnection:
    return SaslConnection(daemon.ports["sasl_plaintext"], source=source, timeout_s=20)


def login(daemon: Daemon, user: str, source: str = GUESSER) -> bool:
    """Whether a client with the right password is let in. False: it is closed without an answer."""
    with connection(daemon, source) as client:
        try:
            return client.plain(f"\0{user}\0{USERS[user]}".encode()).error == 0
        except ConnectionError:
            return False


def answers(clients: list[SaslConnection], tokens: list[bytes]) -> list[int | None]:
    """The error that each client is told; None: it is closed without an answer."""
    for client, token in zip(clients, tokens, strict=True):
        client.send(frame(authenticate(token)))
    found: list[int | None] = []
    for client in clients:
        try:
            found.append(int.from_bytes(client.reply()[1][:2], "big"))
        except ConnectionError:
            found.append(None)
    return found


def test_connections_that_were_made_first_do_not_help_a_guesser(daemon: Daemon) -> None:
    assert login(daemon, "carol")
    with ExitStack() as stack:
        clients = [stack.enter_context(connection(daemon)) for _ in range(400)]
        for client in clients:
            assert client.handshake("PLAIN").error == 0
        began = time.monotonic()
        guesses = [b"\0alice\0wrong-%d" % number for number in range(400)]
        # In the middle: of those in line the oldest and the newest come first.
        guesses[200] = b"\0alice\0alice-pw"
        told = answers(clients, guesses)
        lasted_s = time.monotonic() - began
    right = told.pop(200)
    wrong = told
    assert wrong.count(58) + wrong.count(None) == len(wrong)
    # Two a second come back, and who waits for longer than three seconds gets no answer.
    assert PER_USER <= wrong.count(58) <= PER_USER + 2 * (lasted_s + 4)
    assert right is None
    assert login(daemon, "bob"), "another user of the same address"
    assert login(daemon, "alice", "127.0.0.1"), "the same user of another address"


def test_guesses_at_many_users_keep_out_nobody_who_was_there_before(daemon: Daemon) -> None:
    assert login(daemon, "bob")
    with ExitStack() as stack:
        clients = [stack.enter_context(connection(daemon)) for _ in range(600)]
        for client in clients:
            assert client.handshake("PLAIN").error == 0
        told = answers(clients, [b"\0user-%d\0wrong" % number for number in range(600)])
    assert PER_ADDRESS <= told.count(58) < 300
    assert [login(daemon, "bob") for _ in range(20)] == [True] * 20
    assert login(daemon, "carol", "127.0.0.1")


def test_a_known_user_cannot_be_told_by_its_iterations(daemon: Daemon) -> None:
    mechanism = MECHANISMS["SCRAM-SHA-256"]
    upsertions = [
        {
            "name": f"user-{number}",
            "mechanism": mechanism.code,
            "iterations": 8192,
            "salt": b"salt",
            "salted_password": bytes(salted(mechanism, "pw", b"salt", 8192)),
        }
        for number in range(3)
    ]
    with WireClient(daemon.host, daemon.port) as client:
        reply = client.call("AlterUserScramCredentials", 0, deletions=[], upsertions=upsertions)
        assert all(one["error_code"] == 0 for one in reply["results"])

    def shown() -> list[bytes]:
        """What unknown users are shown: salt and iterations."""
        found = []
        for number in range(20):
            with connection(daemon) as client:
                assert client.handshake("SCRAM-SHA-256").error == 0
                first = client.authenticate(b"n,,n=nobody-%d,r=x" % number)
                found.append(first.token.partition(b",")[2])
        return found

    before = shown()
    assert {one.rpartition(b",")[2] for one in before} == {b"i=8192"}
    daemon.restart()
    assert shown() == before


def forged() -> bytes:
    """A token of the largest size that names a key of the JWKS, but is not signed with it."""
    token = signed({"sub": "alice", "padding": "x" * 46_000})
    return frame(authenticate(message(token[:-8] + ("B" if token.endswith("A") else "A") * 8)))


def resident_mb(daemon: Daemon) -> float:
    status = Path(f"/proc/{daemon.pid}/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0]) / 1024


def test_forged_tokens_keep_nobody_waiting_and_leave_nothing(daemon: Daemon) -> None:
    with connection(daemon, "127.0.0.1") as client:
        client.handshake("OAUTHBEARER")
        assert client.authenticate(bearer()).token == b""
    before_mb, token = resident_mb(daemon), forged()
    with ExitStack() as stack:
        forgers = [stack.enter_context(connection(daemon)) for _ in range(FORGERS)]
        for forger in forgers:
            assert forger.handshake("OAUTHBEARER").error == 0
        honest = stack.enter_context(connection(daemon, "127.0.0.1"))
        assert honest.handshake("OAUTHBEARER").error == 0
        for forger in forgers:
            forger.send(token)
        done = honest.authenticate(bearer())
        assert (done.error, done.token) == (0, b"")
        answered, _, _ = select.select([forger.socket for forger in forgers], [], [], 0)
        assert len(answered) < FORGERS, "it need not wait for all that came before"
    # The connections are closed, and what they have sent is gone.
    with connection(daemon) as client:
        client.handshake("OAUTHBEARER")
        assert client.authenticate(bearer()).token == b""
    assert resident_mb(daemon) - before_mb < 100


def test_tokens_longer_than_any_are_not_judged(daemon: Daemon) -> None:
    with connection(daemon) as client:
        client.handshake("OAUTHBEARER")
        refused = client.authenticate(message("a." + "b" * 70_000 + ".c"))
        assert refused.error == 58
    assert "message too long" in daemon.logs()
