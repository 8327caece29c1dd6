"""A store with known content, and the judgement on a damaged copy of it.

The judge is the whole daemon, asked over TCP. It may refuse to start, with one line; it may refuse
single groups and partitions; everything that it does serve must be what was acknowledged.
"""

from __future__ import annotations

import random
import shutil
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from structlog.testing import capture_logs

from groupd.coordinator.config.coordinator_config import CoordinatorConfig
from groupd.coordinator.daemon.daemon import CannotStart, Daemon
from groupd.coordinator.daemon.options import DaemonOptions
from groupd.protocol.records.batch import iter_records, verify_crc
from groupd.protocol.records.batch_builder import encode_batch
from groupd.storage.open import DATABASE_FILE
from tests.crash.wire import (
    Connection,
    Reader,
    commit_body,
    commit_errors,
    data_fetch_body,
    fetched_records,
    offset_fetch_body,
    produce_body,
    produced,
)
from tests.support.fetched import whole_batches

PRODUCE, FETCH, OFFSET_COMMIT, OFFSET_FETCH, INIT_PRODUCER_ID = 0, 1, 8, 9, 22
GROUPS = [f"group-{number}" for number in range(16)]
SHARDS = 4
INTERNAL = {"__consumer_offsets": SHARDS, "__share_group_state": 50, "__transaction_state": 50}
TOPICS = {"events": 2, "orders": 3}
TOPIC_CONFIG, GROUP_CONFIG = ("retention.ms", "1234567"), ("consumer.session.timeout.ms", "54321")
RESOURCE_TOPIC, RESOURCE_GROUP = 2, 32
REFUSED_GROUP = {14, 16}
REFUSED_DATA = {2, 6, 56}
"""CORRUPT_MESSAGE, NOT_LEADER_OR_FOLLOWER, KAFKA_STORAGE_ERROR"""


@dataclass
class Content:
    """What was acknowledged."""

    offsets: dict[str, int] = field(default_factory=dict)
    records: dict[int, list[bytes]] = field(default_factory=lambda: {0: [], 1: []})
    cluster_id: str = ""
    producer_ids: int = 0


@dataclass
class Verdict:
    """`refused`: why the daemon did not start. `failures`: what it did not serve. `wrong`: what it
    served that was never acknowledged, or left out. `logged`: its errors."""

    refused: str = ""
    failures: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    logged: list[str] = field(default_factory=list)

    @property
    def whole(self) -> bool:
        return not (self.refused or self.failures or self.wrong)


@asynccontextmanager
async def serving(directory: Path) -> AsyncIterator[tuple[Daemon, Connection]]:
    """A daemon in this process on `directory`. Raises CannotStart."""
    config = CoordinatorConfig(offsets_topic_num_partitions=SHARDS)
    daemon = Daemon(
        DaemonOptions(
            listen=("127.0.0.1", 0),
            admin=("127.0.0.1", 0),
            data_dir=directory,
            topics=tuple(TOPICS.items()),
            config=config,
        )
    )
    await daemon.start()
    try:
        connection = await Connection.open(daemon.kafka_address[1])
        try:
            yield daemon, connection
        finally:
            await connection.close()
    finally:
        await daemon.stop()


async def fill(connection: Connection, content: Content, rounds: int) -> None:
    """Writes more of everything, until all of it is acknowledged."""
    source = random.Random(len(content.records[0]))
    for _ in range(rounds):
        for group in GROUPS:
            offset = content.offsets.get(group, 0) + source.randint(1, 9)
            entry = (0, offset, "m" * source.randint(0, 200))
            body = commit_body(group, "orders", [entry])
            assert commit_errors(await connection.call(OFFSET_COMMIT, 7, body)) == [0]
            content.offsets[group] = offset
        for partition, records in content.records.items():
            batch = [source.randbytes(source.choice((10, 300, 6000))) for _ in range(2)]
            payload = encode_batch(0, -1, 0, [(None, value) for value in batch])
            body = produce_body("events", partition, payload)
            assert produced(await connection.call(PRODUCE, 7, body)) == (0, len(records))
            records += batch


async def make(directory: Path) -> tuple[Content, Path, Path]:
    """Stores in two directories that hold the same: one that was closed, and one as a killed daemon
    leaves it, most of it in the write-ahead log."""
    content = Content()
    closed, killed = directory / "closed", directory / "killed"
    with capture_logs():
        async with serving(closed) as (_, connection):
            await _configure(connection)
            content.cluster_id = (await connection.ask("Metadata", 12, {"topics": None}))[
                "cluster_id"
            ]
            content.producer_ids = await _producer_id(connection)
            await fill(connection, content, 6)
        async with serving(closed) as (_, connection):
            await fill(connection, content, 6)
            shutil.copytree(closed, killed)
    assert (killed / f"{DATABASE_FILE}-wal").stat().st_size > 100_000
    assert not (closed / f"{DATABASE_FILE}-wal").exists()
    return content, closed, killed


