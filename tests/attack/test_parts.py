"""The parts of the attack program that need no broker."""

from __future__ import annotations

import os
import select
import socket
import struct
import threading
import time

import pytest

from groupd.protocol.wire.apis import API_BY_KEY
from tests.attack import table
from tests.attack.attacks import ATTACKS
from tests.attack.entries import pour
from tests.attack.results import PEAK_BYTES, Row
from tests.attack.scene import Got, Link, Scene
from tests.attack.victim import Victim
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


def test_a_wait_is_compared_with_what_the_idle_wait() -> None:
    waited = Row("a", "groupd", 1, [Wait(0.4, 0.4, "x", 1.0)], 10, idle_s=0.16)
    assert waited.misses() == []
    waited.idle_s = 0.14
    assert waited.misses() == ["an honest request waited 0.40 s"]


def test_an_attack_may_have_bars_of_its_own() -> None:
    row = Row("a", "groupd", 1, requests=10, got=Got(missed=["shown"]).plus(Got(missed=["too"])))
    row.leases = ["groups 1 for node 0: (1, 2), then (3, 4)"]
    row.lost = [("newcomer-tls", "reset"), ("newcomer-tls", "reset"), ("honest-classic", "closed")]
    assert row.misses() == [
        "3 connections of honest clients lost (classic, newcomer-tls): reset",
        "the cluster: groups 1 for node 0: (1, 2), then (3, 4)",
        "shown",
        "too",
    ]


def serve(listening: socket.socket, count: int, got: list[int]) -> None:
    """Takes so many connections one after the other, and ends each once it has sent a megabyte."""
    for _ in range(count):
        connection, _ = listening.accept()
        with connection:
            size = 0
            while size < 1 << 20 and (part := connection.recv(1 << 16)):
                size += len(part)
            got.append(size)


@pytest.mark.parametrize("endless", [False, True])
def test_data_is_poured_over_all_links(endless: bool) -> None:
    """Each gets all of it, if the broker takes it; or the next one gets it once one was ended."""
    got: list[int] = []
    count = 7 if endless else 3
    with socket.create_server(("127.0.0.1", 0)) as listening:
        address = listening.getsockname()
        thread = threading.Thread(target=serve, args=(listening, count, got))
        thread.start()
        scene = Scene(Victim("groupd", (address,), ()), 1)
        scene.begin(30)
        links = scene.links(3)

        def again() -> Link:
            """The attack is over once five were ended."""
            if scene.got.closed == 5:
                scene.begin(0)
            links.append(scene.link())
            return links[-1]

        if endless:
            pour(scene, list(links), bytes(1000), again=again, endless=True)
        else:
            pour(scene, links, lambda link: bytes(100_000 * (1 + links.index(link))))
            assert scene.got.sent == 600_000
        for link in links:
            link.close()
        thread.join(10)
    assert len(got) == len(links) == count
    assert sum(got) == 600_000 if not endless else sum(got) >= 5 << 20


def test_the_short_form_has_a_tenth() -> None:
    victim = Victim("groupd", (("127.0.0.1", 1),), ())
    assert [Scene(victim, lasts).many(1000) for lasts in (1, 10)] == [100, 1000]


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
    assert len(ATTACKS) > 80
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
