"""The ledger of the chaos with a cluster finds what it is there for."""

from __future__ import annotations

import pytest

from tests.chaos.cluster.ledger import Commit, Ledger, Logged, two_owners, wrong_in_log
from tests.clients.exactly_once import compare
from tests.clients.group import Move

KEY = ("orders", "in", 0)
PART = ("in", 0)


def commit(number: int, *, node: int = 1, at: float | None = None, took: float = 0.1) -> Commit:
    sent = float(number) if at is None else at
    return Commit("orders", "in", 0, number, sent, sent + took, f"c{number}", node, 3)


def written(number: int, *, position: int | None = None, owner: int | None = 1, epoch: int = 1):  # type: ignore[no-untyped-def]
    return Logged(3, number if position is None else position, f"c{number}", owner, epoch)


def test_a_lost_commit() -> None:
    ledger = Ledger()
    ledger.acknowledged(commit(7))
    ledger.fetched(KEY, 0, asked=7.05)  # it was under way then
    ledger.fetched(KEY, 7, asked=7.2)
    ledger.fetched(KEY, 9, asked=7.2)  # of an answer that got lost
    ledger.judge(10.0)
    assert ledger.faults == []
    ledger.fetched(KEY, 6, asked=7.2, whom="node 2")
    ledger.judge(7.1)
    assert ledger.faults == [], "not before all acknowledgements are known"
    ledger.judge(10.0)
    (fault,) = ledger.faults
    assert "a commit of 7 was acknowledged" in fault
    assert "node 2 says 6" in fault


def test_commits_are_known_by_their_greatest() -> None:
    ledger = Ledger()
    for number in (5, 8, 6):
        ledger.acknowledged(commit(number, at=float(number)))
    assert ledger.last() == {KEY: 8}
    ledger.fetched(KEY, -1, asked=5.05)
    ledger.fetched(KEY, 6, asked=8.05)
    ledger.judge(20.0)
    assert ledger.faults == []
    ledger.fetched(KEY, 6, asked=9.0)
    ledger.judge(20.0)
    assert len(ledger.faults) == 1


def test_two_owners_at_one_epoch() -> None:
    ledger = Ledger()
    ledger.owns("orders", "a", 4, "in", [0, 1])
    ledger.owns("orders", "a", 4, "in", [0])
    ledger.owns("orders", "b", 5, "in", [1])
    ledger.owns("bills", "b", 4, "in", [0])
    assert ledger.faults == []
    ledger.owns("orders", "b", 4, "in", [1])
    assert ledger.faults == ["orders: in-1 at epoch 4 has two owners: a and b"]


def test_two_owners_as_members_tell_of_themselves() -> None:
    moves = [
        Move(1.0, 1, "assigned", (PART,)),
        Move(2.0, 1, "revoked", (PART,)),
        Move(2.1, 2, "assigned", (PART,)),
        # Fenced: it hears of it when another one has it.
        Move(3.0, 3, "assigned", (PART,)),
        Move(3.2, 2, "lost", (PART,)),
    ]
    assert two_owners(moves) == []
    moves.append(Move(4.0, 1, "assigned", (PART,)))
    moves.append(Move(4.2, 3, "revoked", (PART,)))
    (fault,) = two_owners(moves)
    assert "of 3 until 4.200, of 1 4.000" in fault


def test_a_log_that_is_right() -> None:
    commits = [commit(1), commit(2), commit(3, node=2)]
    logs = [written(1), written(2), written(3, owner=2, epoch=2), written(9, owner=2, epoch=2)]
    assert wrong_in_log(commits, logs) == []


@pytest.mark.parametrize(
    ("logs", "words"),
    [
        ([written(1)], "c2 was acknowledged and is not in the log"),
        ([written(1), written(2), written(2, position=5)], "c2 is twice in the log"),
        ([written(1), written(2, owner=2, epoch=2)], "acknowledged by node 1, and written at"),
        ([written(1), written(2), written(8, owner=2)], "at epoch 1: of 1 and of 2"),
        ([written(1, epoch=2), written(2, epoch=1)], "epoch 1 after 2"),
        ([written(1, position=9), written(2)], "c2 lies before c1"),
        ([written(1), written(2), written(8, owner=None, epoch=2)], "of None"),
    ],
)  # fmt: skip
def test_a_log_that_is_wrong(logs: list[Logged], words: str) -> None:
    faults = wrong_in_log([commit(1), commit(2)], logs)
    assert any(words in fault for fault in faults), faults


def test_lost_and_doubled_records() -> None:
    assert compare({0: [1, 2, 3]}, {0: [1, 2, 3]}) == []
    assert compare({0: [1, 2, 3]}, {0: [1, 3]}) == ["partition 0: 1 lost: [2]"]
    assert compare({0: [1, 2]}, {0: [1, 2, 2]}) == ["partition 0: 1 twice: [2]"]
