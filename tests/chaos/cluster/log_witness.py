"""A witness in the database: a trigger notes for each batch of `__consumer_offsets` who owned
the shard, and at which epoch, in the transaction that wrote the batch."""

from __future__ import annotations

from typing import Any

from groupd.coordinator.core.partitioning import offsets_log_name
from groupd.protocol.records.batch import iter_records, parse_header
from groupd.protocol.records.codec import decode_record
from groupd.protocol.records.schema import OffsetCommitValue
from groupd.storage.units import GROUPS
from tests.chaos.cluster.database import Database
from tests.chaos.cluster.ledger import Logged

PREFIX = offsets_log_name(0).removesuffix("0")

WITNESS = (
    "CREATE TABLE witness (log_id bigint, base_offset bigint, shard int, owner int, epoch bigint)",
    f"""
    CREATE FUNCTION witness() RETURNS trigger LANGUAGE plpgsql AS $$
    DECLARE its text;
    BEGIN
        SELECT name INTO its FROM log WHERE log.log_id = NEW.log_id;
        IF its LIKE '{PREFIX.replace("_", chr(92) + "_")}%' THEN
            INSERT INTO witness
            SELECT NEW.log_id, NEW.base_offset, number, owner, epoch FROM cluster_unit
            WHERE kind = '{GROUPS}' AND number = substr(its, {len(PREFIX) + 1})::int;
        END IF;
        RETURN NULL;
    END $$
    """,
    "CREATE TRIGGER witness AFTER INSERT ON log_batch FOR EACH ROW EXECUTE FUNCTION witness()",
    "SELECT 1",
)

READ = (
    "SELECT w.shard, w.owner, w.epoch, b.payload FROM witness w "
    "JOIN log_batch b ON b.log_id = w.log_id AND b.base_offset = w.base_offset "
    "WHERE w.shard = {shard} ORDER BY b.base_offset"
)


def install(database: Database) -> None:
    """From now on every batch is noted. The tables must be there."""
    database.execute(*WITNESS)


def logged(database: Database, shards: set[int]) -> list[Logged]:
    """All commits in the logs of these shards that have metadata, in order."""
    found = []
    for shard in sorted(shards):
        for row in database.execute(READ.format(shard=shard)):
            found += _of_batch(row)
    return found


def tails(database: Database, count: int = 12) -> str:
    """The newest batches of all logs of topics: what to look at when a producer is at odds with
    one."""
    lines = []
    for log in database.execute("SELECT log_id, name FROM log ORDER BY name"):
        if log["name"].startswith("__"):
            continue
        query = f"SELECT payload FROM log_batch WHERE log_id = {log['log_id']}"
        rows = database.execute(f"{query} ORDER BY base_offset DESC LIMIT {count}")
        heads = [parse_header(bytes(row["payload"])) for row in reversed(rows)]
        shown = " ".join(
            f"{one.base_offset}+{one.record_count}(p{one.producer_id} s{one.base_sequence} "
            f"l{one.leader_epoch})"
            for one in heads
        )
        lines.append(f"{log['name']}: {shown}")
    return "\n".join(lines)


def _of_batch(row: Any) -> list[Logged]:
    found = []
    for record in iter_records(bytes(row["payload"])):
        if record.key is None:
            continue
        value = decode_record(record.key, record.value).value
        token = value.metadata if isinstance(value, OffsetCommitValue) else ""
        found.append(Logged(row["shard"], record.offset, token, row["owner"], row["epoch"]))
    return found
