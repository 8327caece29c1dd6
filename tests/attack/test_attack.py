"""A short form of `make attack`: one after the other, some of its attacks on one groupd with honest
clients beside it. How long the honest waited is printed, not asserted: `make attack` has the bars
for that, and all attacks.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.attack import table
from tests.attack.arena import Arena
from tests.attack.attacks import ATTACKS
from tests.attack.peers import Setup, running, store
from tests.attack.results import PEAK_BYTES, Row, save

pytestmark = pytest.mark.crash

SECONDS = 1.0
WAIT_S = 6.0
"""The session timeout of the honest members."""
# tests/unit/server/test_turns_of_the_loop.py and test_turns_of_the_data_plane.py have every array.
LISTS = (
    "DescribeGroups, 2 MB",
    "Fetch, partitions, 2 MB",
    "OffsetCommit, partitions, 2 MB",
    "every array, 4,000 items",
    "metadata",
    "many groups",
)
# docs/spec/security.md#SE-86 (pipelined, replies unread), docs/spec/security.md#SE-87 (arrays that
# claim more than there is), docs/spec/security.md#SE-88 (DescribeGroups of nothing but names; with
# 90 MB in `make attack`).
WIRE = (
    "bad frames",
    "mutated frames",
    "slowloris",
    "connection storm",
    "deep pipeline",
    "half frames",
    "no descriptors",
    "SIGSTOP",
)
MEMORY = (
    "200 Fetches of 55 MB, unread",
    "zstd bomb",
    "pages, unread",
    "large commits",
    "huge members",
    "pending joins",
    "regexes",
    "topics by Metadata",
    "many producers",
    "telemetry",
    "CreateTopics, 2,000,000 partitions",
)
# docs/threat-model.md#what-groupd-promises: what a stranger can do before a login, and behind one.
DOOR = (
    "empty frames, before the login",
    "empty frames, logged in, TLS",
    "zeros without end, before the login, TLS",
    "frames of 10 bytes, before the login",
    "unknown versions, before the login, TLS",
    "unfinished frames, before the login",
    "records of one byte, before the login, TLS",
    "records of one byte, logged in, TLS",
    "unfinished handshakes",
    "large tokens",
    "wrong admin tokens",
    "foreign Host",
    "producers in debt",
    "guesses of a neighbour",
    "guesses, connections first",
)
IN_A_CLUSTER = ("every array, 4,000 items", "half frames", "unfinished handshakes")


@pytest.mark.timeout(240)
@pytest.mark.parametrize(
    "names", [LISTS, WIRE, MEMORY, DOOR], ids=["lists", "wire", "memory", "door"]
)
def test_the_honest_notice_nothing(tmp_path: Path, names: Sequence[str]) -> None:
    _attacked(tmp_path, Setup(), names)


@pytest.mark.timeout(240)
def test_nor_in_a_cluster_over_postgresql(tmp_path: Path) -> None:
    _attacked(tmp_path, Setup(store="postgres", nodes=3), IN_A_CLUSTER)


def _attacked(directory: Path, setup: Setup, names: Sequence[str]) -> None:
    rows: list[Row] = []
    with store(setup.store) as stores, running(setup, directory / "groupd", stores) as broker:
        arena = Arena(broker, setup.name)
        try:
            for row in arena.one_by_one([ATTACKS[name] for name in names], SECONDS):
                print(table.line(row))
                rows.append(row)
                assert broker.alive(), f"{row.attack}: it died"
        finally:
            arena.close()
    save(rows, directory / "rows.json")
    assert [(row.attack, row.failed) for row in rows if row.failed or not row.answers] == []
    assert [(row.attack, row.fenced) for row in rows if row.fenced] == []
    assert [(row.attack, row.lost) for row in rows if row.lost] == []
    assert [(row.attack, row.ledger) for row in rows if row.ledger] == []
    assert [(row.attack, row.got.missed) for row in rows if row.got.missed] == []
    assert [(row.attack, row.leases) for row in rows if row.leases] == []
    assert [(row.attack, row.peak >> 20) for row in rows if row.peak > PEAK_BYTES] == []
    waited = [(row.attack, row.wait_s) for row in rows if not row.stands_still]
    assert [one for one in waited if one[1] > WAIT_S] == []
