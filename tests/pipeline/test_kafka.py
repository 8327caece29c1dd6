"""Spark's own Kafka source and the identical decoder, over groupd's port."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from groupd.pipeline.inputs import (
    Origin,
    read_end_offsets,
    read_entries,
    read_topics,
)
from groupd.pipeline.kafka import kafka_entries
from groupd.pipeline.row_filter import RowFilter
from tests.support.daemon import Daemon
from tests.support.doc_snippets import snippets
from tests.support.kafka_broker import KafkaBroker
from tests.support.pipeline_command import groupd_pipeline
from tests.support.toolchain import spark_kafka_jars

FROM_HEADERS = ("transactional", "producer_id", "producer_epoch", "sequence")
"""Columns that only a batch's header tells, which Spark's source keeps to itself."""


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    spark_kafka_jars()
    directory = tmp_path_factory.mktemp("daemon")
    peer = Daemon(directory, topics={"orders": 3}, settings={"offsets.topic.num.partitions": "4"})
    peer.start()
    for group, protocol in (("classic", "classic"), ("modern", "consumer")):
        _consume(peer, group, protocol)
    yield peer
    peer.close()


def _consume(peer: Daemon | KafkaBroker, group: str, protocol: str) -> None:
    consumer = Consumer(
        {
            "bootstrap.servers": peer.bootstrap,
            "group.id": group,
            "group.protocol": protocol,
            "enable.auto.commit": False,
        }
    )
    assigned: list[TopicPartition] = []
    consumer.subscribe(["orders"], on_assign=lambda _, found: assigned.extend(found))
    for _ in range(300):
        consumer.poll(0.1)
        if assigned:
            break
    assert len(assigned) == 3
    for at in (1, 2):
        commits = [TopicPartition("orders", number, at * 10) for number in range(3)]
        consumer.commit(offsets=commits, asynchronous=False)
    consumer.close()


def comparable(frame: DataFrame) -> list[dict[str, object]]:
    rows = frame.drop(*FROM_HEADERS).orderBy("log_partition", "log_offset").collect()
    return [row.asDict(recursive=True) for row in rows]


def test_the_same_rows_as_from_the_store_of_the_running_daemon(
    spark: SparkSession, daemon: Daemon
) -> None:
    from_store = read_entries(spark, Origin(store=str(daemon.data_dir)))
    expected = comparable(from_store)
    kinds = {row["record_type"] for row in expected}
    assert {"offset-commit", "group-metadata", "consumer-group-current-member-assignment"} <= kinds
    from_kafka = kafka_entries(spark, daemon.bootstrap)
    assert from_kafka.schema == from_store.schema
    assert comparable(from_kafka) == expected
    (row,) = from_kafka.select(*FROM_HEADERS).distinct().collect()
    assert tuple(row) == (False, None, None, None)


def test_columns_and_groups_of_kafka(spark: SparkSession, daemon: Daemon) -> None:
    wanted = RowFilter(groups=frozenset({"modern"}), types=frozenset({"offset-commit"}))
    columns = ("group", "topic", "partition", "offset_commit")
    frame = kafka_entries(spark, daemon.bootstrap, columns=columns, wanted=wanted)
    assert frame.columns == list(columns)
    last = frame.groupBy("group", "topic", "partition").agg(F.max("offset_commit.offset"))
    assert sorted(map(tuple, last.collect())) == [("modern", "orders", n, 20) for n in range(3)]
    assert frame.count() == 6
    late = Origin(
        kafka=daemon.bootstrap, wanted=RowFilter(from_us=4_000_000_000_000_000, rest=True)
    )
    assert read_entries(spark, late).count() == 0


def test_the_cluster_says_its_topics_and_ends(spark: SparkSession, daemon: Daemon) -> None:
    by_kafka, by_store = Origin(kafka=daemon.bootstrap), Origin(store=str(daemon.data_dir))
    topics = [row for row in read_topics(spark, by_kafka).collect() if row.topic == "orders"]
    assert topics == read_topics(spark, by_store).collect()
    assert topics[0].partitions == 3
    ends = read_end_offsets(spark, by_kafka).where("topic = 'orders'").orderBy("partition")
    assert ends.collect() == read_end_offsets(spark, by_store).orderBy("partition").collect()


def test_the_command_of_the_documentation(
    spark: SparkSession, daemon: Daemon, tmp_path: Path
) -> None:
    """The session has the package already, and the daemon speaks no TLS."""
    (snippet,) = [one for one in snippets("pipeline.md") if "--kafka broker:9092" in one.code]
    code = snippet.code.replace("broker:9092", daemon.bootstrap).replace("=SSL", "=PLAINTEXT")
    said = groupd_pipeline(spark, shlex.split(code.replace("./tables", str(tmp_path)))[1:])
    assert said.split()[:3] == ["commits", "12", "rows"]
    assert spark.read.parquet(str(tmp_path / "commits")).count() == 12


def test_a_stream_of_kafka(spark: SparkSession, daemon: Daemon, tmp_path: Path) -> None:
    columns = ("log_partition", "log_offset")
    stream = kafka_entries(spark, daemon.bootstrap, columns=columns, streaming=True)
    query = (
        stream.writeStream.format("parquet")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start(str(tmp_path / "out"))
    )
    query.awaitTermination()
    expected = read_entries(spark, Origin(store=str(daemon.data_dir))).select(*columns)
    found = spark.read.parquet(str(tmp_path / "out"))
    assert sorted(map(tuple, found.collect())) == sorted(map(tuple, expected.collect()))


@pytest.mark.timeout(240)
def test_a_real_cluster_by_kafka_and_by_its_files(spark: SparkSession, tmp_path: Path) -> None:
    broker = KafkaBroker(tmp_path, topics={"orders": 3})
    try:
        broker.start()
        for group, protocol in (("classic", "classic"), ("modern", "consumer")):
            _consume(broker, group, protocol)
        found = comparable(kafka_entries(spark, broker.bootstrap))
        ends = read_end_offsets(spark, Origin(kafka=broker.bootstrap)).where("topic = 'orders'")
        assert [(row.partition, row.end_offset) for row in ends.orderBy("partition").collect()] == [
            (0, 0),
            (1, 0),
            (2, 0),
        ]
    finally:
        broker.close()
    assert all(row["error"] is None for row in found)
    assert [row["record_type"] for row in found].count("offset-commit") == 12
    assert {row["group"] for row in found} == {"classic", "modern"}
    # Also records that the broker wrote when it stopped would be in the files.
    files = comparable(read_entries(spark, Origin(segments=str(tmp_path / "data"))))
    assert files[: len(found)] == found
