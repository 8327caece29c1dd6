"""The judge of the tests under load, itself judged: it must see every kind of fault."""

from __future__ import annotations

import json
from pathlib import Path

from tests.clients.group import BY_NAME, Group, MemberView, Move, Told
from tests.clients.timeline import Timeline

P = ("t", 0)


def move(at: float, member: int, kind: str) -> Move:
    return Move(at, member, kind, (P,))


def told(at: float, member: int, *offsets: int) -> Told:
    return Told(at, member, tuple((*P, offset) for offset in offsets))


def test_a_partition_given_away_before_it_was_taken_back_is_a_fault() -> None:
    good = [move(1, 0, "assigned"), move(2, 0, "revoked"), move(3, 1, "assigned")]
    assert Timeline(good).double_owners() == []
    bad = [move(1, 0, "assigned"), move(3, 0, "revoked"), move(2, 1, "assigned")]
    assert len(Timeline(bad).double_owners()) == 2


def test_partitions_given_to_a_client_inside_of_close_do_not_count(tmp_path: Path) -> None:
    group = Group(BY_NAME["confluent-classic-range"], "nowhere:1", "g", tmp_path)
    group.members[0] = MemberView()
    for at, event in enumerate(["closing", "assigned", "closed", "assigned", "closing", "revoked"]):
        line = {"event": event, "member": 0, "at": float(at), "partitions": [P]}
        group._on_line(json.dumps(line))
    assert group.moves == [move(3, 0, "assigned"), move(5, 0, "revoked")]
    assert Timeline.of(group).double_owners() == []


def test_a_member_that_hung_while_it_closed_is_given_partitions_again(tmp_path: Path) -> None:
    group = Group(BY_NAME["kafka_python-classic-range"], "nowhere:1", "g", tmp_path)
    group.members[0] = MemberView()
    for at, event in enumerate(["closing", "stuck", "assigned"]):
        line = {"event": event, "member": 0, "at": float(at), "partitions": [P]}
        group._on_line(json.dumps(line))
    assert group.moves == [move(2, 0, "assigned")]


def test_records_of_a_partition_that_moved_away_are_a_fault() -> None:
    moves = [move(1, 0, "assigned"), move(3, 0, "revoked"), move(4, 1, "assigned")]
    assert Timeline(moves, [told(2, 0, 5), told(5, 1, 6)]).strangers() == []
    assert len(Timeline(moves, [told(3.5, 0, 5), told(5, 0, 6)]).strangers()) == 2


def test_records_from_before_a_commit_are_a_fault() -> None:
    commits = [told(2, 0, 6)]
    assert Timeline([], [told(1, 0, 5), told(3, 1, 6)], commits).rewinds() == []
    assert len(Timeline([], [told(1, 0, 5), told(3, 1, 5, 6)], commits).rewinds()) == 1


def test_a_pause_is_seen_at_the_start_in_between_and_at_the_end() -> None:
    line = Timeline([], [told(1, 0, 1), told(2, 0, 2), told(6, 0, 3), told(7, 0, 4)])
    assert line.longest_pause_s(1, 7) == {P: 4}
    assert line.longest_pause_s(-5, 7) == {P: 6}
    assert line.longest_pause_s(1, 20) == {P: 13}
