"""The same tools over a store on PostgreSQL: in, looked at, verified, damaged, and out again."""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import text, update

from groupd.coordinator.logtools.dump import Selection, dump_lines
from groupd.coordinator.logtools.exporting import ExportOptions, export_log
from groupd.coordinator.logtools.findings import Finding
from groupd.coordinator.logtools.importing import (
    ImportOptions,
    partitions_of,
    plan_import,
    write_plan,
)
from groupd.coordinator.logtools.latest import Tally, latest_of
from groupd.coordinator.logtools.segments import SegmentSource, StoreSource
from groupd.coordinator.logtools.verify import verify_store
from groupd.storage.open import create_reader, create_store
from groupd.storage.tables import log_batch
from tests.support.postgres import PostgresServer
from tests.unit.logtools.harness import HOME, batch, commit, consumer, marker, write_segment


async def test_a_store_on_postgresql_is_filled_read_and_verified(
    postgres: PostgresServer, tmp_path: Path
) -> None:
    url = postgres.url(postgres.emptied_database())
    transaction = [batch(5, commit(9), producer=7), marker(6, 7, commit=True)]
    write_segment(tmp_path / "k", HOME, batch(0, *consumer()), *transaction)
    source, tally = SegmentSource(tmp_path / "k"), Tally()
    kept = await latest_of(source, frozenset(), tally)
    store = create_store(url, tmp_path)
    await store.start()
    options = ImportOptions(create_topics=True, partitions=4)
    plan = await plan_import(kept, tally, {}, store, store.open_many, options)
    await write_plan(plan, store)

    # The reader reads beside the owner of the store.
    reader = create_reader(url, tmp_path)
    await reader.start()
    lines = [
        line async for line in dump_lines([StoreSource(reader)], Selection, None, as_json=True)
    ]
    assert len(lines) == 6
    findings: list[Finding] = []
    counts = await verify_store(reader, findings.append)
    assert (findings, counts.groups, counts.offsets) == ([], 1, 1)
    count = await partitions_of(reader)
    done = await export_log(StoreSource(reader), count, tmp_path / "out", ExportOptions())
    assert (count, done.records) == (4, 6)
    await store.close()

    damage = update(log_batch).values(payload=log_batch.c.payload.op("||")(text("'\\x00'::bytea")))
    backend = create_store(url, tmp_path)
    await backend.start()
    await backend._backend.write(lambda connection: connection.execute(damage))  # type: ignore[attr-defined]
    await backend.close()
    await verify_store(reader, findings.append)
    assert {finding.reason for finding in findings} >= {"the row's checksum is wrong"}
    await reader.close()
