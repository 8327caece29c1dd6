"""Seeds of the simulator of share groups; `make sim-shares SEEDS=10000` runs more. And what is
broken on purpose is found out: a check that never fails would show nothing."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from groupd.coordinator.core.share_group import initialization
from groupd.coordinator.core.share_group.group import ShareGroup
from groupd.coordinator.share_partitions.in_flight import InFlightRecords
from groupd.coordinator.share_partitions.runs import ACQUIRED, OffsetRun
from groupd.coordinator.share_partitions.share_partition import SharePartition
from groupd.coordinator.share_state.machine import ShareStateMachine
from groupd.coordinator.topics.partitions import Partitions
from groupd.protocol.messages.share_state import AVAILABLE, NO_OFFSET
from tests.simulator.shares.simulation import simulate_shares
from tests.simulator.simulation import SimulationFailed

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[3]
SEEDS = range(12)
MANY_SEEDS = range(400)


@pytest.mark.parametrize("seed", SEEDS)
def test_share_seed(seed: int) -> None:
    result = simulate_shares(seed)
    assert result.accepts > 0


def test_a_run_repeats_exactly_whatever_the_hash_seed() -> None:
    assert len({_digest(hash_seed) for hash_seed in ("1", "2")}) == 1


def _digest(hash_seed: str) -> str:
    code = (
        "from tests.simulator.shares.simulation import simulate_shares; "
        "print(simulate_shares(0).digest)"
    )
    run = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    return run.stdout.strip()


def unwritten(patch: pytest.MonkeyPatch) -> None:
    """Acknowledgements that are answered and not written."""

    async def persist(self: SharePartition, writes: Any) -> None:
        """Writes nothing."""

    patch.setattr(SharePartition, "_persist", persist)


def unlocked(patch: pytest.MonkeyPatch) -> None:
    """Records that members can acquire although others hold them."""
    available = property(lambda self: self.state in (AVAILABLE, ACQUIRED) and not self.write)
    patch.setattr(OffsetRun, "available", available)


def too_early(patch: pytest.MonkeyPatch) -> None:
    """Locks that end half a second too early."""
    expire = InFlightRecords.expire

    def early(self: InFlightRecords, now_ms: int, *limits: Any, **options: Any) -> Any:
        return expire(self, now_ms + 500, *limits, **options)

    patch.setattr(InFlightRecords, "expire", early)
    patch.setattr(
        InFlightRecords,
        "next_lock_ms",
        property(lambda self: until - 500 if (until := self._locks.next_ms()) else None),
    )


def uncounted(patch: pytest.MonkeyPatch) -> None:
    """Delivery counts that are not stored."""
    write = InFlightRecords._write

    def forgetful(self: InFlightRecords, changed: list[OffsetRun], *more: Any, **how: Any) -> Any:
        counts = [run.delivery_count for run in changed]
        for run in changed:
            run.delivery_count = 0
        made = write(self, changed, *more, **how)
        for run, count in zip(sorted(changed, key=lambda run: run.first), counts, strict=True):
            run.delivery_count = count
        return made

    patch.setattr(InFlightRecords, "_write", forgetful)


def skipped(patch: pytest.MonkeyPatch) -> None:
    """A share-partition that begins at its second record."""

    async def second(self: SharePartition) -> int:
        return self.partition.start_offset + 1

    patch.setattr(SharePartition, "_first_offset", second)


def unfenced(patch: pytest.MonkeyPatch) -> None:
    """A share coordinator that takes writes of former leaders."""

    def known(self: ShareStateMachine, key: Any, leader_epoch: int) -> Any:
        return self.kept[key]

    patch.setattr(ShareStateMachine, "_known", known)


def not_awaited(patch: pytest.MonkeyPatch) -> None:
    """A share-partition that is loaded while the one before is still written."""
    load = SharePartition._load
    patch.setattr(SharePartition, "_load", lambda self, before: load(self, None))


def begun_anew(patch: pytest.MonkeyPatch) -> None:
    """Of several calls that initialize a topic, the first answer counts."""
    patch.setattr(initialization, "answered", initialization.initialized)


def without_a_lease(patch: pytest.MonkeyPatch) -> None:
    """Nodes that give records although their lease is over."""
    patch.setattr(Partitions, "leads", lambda self, log: True)


def not_deleted(patch: pytest.MonkeyPatch) -> None:
    """States that are still there when an answer says that they are deleted."""
    patch.setattr(ShareStateMachine, "_delete", ShareStateMachine._summary)


def not_altered(patch: pytest.MonkeyPatch) -> None:
    """Start offsets of administrators that are ignored."""

    def request(group_id: str, epoch: int, offsets: initialization.StartOffsets) -> Any:
        unknown = {topic: dict.fromkeys(its, NO_OFFSET) for topic, its in offsets.items()}
        return made(group_id, epoch, unknown)

    made = initialization.initialize_request
    patch.setattr(initialization, "initialize_request", request)


def altered_with_members(patch: pytest.MonkeyPatch) -> None:
    """Offsets that are changed while the group has members."""
    patch.setattr(ShareGroup, "check_delete", lambda self: None)


MUTANTS = (
    unwritten,
    unlocked,
    too_early,
    uncounted,
    skipped,
    not_deleted,
    not_altered,
    altered_with_members,
)
RARELY_FOUND = (unfenced, not_awaited, begun_anew, without_a_lease)


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: str(mutant.__name__))
def test_a_broken_rule_is_found(
    mutant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    mutant(monkeypatch)
    with pytest.raises(SimulationFailed):
        simulate_all(SEEDS)


@pytest.mark.nightly
@pytest.mark.parametrize("mutant", RARELY_FOUND, ids=lambda mutant: str(mutant.__name__))
def test_a_broken_rule_is_found_among_many_seeds(
    mutant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    mutant(monkeypatch)
    with pytest.raises(SimulationFailed):
        simulate_all(MANY_SEEDS)


def simulate_all(seeds: Sequence[int]) -> None:
    for seed in seeds:
        simulate_shares(seed)
