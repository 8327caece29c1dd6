"""The parts of the attack program that need no broker."""

from __future__ import annotations

import os
import select
import struct
import time

import pytest

from groupd.protocol.wire.apis import API_BY_KEY
from tests.attack import table
from tests.attack.attacks import ATTACKS
from tests.attack.results import PEAK_BYTES, Row
from tests.attack.scene import Got
from tests.attack.waits import Lateness, Spread, Wait
from tests.attack.widest import widest_frames

ITEMS = 300
_HEADER = 4 + 8 + 2 + len("attacker")


@pytest.mark.parametrize("distinct", [False, True], ids=["equal", "distinct"])
def test_a_widest_request_is_a_sound_one(distinct: bool) -> None:
    """It would prove little if it were refused for its form."""
    made = widest_frames(1 << 20, ITEMS, distinct=distinct)
    assert len(made) > 60
    for name, frame in made:
        length, key, version, _ = struct.unpack_from(">ihhi", frame)
        api = API_BY_KEY[key]
        assert length == len(frame) - 4
        payload = frame[4:]
        start = _HEADER - 4 + api.flexible(version)
        assert api.decode(payload, start, version), name


def test_an_array_of_a_request_has_so_many_items() -> None:
    frames = dict(widest_frames(1 << 20, ITEMS, distinct=True))
    frame = frames["DescribeGroups groups"]
    api = API_BY_KEY[15]
    _, _, version, _ = struct.unpack_from(">ihhi", frame)
    decoded = api.decode(frame[4:], _HEADER - 4 + 1, version)
    assert len(set(decoded.groups)) == ITEMS  # type: ignore[attr-defined]


def test_what_misses_a_bar_is_said() -> None:
    fine = Row("a", "groupd", 1, [Wait(0.1, 0.1, "x")], 10, before=100, after=119, back_s=1)
    assert fine.misses() == []
    got = Got(asked=[(10.0, 1.0, "Metadata"), (20.0, 1.0, "Fetch")])
    bad = Row(
        "b",
        "groupd",
        1,
        [Wait(0.5, 0.5, "x", 20.5)],
        10,
        fenced=[("one", "UNKNOWN_MEMBER_ID"), ("one", "UNKNOWN_MEMBER_ID")],
        peak=PEAK_BYTES + 1,
        before=100,
        after=121,
        back_s=60,
        got=got,
    )
    assert bad.misses() == [
        "1 members fenced",
        "an honest request waited 0.50 s during Fetch",
        "512 MB",
        "0 MB left of 0 MB before",
    ]
    assert Row("c", "groupd", 1).misses() == ["the honest had no answer at all"]


def test_brokers_side_by_side() -> None:
    rows = [
        Row("SIGSTOP", "groupd", 1, [Wait(0.01, 0.01, "x")], 1, peak=80 << 20, together=80 << 20),
        Row("SIGSTOP", "kfake", 1, failed="it died"),
        Row("metadata", "groupd", 1, fenced=[("one", "UNKNOWN_MEMBER_ID")]),
    ]
    lines = table.side_by_side(rows, {"metadata": "Metadata"}).splitlines()
    assert lines[0] == "| attack | groupd | kfake |"
    assert lines[2] == "| SIGSTOP | 10 ms, 80 MB | it died |"
    assert lines[3] == "| Metadata | 0 ms, 0 MB, **1 fenced** | – |"


def test_every_attack_has_a_name_and_a_line() -> None:
    assert len(ATTACKS) > 60
    assert all(name == attack.name and attack.what for name, attack in ATTACKS.items())


def test_the_work_in_a_wait_is_processor_time() -> None:
    """A wait counts the processor time of the broker (here this process): a sleep adds nothing."""
    lateness = Lateness([os.getpid()])
    mark = lateness.mark()
    began = time.process_time()
    while time.process_time() - began < 0.05:
        pass
    worked = time.process_time() - began
    assert worked <= lateness.since(mark, "x", writes=False).worked < worked + 0.02
    mark = lateness.mark()
    select.select([], [], [], 0.2)
    idle = lateness.since(mark, "x", writes=False)
    assert idle.whole >= 0.2
    assert idle.worked < 0.05


def test_the_spread_of_waits() -> None:
    assert Spread.of([]) == Spread(0.0, 0.0)
    assert Spread.of([0.001] * 99 + [0.5]) == Spread(0.5, 0.5)
    assert Spread.of([0.003] + [0.001] * 200) == Spread(0.001, 0.003)
