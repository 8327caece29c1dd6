"""The driver itself: a member whose client does not come back from a poll."""

from __future__ import annotations

import json
import threading

import pytest

from tests.clients.drivers import driver
from tests.clients.drivers.driver import Emitter, Loop, Options, Partition, Place
from tests.support.process import wait_until

WAIT_S = 20.0
OPTIONS = Options(
    bootstrap="",
    group="g",
    topics=("orders",),
    pattern="",
    protocol="classic",
    assignor="",
    commit="each",
    instance_prefix="",
    session_timeout_ms=6000,
    max_poll_interval_ms=6000,
    revoke_block_ms=0,
    member=3,
)


class Client:
    """A client that owns a partition. The first one that is made hangs where it should."""

    made: list[Client]
    where: str
    released: threading.Event

    def __init__(self, _: Options, __: Emitter) -> None:
        self.closed = False
        self._hangs = not self.made
        self.made.append(self)

    @property
    def joining(self) -> bool:
        return self._hangs and self.where == "join"

    def poll(self, timeout_s: float) -> list[Place]:
        self._hang("poll")
        return [("orders", 0, 7)]

    def commit(self, offsets: dict[Partition, int]) -> None:
        self._hang("commit")

    def _hang(self, where: str) -> None:
        if self._hangs and where == self.where:
            self.released.wait(WAIT_S)

    def assignment(self) -> list[Partition]:
        return [("orders", 0)]

    def close(self) -> None:
        self.closed = True


@pytest.mark.parametrize("where", ["poll", "commit", "join"])
def test_a_member_that_is_stuck_is_given_up_and_comes_again(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], where: str
) -> None:
    monkeypatch.setattr(Client, "made", [], raising=False)
    monkeypatch.setattr(Client, "where", where, raising=False)
    monkeypatch.setattr(Client, "released", threading.Event(), raising=False)
    first = Loop(Client, OPTIONS)
    assert first.successor() is None, "it does not poll yet"
    first.start()
    wait_until(lambda: bool(Client.made), WAIT_S, "a client", str)
    assert first.successor() is None, "it has time"
    monkeypatch.setattr(driver, "STUCK_S", 0.0)
    made: list[Loop | None] = []
    wait_until(lambda: made.append(first.successor()) or made[-1] is not None, WAIT_S, "stuck", str)
    second = made[-1]
    assert second is not None
    second.start()
    wait_until(lambda: len(Client.made) == 2, WAIT_S, "another client", str)
    Client.released.set()
    first.join(WAIT_S)
    second.stopping.set()
    second.join(WAIT_S)
    assert [client.closed for client in Client.made] == [True, True]
    events = [json.loads(line)["event"] for line in capsys.readouterr().out.splitlines()]
    told = [event for event in events if event in ("stuck", "closing", "closed")]
    assert told == ["stuck", "closing", "closed"]
