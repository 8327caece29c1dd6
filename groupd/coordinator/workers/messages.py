"""What the main process and a worker ask each other: the table of calls, and their bodies as bytes.

`CALLS` has a line for each operation: who asks, what a question holds, what an answer holds. Both
ends are the same build, so a body is a plain struct as MessagePack. Payloads of record batches go
through as they are: nothing here looks into them.
"""

from __future__ import annotations

from asyncio import CancelledError
from collections.abc import Awaitable, Mapping
from enum import IntEnum
from functools import cache
from typing import Any

from msgspec import Struct, convert, msgpack

from groupd.coordinator.config.coordinator_config import CoordinatorConfig
from groupd.coordinator.core.metadata_image import MetadataDelta, MetadataImage, TopicImage
from groupd.coordinator.lag.ends import Found
from groupd.coordinator.producers.transactions import Marker, TransactionalWrite
from groupd.protocol.errors import ApiError, ErrorCode
from groupd.protocol.messages import TopicId
from groupd.storage.log import (
    Append,
    LogCorrupt,
    LogError,
    LogFenced,
    LogState,
    LogUnavailable,
    LogUncertain,
    Replacement,
    StoredBatch,
    StoreTaken,
)

TopicPartition = tuple[str, int]
GroupConfigs = Mapping[str, Mapping[str, str]]
Codes = dict[TopicPartition, ErrorCode]


# Bodies -------------------------------------------------------------------------------------


class LogRead(Struct, frozen=True):
    """The arguments of `PartitionLogs.read`."""

    name: str
    from_offset: int
    max_bytes: int
    min_one: bool


class LogStart(Struct, frozen=True):
    """Where a log is to start; see `PartitionLogs.truncate_before`."""

    name: str
    offset: int
    owner_epoch: int | None


class LogPlace(Struct, frozen=True):
    """A log, and an offset or a timestamp in milliseconds."""

    name: str
    number: int


class Forward(Struct, frozen=True):
    """A client's request as it came, without its length field, and the client's host."""

    host: str
    frame: bytes


class Verify(Struct, frozen=True):
    """The arguments of `TransactionVerifier.verify`."""

    write: TransactionalWrite
    add: bool


class Start(Struct, frozen=True):
    """Who the worker is and what it has to know. `shards`: those that it serves."""

    node_id: int
    host: str
    port: int
    shards: tuple[int, ...]
    config: CoordinatorConfig
    image: MetadataImage
    group_configs: GroupConfigs
    log_format: str
    log_level: str
    cluster_id: str


class TopicNews(Struct, frozen=True):
    """What has changed in the topics: a `MetadataDelta` without the topics that have stayed as they
    were. `versions`: the new image's version and created version."""

    versions: tuple[int, int]
    topics: tuple[TopicImage, ...]
    created: frozenset[str]
    changed: frozenset[str]
    deleted: tuple[tuple[str, TopicId], ...]

    @classmethod
    def of(cls, delta: MetadataDelta) -> TopicNews:
        image = delta.image
        topics = (image.by_name[name] for name in sorted(delta.created | delta.changed))
        versions = (image.version, image.created_version)
        return cls(versions, tuple(topics), delta.created, delta.changed, delta.deleted)

    def after(self, before: MetadataImage) -> MetadataDelta:
        """The news as a delta. `before`: the image after the last news, or that of the start."""
        gone = {name for name, _ in self.deleted}
        topics = {name: topic for name, topic in before.by_name.items() if name not in gone}
        topics |= {topic.name: topic for topic in self.topics}
        image = MetadataImage((topics[name] for name in sorted(topics)), *self.versions)
        return MetadataDelta(image, self.created, self.changed, self.deleted)


class GroupNews(Struct, frozen=True):
    """The config overrides of one group."""

    group_id: str
    configs: Mapping[str, str]


class MarkerOrder(Struct, frozen=True):
    """A marker, and the partitions of `__consumer_offsets` that get it."""

    marker: Marker
    partitions: tuple[TopicPartition, ...]