async def _configure(connection: Connection) -> None:
    for resource_type, name, (key, value) in (
        (RESOURCE_TOPIC, "orders", TOPIC_CONFIG),
        (RESOURCE_GROUP, GROUPS[0], GROUP_CONFIG),
    ):
        config = {"name": key, "config_operation": 0, "value": value}
        resource = {"resource_type": resource_type, "resource_name": name, "configs": [config]}
        reply = await connection.ask("IncrementalAlterConfigs", 1, {"resources": [resource]})
        assert [one["error_code"] for one in reply["responses"]] == [0]


async def _producer_id(connection: Connection) -> int:
    reply = await connection.call(INIT_PRODUCER_ID, 0, struct.pack(">hi", -1, 60_000))
    reply.skip(4)
    assert reply.i16() == 0
    return reply.i64()


async def judge(directory: Path, content: Content) -> Verdict:
    verdict = Verdict()
    with capture_logs() as logs:
        try:
            async with serving(directory) as (_, connection):
                await _judge_groups(connection, content, verdict)
                await _judge_data(connection, content, verdict)
                await _judge_catalogue(connection, content, verdict)
        except CannotStart as refused:
            verdict.refused = str(refused)
            assert "\n" not in verdict.refused
    verdict.logged = [
        str({k: v for k, v in entry.items() if k != "exc_info"})
        for entry in logs
        if entry["log_level"] == "error"
    ]
    return verdict


async def _judge_groups(connection: Connection, content: Content, verdict: Verdict) -> None:
    for group, offset in content.offsets.items():
        reply = await connection.call(OFFSET_FETCH, 5, offset_fetch_body(group, "orders", [0]))
        found = _fetched_offset(reply)
        if found in REFUSED_GROUP:
            verdict.failures.append(group)
        elif found != (offset,):
            verdict.wrong.append(f"{group}: {found} instead of {offset}")


def _fetched_offset(reply: Reader) -> tuple[int] | int:
    """The offset, or the error code."""
    reply.skip(4)
    offset = -1
    for _ in range(reply.i32()):
        reply.string()
        reply.skip(8)
        offset = reply.i64()
        reply.skip(4)
        reply.string()
        reply.skip(2)
    error = reply.i16()
    return error or (offset,)


async def _judge_data(connection: Connection, content: Content, verdict: Verdict) -> None:
    for partition, records in content.records.items():
        offset, error = 0, 0
        while offset < len(records):
            body = data_fetch_body("events", partition, offset)
            reply = await connection.call(FETCH, 4, body)
            error, _, payload = fetched_records(reply)
            if error:
                break
            before = offset
            for batch in whole_batches(payload):
                if not verify_crc(batch.payload):
                    verdict.wrong.append(f"events-{partition}: a batch at {offset}")
                for record in iter_records(batch):
                    if record.offset != offset or record.value != records[offset]:
                        verdict.wrong.append(f"events-{partition}: the record at {offset}")
                        return
                    offset += 1
            if offset == before:
                verdict.wrong.append(f"events-{partition}: nothing from {offset} on")
                return
        if error in REFUSED_DATA:
            verdict.failures.append(f"events-{partition}")
        elif error:
            verdict.wrong.append(f"events-{partition}: error {error} at {offset}")


async def _judge_catalogue(connection: Connection, content: Content, verdict: Verdict) -> None:
    reply = await connection.ask("Metadata", 12, {"topics": None})
    found = {one["name"]: len(one["partitions"]) for one in reply["topics"]}
    if found != {**TOPICS, **INTERNAL}:
        verdict.wrong.append(f"topics {found}")
    if reply["cluster_id"] != content.cluster_id:
        verdict.wrong.append(f"cluster id {reply['cluster_id']}")
    for resource_type, name, (key, value) in (
        (RESOURCE_TOPIC, "orders", TOPIC_CONFIG),
        (RESOURCE_GROUP, GROUPS[0], GROUP_CONFIG),
    ):
        resource = {
            "resource_type": resource_type,
            "resource_name": name,
            "configuration_keys": [key],
        }
        reply = await connection.ask("DescribeConfigs", 4, {"resources": [resource]})
        (result,) = reply["results"]
        if [one["value"] for one in result["configs"]] != [value]:
            verdict.wrong.append(f"configs of {name}: {result}")
    producer_id = await _producer_id(connection)
    if producer_id <= content.producer_ids:
        verdict.wrong.append(f"producer id {producer_id} was given out before")
