"""Record batches that are kept after a read (docs/spec/share-group.md#4.3)."""

from __future__ import annotations

import pytest

from groupd.coordinator.core.slices import Pace
from groupd.coordinator.share_partitions import reading
from groupd.coordinator.share_partitions.reading import KeptBatches, ReadBatches
from groupd.coordinator.topics.fetch_reading import read_log
from groupd.protocol.errors import ApiError, ErrorCode
from groupd.protocol.messages.data import READ_COMMITTED, READ_UNCOMMITTED
from groupd.protocol.messages.share_fetch import AcquiredRecords
from groupd.protocol.records.batch_builder import encode_batch

BATCH = encode_batch(0, -1, 0, [(None, bytes(100))] * 10)
EACH = len(BATCH)


class Log:
    """A log of batches of ten records. `reads`: the offsets that were read from."""

    name = "foo-0"

    def __init__(self, batches):
        self.share = Share(self)
        self.start_offset = 0
        self.high_watermark = self.last_stable_offset = self.next_offset = 10 * batches
        self.changes = 0
        self.reads = []

    def aborted(self, from_offset, end_offset):
        return ()

    async def read(self, from_offset, max_bytes, *, min_one):
        self.reads.append(from_offset)
        first = from_offset // 10
        count = max(max_bytes // EACH, min_one)
        bases = range(10 * first, self.next_offset, 10)[:count]
        return [base.to_bytes(8, "big") + BATCH[8:] for base in bases]


@pytest.fixture
def log():
    return Log(100)


class Share:
    """A share-partition of such a log."""

    closed = False

    def __init__(self, log):
        self.partition = log


async def read(kept, log, offset, last_offset, share=None, **changed):
    given = {
        "max_bytes": 1 << 20,
        "isolation_level": READ_UNCOMMITTED,
        "pace": Pace(),
        "expected_bytes": 0,
        "whole_first": True,
    } | changed
    share = log.share if share is None else share
    return (await kept.read(share, offset, last_offset, **given)).batches


async def test_what_was_read_is_not_read_again(log):
    kept = KeptBatches()
    await read(kept, log, 0, 0)
    reads = list(log.reads)
    for offset in range(20):
        base = offset // 10 * 10
        assert await read(kept, log, offset, offset) == [(base, base + 9)]
    assert await read(kept, log, 5, 25) == [(0, 9), (10, 19), (20, 29)]
    assert log.reads == reads
    assert await read(kept, log, 5, 500) == [(at, at + 9) for at in range(0, 510, 10)]
    assert log.reads != reads


async def test_it_is_dropped_when_more_was_asked_for(log):
    kept = KeptBatches()
    await read(kept, log, 980, 980)
    await read(kept, log, 980, 999)
    assert kept.size
    await read(kept, log, 980, 1000)
    assert kept.size == 0
    await read(kept, log, 980, 2000)
    assert kept.size == 0


async def test_nothing_is_kept_for_a_share_partition_that_was_closed_meanwhile(log):
    kept = KeptBatches()
    log.share.closed = True
    await read(kept, log, 0, 0)
    assert kept.size == 0


async def test_limits_hold_for_what_was_kept(log):
    kept = KeptBatches()
    await read(kept, log, 0, 29)
    count = len(log.reads)
    two = 2 * EACH
    assert await read(kept, log, 0, 29, max_bytes=two) == [(0, 9), (10, 19)]
    assert await read(kept, log, 0, 29, max_bytes=two, whole_first=False) == [(0, 9), (10, 19)]
    assert await read(kept, log, 0, 29, max_bytes=1) == [(0, 9)]
    assert await read(kept, log, 0, 29, max_bytes=1, whole_first=False) == []
    assert len(log.reads) == count


async def test_deleted_records_are_not_kept(log):
    kept = KeptBatches()
    await read(kept, log, 0, 0)
    log.start_offset = 5
    with pytest.raises(ApiError) as refused:
        await read(kept, log, 4, 4)
    assert refused.value.code is ErrorCode.OFFSET_OUT_OF_RANGE
    assert await read(kept, log, 5, 5) == [(0, 9)]


async def test_readers_of_committed_records_do_not_get_what_others_have_read(log):
    kept = KeptBatches()
    await read(kept, log, 0, 0)
    log.last_stable_offset = 0
    assert await read(kept, log, 0, 0, isolation_level=READ_COMMITTED) == []


async def test_the_limits_in_bytes(log, monkeypatch):
    monkeypatch.setattr(reading, "LEAST_READ_BYTES", EACH)
    monkeypatch.setattr(reading, "KEPT_TOTAL_BYTES_MAX", 2 * (EACH + reading.BATCH_BYTES))
    kept = KeptBatches()
    a, b, c = Share(log), Share(log), Share(log)
    for share in (a, b, a, c, a):
        await read(kept, log, 0, 0, share)
    assert (len(log.reads), kept.size) == (3, 2 * (EACH + reading.BATCH_BYTES))
    await read(kept, log, 0, 0, b)  # it was used longest ago
    assert len(log.reads) == 4
    kept.drop(a)
    kept.drop(b)
    assert kept.size == 0
    monkeypatch.setattr(reading, "KEPT_BYTES_MAX", EACH)
    await read(kept, log, 0, 0, a)
    assert kept.size == 0


def test_a_batch_behind_deleted_offsets_is_found():
    read = ReadBatches(b"abc", [(0, 4), (20, 24), (30, 34)], [0, 1, 2, 3], [(20, 24)], 0)
    found = read.between(5, 6, 10, whole_first=True)
    assert (found.starts, found.batches, found.aborted) == ([1, 2], [(20, 24)], [(20, 24)])
    assert found.around([AcquiredRecords(21, 22, 1)]) == b"b"
    found = read.between(0, 10, 10, whole_first=True)
    assert found.around([AcquiredRecords(0, 24, 1)]) == b"ab"
    assert read.between(30, 40, 10, whole_first=True).aborted == []
    assert read.between(0, 40, 10, whole_first=True) is read


async def test_only_batches_that_fit_are_read(log):
    """One more reading would be for a batch that is cut."""
    part = await read_log(log, 0, 2 * EACH + 1, 0, whole_first=True, may_cut=False)
    assert (log.reads, part.next_offset, len(part.records), part.cut) == ([0], 20, 2 * EACH, True)