class Health(Struct, frozen=True):
    """How many shards are loading. `failed`: names of the logs of those that cannot be loaded."""

    loading: int = 0
    failed: tuple[str, ...] = ()


class Family(Struct, frozen=True):
    """A metric family. `samples`: (name, labels, value)."""

    name: str
    documentation: str
    kind: str
    samples: tuple[tuple[str, dict[str, str], float], ...]


class AdminQuestion(Struct, frozen=True):
    """A request to the admin port: the fields of `HttpRequest` that matter."""

    path: tuple[str, ...]
    query: dict[str, str]
    method: str = "GET"
    body: bytes | None = b""
    address: str = ""
    caller: str = ""


class AdminAnswer(Struct, frozen=True):
    """The answer to an `AdminQuestion`, with the fields of `HttpReply`."""

    status: int
    content_type: str
    body: bytes
    headers: tuple[tuple[str, str], ...] = ()


# The table ----------------------------------------------------------------------------------


class WorkerOperation(IntEnum):
    OPEN = 1
    APPEND = 2
    READ = 3
    FIRST_AT_OR_AFTER = 4
    WITH_MAX_TIMESTAMP = 5
    TRUNCATE_BEFORE = 6
    REPLACE = 7
    DELETE = 8
    FORWARD = 16
    VERIFY = 17
    ENDS = 18
    WRITTEN = 19
    FIRST_AT = 20
    START = 32
    METADATA = 33
    GROUP_CONFIGS = 34
    MARKER = 35
    PING = 36
    METRICS = 37
    ADMIN = 38
    STOP = 39
    BROKER_CONFIGS = 40


class CallTypes(Struct, frozen=True):
    """The types of a question and of its answer; None: there is nothing to say."""

    question: Any
    answer: Any


CALLS: Mapping[WorkerOperation, CallTypes] = {
    # Worker -> main: the logs of its own shards, see `storage.log.PartitionLogs`.
    WorkerOperation.OPEN: CallTypes(list[str], dict[str, LogState]),
    WorkerOperation.APPEND: CallTypes(list[Append], None),
    WorkerOperation.READ: CallTypes(LogRead, list[StoredBatch]),
    WorkerOperation.FIRST_AT_OR_AFTER: CallTypes(LogPlace, StoredBatch | None),
    WorkerOperation.WITH_MAX_TIMESTAMP: CallTypes(str, StoredBatch | None),
    WorkerOperation.TRUNCATE_BEFORE: CallTypes(LogStart, None),
    WorkerOperation.REPLACE: CallTypes(Replacement, None),
    WorkerOperation.DELETE: CallTypes(list[str], None),
    # Worker -> main: what only the main process can answer. FORWARD gives the frame of the reply,
    # empty if there is none; VERIFY whether logs of shards are in a producer's open transaction.
    WorkerOperation.FORWARD: CallTypes(Forward, bytes),
    WorkerOperation.VERIFY: CallTypes(Verify, Codes),
    # Worker -> main: the logs of topics, see `groupd.coordinator.lag.ends.LogEnds`.
    WorkerOperation.ENDS: CallTypes(dict[str, list[int]], Found),
    WorkerOperation.WRITTEN: CallTypes(tuple[str, int, int], int | None),
    WorkerOperation.FIRST_AT: CallTypes(tuple[str, int, int], int | None),
    # Main -> worker, the first call of all; answered once its shards are loaded.
    WorkerOperation.START: CallTypes(Start, Health),
    # Main -> worker: news, answered once its shards know.
    WorkerOperation.METADATA: CallTypes(TopicNews, None),
    WorkerOperation.GROUP_CONFIGS: CallTypes(GroupNews, None),
    WorkerOperation.BROKER_CONFIGS: CallTypes(dict[str, str], None),
    # Main -> worker: a code for each partition, once durable.
    WorkerOperation.MARKER: CallTypes(MarkerOrder, Codes),
    # Main -> worker: questions.
    WorkerOperation.PING: CallTypes(None, Health),
    WorkerOperation.METRICS: CallTypes(None, list[Family]),
    WorkerOperation.ADMIN: CallTypes(AdminQuestion, AdminAnswer),
    # Main -> worker: answered once all requests are answered and everything is closed.
    WorkerOperation.STOP: CallTypes(None, None),
}


