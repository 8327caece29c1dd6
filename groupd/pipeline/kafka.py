"""Reads the same rows from Kafka itself, with Spark's own Kafka source and the same decoder.

Spark gives key, value, partition, offset and timestamp of a record, but neither producers nor
control records. So the broker resolves transactions (`read_committed`): it sends no records of
aborted transactions and nothing behind the first open one, and every row that arrives counts as it
stands. Therefore `transactional` is false, there are no markers, and `producer_id`,
`producer_epoch` and `sequence` are null.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any
from uuid import UUID

import pyarrow as pa
from msgspec.json import encode
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from groupd.pipeline.decode import ROWS_A_BATCH, RecordSource
from groupd.pipeline.errors import PipelineError
from groupd.pipeline.logs import OFFSETS, SOURCE_LOGS, SourceLog
from groupd.pipeline.row_filter import EVERYTHING, RowFilter

PACKAGE = "org.apache.spark:spark-sql-kafka-0-10_2.13"
_RESOLVED = RecordSource(False, None, None, None)
_TIMEOUT_S = 30
_BY_CONSUMER = "spark.sql.streaming.kafka.useDeprecatedOffsetFetching"
_NO_SOURCE = "Failed to find data source: kafka"


def kafka_entries(
    spark: SparkSession,
    bootstrap: str,
    *,
    source: SourceLog = OFFSETS,
    columns: Sequence[str] = (),
    wanted: RowFilter = EVERYTHING,
    options: Mapping[str, str] | None = None,
    streaming: bool = False,
) -> DataFrame:
    """Rows of a log, by default `schema.ENTRIES`; `columns` () are all. There are none if the
    cluster has no such topic. `options`: those of Spark's Kafka source, also `kafka.*` for TLS and
    SASL. Raises PipelineError if that source is not installed."""
    columns = tuple(columns) or source.columns
    schema = StructType([source.schema[name] for name in columns])
    topic = source.log.topic
    with KafkaSource(spark, bootstrap, options) as cluster:
        partitions = cluster.partitions(topic)
    if not partitions:
        return spark.createDataFrame([], schema)
    # Spark leaves internal topics out unless it asks a consumer instead of the admin client.
    spark.conf.set(_BY_CONSUMER, "true")
    given = {
        "kafka.bootstrap.servers": bootstrap,
        "assign": encode({topic: list(range(partitions))}).decode(),
        "startingOffsets": "earliest",
        "kafka.isolation.level": "read_committed",
        **(options or {}),
    }
    if wanted.from_us is not None and "startingTimestamp" not in given:
        given["startingTimestamp"] = str(-(-wanted.from_us // 1000))
        given["startingOffsetsByTimestampStrategy"] = "latest"
        del given["startingOffsets"]
    reader = (spark.readStream if streaming else spark.read).format("kafka").options(**given)
    try:
        frame = reader.load()
    except PySparkException as error:
        if _NO_SOURCE not in str(error):
            raise
        raise _missing(spark) from error
    plain = frame.select("partition", "offset", "timestamp", "key", "value")
    return plain.mapInArrow(_decoder(topic, columns, wanted), schema)


def _missing(spark: SparkSession) -> PipelineError:
    return PipelineError(
        f"Spark's Kafka source is missing: add --packages {PACKAGE}:{spark.version}"
    )


def _decoder(
    topic: str, columns: tuple[str, ...], wanted: RowFilter
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def decode(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        out = SOURCE_LOGS[topic].rows(columns, wanted)
        for batch in batches:
            partitions, offsets, times, keys, values = batch.columns
            rows = zip(
                partitions.to_pylist(),
                offsets.to_pylist(),
                times.cast(pa.int64()).to_pylist(),
                keys.to_pylist(),
                values.to_pylist(),
                strict=True,
            )
            for partition, records in groupby(rows, itemgetter(0)):
                found = [
                    (offset, time_us // 1000, key, value, ())
                    for _, offset, time_us, key, value in records
                ]
                out.add_records(partition, found, _RESOLVED)
            if len(out) >= ROWS_A_BATCH:
                yield out.take()
        if len(out):
            yield out.take()

    return decode


class KafkaSource:
    """Asks the cluster about its topics, with the Kafka client of Spark's source. A context
    manager. Raises PipelineError if the source is not installed or the cluster does not answer."""

    def __init__(
        self, spark: SparkSession, bootstrap: str, options: Mapping[str, str] | None = None
    ) -> None:
        jvm: Any = spark._jvm
        assert jvm is not None
        self._jvm = jvm
        properties = jvm.java.util.Properties()
        given = {"bootstrap.servers": bootstrap, "default.api.timeout.ms": f"{_TIMEOUT_S}000"}
        for key, value in (options or {}).items():
            if key.startswith("kafka."):
                given[key.removeprefix("kafka.")] = value
        for key, value in given.items():
            properties.setProperty(key, value)
        try:
            self._admin = jvm.org.apache.kafka.clients.admin.AdminClient.create(properties)
        except TypeError as error:
            raise _missing(spark) from error
        self._bootstrap = bootstrap

    def __enter__(self) -> KafkaSource:
        return self

    def __exit__(self, *_: object) -> None:
        self._admin.close()

    def _get(self, future: Any) -> Any:
        from py4j.protocol import Py4JJavaError

        try:
            return future.get(_TIMEOUT_S, self._jvm.java.util.concurrent.TimeUnit.SECONDS)
        except Py4JJavaError as error:
            said = str(error.java_exception.getMessage()).partition("\n")[0]
            raise PipelineError(f"{self._bootstrap} does not answer: {said}") from error

    def partitions(self, topic: str) -> int:
        """The number of partitions of a topic, internal topics included; 0 if there is none."""
        internal = self._jvm.org.apache.kafka.clients.admin.ListTopicsOptions().listInternal(True)
        if topic not in self._get(self._admin.listTopics(internal).names()):
            return 0
        names = self._jvm.java.util.HashSet()
        names.add(topic)
        found = self._get(self._admin.describeTopics(names).allTopicNames())
        return int(found.get(topic).partitions().size())

    def topics(self) -> list[tuple[str, str, int]]:
        """Id, name and number of partitions of each topic."""
        names = self._get(self._admin.listTopics().names())
        found = self._get(self._admin.describeTopics(names).allTopicNames())
        topics = []
        for name in sorted(found.keySet()):
            topic = found.get(name)
            topic_id = topic.topicId()
            high, low = topic_id.getMostSignificantBits(), topic_id.getLeastSignificantBits()
            number = (high & (2**64 - 1)) << 64 | (low & (2**64 - 1))
            topics.append((str(UUID(int=number)), name, topic.partitions().size()))
        return topics

    def ends(self) -> list[tuple[str, int, int]]:
        """Topic, partition and end offset of all partitions that consumers can see."""
        latest = self._jvm.org.apache.kafka.clients.admin.OffsetSpec.latest()
        wanted = self._jvm.java.util.HashMap()
        for _, name, partitions in self.topics():
            for number in range(partitions):
                place = self._jvm.org.apache.kafka.common.TopicPartition(name, number)
                wanted.put(place, latest)
        found = self._get(self._admin.listOffsets(wanted).all())
        return sorted(
            (place.topic(), place.partition(), found.get(place).offset())
            for place in found.keySet()
        )
