"""Logs of whole simulations, cleaned at any point: the shards come out the same."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from groupd.coordinator.config.coordinator_config import CoordinatorConfig
from groupd.coordinator.core.shard import GroupCoordinatorShard
from groupd.protocol.records.batch import Batch, iter_batches, records_data
from groupd.protocol.records.compaction import Compaction, Rules, Survey, offsets_identity
from groupd.storage.log import StoredBatch
from tests.simulator.compare import difference
from tests.simulator.options import draw
from tests.simulator.shadow import Shadow
from tests.simulator.simulation import Simulation
from tests.unit.records.test_compaction import PRODUCER_EXPIRATION_MS, RETENTION_MS, drain

NOW_MS = 1_800_000_000_000
STEPS = 6


def cleaned(batches: Sequence[Batch], dirty: int, now_ms: int) -> list[bytes]:
    found = Survey(offsets_identity)
    for batch in batches[dirty:]:
        drain(found.add(batch, records_data(*batch)))
    last_offset = batches[-1].header.last_offset
    rules = Rules(now_ms, RETENTION_MS, last_offset, PRODUCER_EXPIRATION_MS)
    compaction = Compaction(found, rules)
    return [
        left
        for batch in batches
        if (left := drain(compaction.clean(batch, records_data(*batch)))) is not None
    ]


def loaded(config: CoordinatorConfig, payloads: Sequence[bytes]) -> GroupCoordinatorShard:
    shadow = Shadow(config)
    for payload in payloads:
        shadow.apply("log", StoredBatch(0, 0, 0, payload))
    return shadow.shard("log")


def assert_same(ours: GroupCoordinatorShard, theirs: GroupCoordinatorShard) -> None:
    for group_id in sorted({*ours.state.groups, *theirs.state.groups}):
        assert difference(ours, theirs, group_id) == "", group_id


@pytest.mark.parametrize("mixed", [False, True], ids=["", "mixed"])
@pytest.mark.parametrize("seed", range(8))
def test_lg_26_a_shard_from_a_cleaned_log_is_the_same(seed: int, mixed: bool) -> None:
    simulation = Simulation(draw(seed, mixed_groups=mixed))
    simulation.run()
    read = kept = 0
    for name, log in simulation.disk.logs.items():
        raw = [batch for row in log.batches for batch in iter_batches(row.payload)]
        if not raw:
            continue
        wanted = loaded(simulation.config, [batch.payload for batch in raw])
        assert_same(wanted, simulation.shadow.shard(name))
        clean: list[bytes] = []
        for step in range(1, STEPS + 1):  # each cleaning takes the next part of the log
            first, end = len(raw) * (step - 1) // STEPS, len(raw) * step // STEPS
            before = [batch for payload in clean for batch in iter_batches(payload)]
            if end > first:
                batches = [*before, *raw[first:end]]
                clean = cleaned(batches, len(before), NOW_MS + step * RETENTION_MS)
            rest = [batch.payload for batch in raw[end:]]
            assert_same(loaded(simulation.config, [*clean, *rest]), wanted)
        read += sum(batch.header.record_count for batch in raw)
        kept += sum(b.header.record_count for payload in clean for b in iter_batches(payload))
    assert 0 < kept < read