# As bytes -----------------------------------------------------------------------------------


def encode(value: Any) -> bytes:
    """A question or an answer."""
    return b"" if value is None else _ENCODER.encode(value)


async def encoded(answer: Awaitable[Any]) -> bytes:
    """An answer that comes later."""
    return encode(await answer)


def decode_question(operation: WorkerOperation, body: bytes) -> Any:
    """Raises ValueError for bytes that are no question of that operation."""
    return _decode(CALLS[operation].question, body)


def decode_answer(operation: WorkerOperation, body: bytes) -> Any:
    """Raises ValueError for bytes that are no answer of that operation."""
    return _decode(CALLS[operation].answer, body)


def _decode(kind: Any, body: bytes) -> Any:
    return _decoder(kind).decode(body) if body else None


def _to_plain(value: Any) -> Any:
    """A value that msgspec cannot encode by itself, in a form that it can."""
    if isinstance(value, MetadataImage):
        return [tuple(value.by_name.values()), value.version, value.created_version]
    if isinstance(value, Mapping):
        return dict(value)
    raise NotImplementedError(f"{type(value).__name__} in a message")


def _from_plain(kind: type, plain: Any) -> Any:
    if kind is MetadataImage:
        topics, version, created_version = plain
        return MetadataImage(convert(topics, list[TopicImage]), version, created_version)
    raise NotImplementedError(f"{kind.__name__} in a message")


_ENCODER = msgpack.Encoder(enc_hook=_to_plain)


@cache
def _decoder(kind: Any) -> msgpack.Decoder[Any]:
    return msgpack.Decoder(kind, dec_hook=_from_plain)


# Failures -----------------------------------------------------------------------------------


class Failure(Struct, frozen=True):
    """An exception that the caller gets as it was raised. `code`: that of an ApiError; `logs`:
    those of LogFenced."""

    kind: str
    text: str | None
    code: int = 0
    logs: tuple[str, ...] = ()


_PLAIN: dict[str, type[Exception]] = {
    "taken": StoreTaken,
    "uncertain": LogUncertain,
    "unavailable": LogUnavailable,
    "corrupt": LogCorrupt,
    "value": ValueError,
}
"""The most special ones come first."""


def encode_failure(error: BaseException) -> tuple[bytes, bool]:
    """The bytes, and whether it is one of the failures that are meant to be passed on; others
    are bugs and become LogUncertain: what they have done is unknown."""
    if isinstance(error, ApiError):
        return encode(Failure("api", _utf8(error.message), code=error.code)), True
    if isinstance(error, LogFenced):
        logs = tuple(_utf8(name) or "" for name in error.logs)
        return encode(Failure("fenced", None, logs=logs)), True
    kind = next((name for name, of in _PLAIN.items() if isinstance(error, of)), None)
    text = _utf8(str(error))
    if kind is not None:
        return encode(Failure(kind, text)), True
    expected = isinstance(error, (LogError, CancelledError))
    return encode(Failure("uncertain", f"{type(error).__name__}: {text}")), expected


def _utf8(text: str | None) -> str | None:
    """A message may quote the name of a file, which need not be Unicode."""
    return None if text is None else text.encode(errors="replace").decode()


def decode_failure(body: bytes) -> Exception:
    """Raises ValueError or LookupError for bytes that are no failure."""
    failure: Failure = _decode(Failure, body)
    if failure.kind == "api":
        return ApiError(ErrorCode(failure.code), failure.text)
    if failure.kind == "fenced":
        return LogFenced(failure.logs)
    return _PLAIN[failure.kind](failure.text)
