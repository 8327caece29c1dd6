"""Inputs and outputs of the core, as data."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from enum import Enum, IntEnum
from typing import Any, Protocol

from msgspec import Struct, field

from groupd.coordinator.core.slices import Steps
from groupd.protocol.errors import ErrorCode
from groupd.protocol.records.schema import Record

RequestToken = Any
"""Names one request that waits for its answer. The core only keeps it and gives it back with the
reply; in a broker it is the waiter itself (`groupd.coordinator.runtime.waiting.Waiter`)."""

NO_TOKEN: RequestToken = -1


class Instant(Struct, frozen=True):
    """Deadlines use `monotonic_ms`; persisted timestamps use `wall_ms`."""

    monotonic_ms: int
    wall_ms: int


class Operation(IntEnum):
    """ACL operations, Kafka's codes."""

    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12


class Resource(Enum):
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5


def allow_all(operation: Operation, resource: Resource, name: str) -> bool:
    """The default authoriser."""
    return True


class RequestContext(Struct, frozen=True):
    """Who asks. `client_host` has Kafka's form "/127.0.0.1"; a null client id is "".

    `allows(operation, resource, name)` answers for this request's principal.
    """

    token: RequestToken
    api_version: int
    client_id: str = ""
    client_host: str = "/127.0.0.1"
    allows: Callable[[Operation, Resource, str], bool] = allow_all

    def with_token(self, token: RequestToken) -> RequestContext:
        return RequestContext(
            token, self.api_version, self.client_id, self.client_host, self.allows
        )


DataHandler = Callable[[RequestContext, Any], Awaitable[Any]]
"""(context, request) -> reply, for requests that are not about groups. None, only from Produce with
acks=0: send nothing. It may raise ApiError for the whole request; everything else that is foreseen
is inside the reply."""


class EventKind(Enum):
    """Facts worth counting, logging or showing to an operator."""

    GROUP_CREATED = "group-created"
    GROUP_DELETED = "group-deleted"
    GROUP_EPOCH_BUMPED = "group-epoch-bumped"
    TARGET_INSTALLED = "target-installed"
    MEMBER_JOINED = "member-joined"
    MEMBER_REPLACED = "member-replaced"
    MEMBER_EPOCH_ADVANCED = "member-epoch-advanced"
    MEMBER_LEFT = "member-left"
    MEMBER_FENCED = "member-fenced"
    PARTITIONS_REVOKING = "partitions-revoking"
    PARTITIONS_ASSIGNED = "partitions-assigned"
    REBALANCE_STARTED = "rebalance-started"
    REBALANCE_COMPLETED = "rebalance-completed"
    ASSIGNOR_FAILED = "assignor-failed"
    REGEX_RESOLVED = "regex-resolved"
    REGEX_FAILED = "regex-failed"
    GROUP_CONVERTED = "group-converted"
    OFFSETS_COMMITTED = "offsets-committed"
    OFFSETS_EXPIRED = "offsets-expired"
    OFFSETS_DELETED = "offsets-deleted"
    OFFSETS_FORGOTTEN = "offsets-forgotten"


class Event(Struct, frozen=True):
    """`cause`: why, in words; `details`: kind-specific facts with JSON-friendly values."""

    kind: EventKind
    group_id: str
    member_id: str = ""
    epoch: int = -1
    cause: str = ""
    details: Mapping[str, Any] = field(default_factory=dict)


class Completion(Struct, frozen=True):
    """Asks the shell to call `shard.appended(completion, error, now)` once this outcome's
    records are durable (error None) or have failed. Classic groups finish their SyncGroup and
    static replacement there, as Kafka's append callbacks do. `data` belongs to `owner`."""

    owner: str
    data: Any = None


class Task(Struct, frozen=True):
    """Slow pure work: the shell goes through `steps()`, between other requests, and feeds the
    result to `shard.task_done(task, result, now)`; `result` is an Exception when a step raised."""

    kind: str
    group_id: str
    steps: Callable[[], Steps[Any]]


class Steady(Protocol):
    """A lease on a reply: while it holds, the same request has the same reply."""

    group_id: str

    def renew(self, now_ms: int) -> bool:
        """The same request again. True: its only effect is done. False: it must be handled."""
        ...


class Outcome(Struct):
    """What an input leads to.

    `records`: atomic, in order. `replay`: apply the records to memory at once (False where the
    handler has already changed a classic group itself). `replies` wait until the records are
    durable; without records, until the pending records of group `gate` are ("*" = of the whole
    shard, None = do not wait). `urgent`: replies that wait for nothing (answers to other,
    parked requests that rest on no new record).
    `transaction`: (producer id, epoch) when the records belong into a transactional batch of that
    producer.
    """

    records: list[Record] = field(default_factory=list)
    replies: list[tuple[RequestToken, Any]] = field(default_factory=list)
    urgent: list[tuple[RequestToken, Any]] = field(default_factory=list)
    gate: str | None = None
    replay: bool = True
    atomic: bool = True
    events: list[Event] = field(default_factory=list)
    tasks: list[Task] = field(default_factory=list)
    completion: Completion | None = None
    steady: Steady | None = None
    transaction: tuple[int, int] | None = None


class AppliedAt(Struct, frozen=True):
    """Where a replayed record stands in the log. `producer_id` >= 0 only inside a transaction."""

    offset: int
    producer_id: int = -1
    producer_epoch: int = -1


class AppendError(Struct, frozen=True):
    """Why an append failed, already mapped to the code that clients see."""

    code: ErrorCode
