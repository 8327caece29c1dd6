"""Reads the tables that jobs take, wherever the log is.

Rows that could not be decoded are kept apart, with their place in the log and the reason.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from msgspec import Struct, field
from msgspec.json import encode
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from groupd.pipeline.errors import PipelineError
from groupd.pipeline.files import exists
from groupd.pipeline.generator.sinks import END_OFFSETS_FILE
from groupd.pipeline.job import Inputs
from groupd.pipeline.kafka import KafkaSource, kafka_entries
from groupd.pipeline.logs import OFFSETS, SourceLog
from groupd.pipeline.row_filter import RowFilter
from groupd.pipeline.schema import END_OFFSETS, TOPICS
from groupd.pipeline.source import FORMAT, GroupdDataSource
from groupd.pipeline.store import StoreLogs
from groupd.pipeline.values import topic_id_text

# Quarantine ---------------------------------------------------------------------------------

# Rows that could not be decoded go to quarantine. A job reports their number and goes on.

QUARANTINE = "quarantine"
QUARANTINE_COLUMNS = (
    "log_partition",
    "log_offset",
    "timestamp",
    "record_type",
    "record_type_id",
    "value_version",
    "group",
    "error",
    "key",
    "value",
)


# Inputs -------------------------------------------------------------------------------------

# A log comes from one of: a store, Kafka's own internal topic, segment files, or a lake (output of
# the jobs `entries` and `share-entries`). All of them give the same rows. Names of topics and end
# offsets of partitions are not in the log; they come from the store, the cluster or files.

_ENDS_MAX = 1_000_000
"""At most this many end offsets are read from a store, because they pass through the driver's
memory."""

_SEEN_COLUMNS = ("record_type_id", "topic", "offset_commit", "share_partitions")


class Origin(Struct, frozen=True):
    """Where the log is. Exactly one of the first four is given. `wanted` selects groups and times;
    rows that name no group or have no time stay. `kafka_options`: options of Spark's Kafka
    source."""

    store: str | None = None
    kafka: str | None = None
    segments: str | None = None
    lake: str | None = None
    topics_file: str | None = None
    end_offsets_file: str | None = None
    wanted: RowFilter = field(default_factory=lambda: RowFilter(rest=True))
    kafka_options: Mapping[str, str] = field(default_factory=dict)
    source_options: Mapping[str, str] = field(default_factory=dict)

    def check(self) -> None:
        """Raises PipelineError unless exactly one input is given."""
        given = [one for one in (self.store, self.kafka, self.segments, self.lake) if one]
        if len(given) != 1:
            raise PipelineError(
                "say where the log is: one of --store, --kafka, --segments and --lake"
            )
        if self.store is not None:
            StoreLogs(self.store).close()


def read_entries(
    spark: SparkSession,
    origin: Origin,
    columns: tuple[str, ...] = (),
    log: SourceLog = OFFSETS,
) -> DataFrame:
    """The rows of the log, those with `error` included. `columns`: () are all. Raises
    PipelineError."""
    columns = columns or log.columns
    if origin.kafka is not None:
        frame = kafka_entries(
            spark,
            origin.kafka,
            source=log,
            columns=columns,
            wanted=origin.wanted,
            options=origin.kafka_options,
        )
    elif origin.lake is not None:
        frame = _restrict(lake_entries(spark, origin.lake, log), origin.wanted).select(*columns)
    else:
        frame = _source(spark, origin, columns, log)
    return frame


def lake_entries(spark: SparkSession, directory: str | Path, log: SourceLog = OFFSETS) -> DataFrame:
    """The output of the job that is named like the log's table. `directory` contains it, or is the
    table `entries` itself. A lake may be without a table of the state of share groups."""
    path = str(directory).rstrip("/")
    if exists(spark, f"{path}/{log.table}"):
        path = f"{path}/{log.table}"
    elif not exists(spark, path):
        raise PipelineError(f"{directory}: there is no such lake: write one with the job entries")
    elif log != OFFSETS:
        return spark.createDataFrame([], log.schema)
    return spark.read.schema(log.schema).parquet(path).select(*log.columns)


def _source(
    spark: SparkSession, origin: Origin, columns: tuple[str, ...], log: SourceLog
) -> DataFrame:
    spark.dataSource.register(GroupdDataSource)
    wanted = origin.wanted
    options = {"columns": ",".join(columns), "log": log.log.topic, **origin.source_options}
    if origin.store is not None:
        options["store"] = origin.store
    elif origin.segments is not None:
        options["segments"] = origin.segments
    if wanted.groups is not None:
        options["groups"] = encode(sorted(wanted.groups)).decode()
    for name, micros in (("from", wanted.from_us), ("until", wanted.until_us)):
        if micros is not None:
            # Rounded up: records have whole milliseconds, so this selects the same rows.
            options[name] = str(-(-micros // 1000))
    return spark.read.format(FORMAT).options(**options).load()


def _restrict(frame: DataFrame, wanted: RowFilter) -> DataFrame:
    group, time = F.col("group"), F.col("timestamp")
    if wanted.groups is not None:
        frame = frame.where(group.isNull() | group.isin(*sorted(wanted.groups)))
    if wanted.from_us is not None:
        frame = frame.where(time.isNull() | (time >= F.timestamp_micros(F.lit(wanted.from_us))))
    if wanted.until_us is not None:
        frame = frame.where(time.isNull() | (time < F.timestamp_micros(F.lit(wanted.until_us))))
    return frame


def read_table(spark: SparkSession, path: str, schema: StructType) -> DataFrame:
    """Reads a table that the user gives. The ending of the name tells the format: .csv (with a
    header), .json (one object a line), else Parquet. Columns that it lacks are null. Raises
    PipelineError."""
    if not exists(spark, path):
        raise PipelineError(f"{path}: there is no such file")
    reader = spark.read
    if path.endswith(".csv"):
        found = reader.option("header", True).csv(path)
    elif path.endswith((".json", ".jsonl", ".ndjson")):
        found = reader.json(path)
    else:
        found = reader.parquet(path)
    for name in found.columns:
        if name not in schema.names:
            raise PipelineError(
                f"{path}: there is no column {name}: there are {', '.join(schema.names)}"
            )
    return found.select(
        *[
            (F.col(one.name) if one.name in found.columns else F.lit(None))
            .cast(one.dataType)
            .alias(one.name)
            for one in schema
        ]
    )


def read_topics(spark: SparkSession, origin: Origin) -> DataFrame:
    """Topics by id, from the file if there is one, else from the catalogue of the store or the
    cluster. Topics that commits and share groups name are added, which covers deleted ones."""
    if origin.topics_file is not None:
        known = read_table(spark, origin.topics_file, TOPICS)
    else:
        known = spark.createDataFrame(_catalogue(spark, origin), TOPICS)
    rows = read_entries(spark, origin, _SEEN_COLUMNS).where("record_type_id IN (1, 15)")
    committed = F.array(F.struct(F.col("offset_commit.topic_id").alias("topic_id"), "topic"))
    shared = F.transform(
        "share_partitions.initialized",
        lambda one: F.struct(one["topic_id"].alias("topic_id"), one["topic_name"].alias("topic")),
    )
    named = F.when(F.col("record_type_id") == 1, committed).otherwise(shared)
    seen = (
        rows.select(F.inline(named))
        .where("topic_id IS NOT NULL")
        .distinct()
        .join(known.select("topic_id"), "topic_id", "left_anti")
        .withColumn("partitions", F.lit(None).cast("int"))
    )
    return known.unionByName(seen)


def _catalogue(spark: SparkSession, origin: Origin) -> Sequence[tuple[str | None, str, int]]:
    if origin.store is not None:
        with StoreLogs(origin.store) as logs:
            return [(topic_id_text(t.topic_id), t.name, t.partitions) for t in logs.topics()]
    if origin.kafka is not None:
        with KafkaSource(spark, origin.kafka, origin.kafka_options) as cluster:
            return cluster.topics()
    return []


def read_end_offsets(
    spark: SparkSession, origin: Origin, step: timedelta | None = None
) -> DataFrame:
    """End offsets: from the file if there is one, else as they are now in the store's own topics or
    in the cluster. With a `step` also the end offsets over time, in steps of that length, where the
    input has them: a store has the times of its topics' records, and the generator writes a file of
    them beside the segments. Raises PipelineError."""
    if origin.end_offsets_file is not None:
        return read_table(spark, origin.end_offsets_file, END_OFFSETS)
    ends: list[tuple[str, int, int, datetime | None]] = []
    if origin.store is not None:
        with StoreLogs(origin.store) as logs:
            ends = [(*end, None) for end in logs.ends()]
            if step is not None:
                ends += _ends_over_time(logs, step)
    elif origin.kafka is not None:
        with KafkaSource(spark, origin.kafka, origin.kafka_options) as cluster:
            ends = [(*end, None) for end in cluster.ends()]
    elif origin.segments is not None and step is not None:
        beside = Path(origin.segments) / END_OFFSETS_FILE
        if beside.is_file():
            return read_table(spark, str(beside), END_OFFSETS)
    return spark.createDataFrame(ends, END_OFFSETS)


def _ends_over_time(
    logs: StoreLogs, step: timedelta
) -> Iterator[tuple[str, int, int, datetime | None]]:
    step_ms = step // timedelta(milliseconds=1)
    for number, (topic, partition, end, at_ms) in enumerate(logs.ends_by_time(step_ms)):
        if number == _ENDS_MAX:
            raise PipelineError(
                f"the store's topics changed in too many steps of {step} (their ends are more than"
                f" {_ENDS_MAX:,}): choose a longer window"
            )
        yield topic, partition, end, datetime.fromtimestamp(at_ms / 1000, UTC)


def read_inputs(
    spark: SparkSession,
    origin: Origin,
    columns: tuple[str, ...] = (),
    step: timedelta | None = None,
    log: SourceLog = OFFSETS,
) -> Inputs:
    """The tables that a job takes. `columns`: those of `log` that the job uses, () for all. The
    others are not decoded: they exist, so that the job can still name them, but are null. `step`:
    see `read_end_offsets`. Raises PipelineError."""
    columns = columns or log.columns
    with_error = tuple(dict.fromkeys((*columns, "error")))
    good = read_entries(spark, origin, with_error, log).where(F.col("error").isNull())
    good = good.select(
        *[
            F.col(one.name)
            if one.name in columns
            else F.lit(None).cast(one.dataType).alias(one.name)
            for one in log.schema
        ]
    )
    return Inputs(good, read_topics(spark, origin), read_end_offsets(spark, origin, step))


def read_quarantine(spark: SparkSession, origin: Origin, log: SourceLog = OFFSETS) -> DataFrame:
    """The rows that `read_inputs` leaves out, because they cannot be decoded. Raises
    PipelineError."""
    return read_entries(spark, origin, QUARANTINE_COLUMNS, log).where(F.col("error").isNotNull())
