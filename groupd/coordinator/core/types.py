"""Inputs and outputs of the core, as data."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from enum import IntEnum, StrEnum
from typing import TYPE_CHECKING, Any, Protocol

from msgspec import Struct, field
from msgspec.structs import replace

from groupd.coordinator.core.slices import Steps
from groupd.protocol.errors import ErrorCode
from groupd.protocol.records.schema import Record

if TYPE_CHECKING:  # commands of the client side need no record batches
    from groupd.protocol.records.commit_records import CommitRecords

RequestToken = Any
"""Identifies one request that waits for its answer. The core only keeps it and returns it with the
reply. In a broker it is the waiter itself (`groupd.coordinator.runtime.waiting.Waiter`)."""

NO_TOKEN: RequestToken = -1


class Instant(Struct, frozen=True):
    """Deadlines use `monotonic_ms`; persisted timestamps use `wall_ms`."""

    monotonic_ms: int
    wall_ms: int


class Operation(IntEnum):
    """ACL operations, Kafka's codes. UNKNOWN, ANY and ALL are only in ACLs, their filters and their
    wire format; no request asks for them."""

    UNKNOWN = 0
    ANY = 1
    ALL = 2
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
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class Resource(IntEnum):
    """Types of resources in ACLs, Kafka's codes. UNKNOWN and ANY are used as in `Operation`."""

    UNKNOWN = 0
    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


OPERATIONS_OF: Mapping[Resource, tuple[Operation, ...]] = {
    Resource.TOPIC: (
        Operation.READ,
        Operation.WRITE,
        Operation.CREATE,
        Operation.DELETE,
        Operation.ALTER,
        Operation.DESCRIBE,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
    ),
    Resource.GROUP: (
        Operation.READ,
        Operation.DELETE,
        Operation.DESCRIBE,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
    ),
    Resource.CLUSTER: (
        Operation.CREATE,
        Operation.ALTER,
        Operation.DESCRIBE,
        Operation.CLUSTER_ACTION,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
        Operation.IDEMPOTENT_WRITE,
    ),
    Resource.TRANSACTIONAL_ID: (
        Operation.WRITE,
        Operation.DESCRIBE,
        Operation.TWO_PHASE_COMMIT,
    ),
    Resource.DELEGATION_TOKEN: (Operation.DESCRIBE,),
    Resource.USER: (Operation.CREATE_TOKENS, Operation.DESCRIBE_TOKENS),
}
"""The operations that a request may ask for, by the type of the resource, as in Kafka's `AclEntry`.
For topics, groups and the cluster these are also the bits of `authorized_operations`."""

CLUSTER_NAME = "kafka-cluster"
"""The name of the one resource of type CLUSTER."""

ANONYMOUS = "User:ANONYMOUS"
"""The principal of a client that has not logged in."""


class Access:
    """What the client of a request may do, as `principal` ("User:alice"). This class allows
    everything; the class in `groupd.coordinator.security` asks the ACLs.

    Rights are checked when a request is handled (docs/spec/security.md#4).
    """

    principal: str = ANONYMOUS
    restricted = False
    """Whether some question may be answered with no."""
    version = 0
    """Changes when answers may have changed."""
    audited_by_asker = False
    """Whether the caller itself writes to the audit log what it has done."""

    def allows(
        self, operation: Operation, resource: Resource, name: str, request: type | None = None
    ) -> bool:
        """Whether the client may do the operation on a resource that it named itself. A denial is
        logged. `request`: the type of the request, for the log."""
        return True

    def sees(self, operation: Operation, resource: Resource, name: str) -> bool:
        """As `allows`, for a resource that the client did not name: filters, bit fields, a second
        right that would do as well. Nothing is logged."""
        return True

    def allows_any(self, operation: Operation, resource: Resource) -> bool:
        """Whether the client may do the operation on at least one resource of that type."""
        return True


UNRESTRICTED = Access()


class AskedOnce(Access):
    """The rights of `access` during one request of type `request`. If the request names a resource
    several times, the ACLs are asked, and a denial is logged, only once. A request that waits keeps
    the rights that it had."""

    restricted = True

    def __init__(self, access: Access, request: type) -> None:
        self.principal = access.principal
        self._access = access
        self._request = request
        self._answers: dict[tuple[Operation, Resource, str], bool] = {}

    def allows(
        self, operation: Operation, resource: Resource, name: str, request: type | None = None
    ) -> bool:
        asked = operation, resource, name
        answer = self._answers.get(asked)
        if answer is None:
            answer = self._access.allows(operation, resource, name, request or self._request)
            self._answers[asked] = answer
        return answer

    def sees(self, operation: Operation, resource: Resource, name: str) -> bool:
        return self._access.sees(operation, resource, name)

    def allows_any(self, operation: Operation, resource: Resource) -> bool:
        return self._access.allows_any(operation, resource)


class RequestContext(Struct, frozen=True):
    """The client of a request and its rights. `client_host` has Kafka's form "/127.0.0.1"; a null
    client id is "". `listener`: the name of the listener that the request came in on, whose
    addresses the replies name."""

    token: RequestToken
    api_version: int
    client_id: str = ""
    client_host: str = "/127.0.0.1"
    access: Access = UNRESTRICTED
    listener: str = ""

    @property
    def principal(self) -> str:
        return self.access.principal

    def allows(self, operation: Operation, resource: Resource, name: str) -> bool:
        return self.access.allows(operation, resource, name)

    def sees(self, operation: Operation, resource: Resource, name: str) -> bool:
        return self.access.sees(operation, resource, name)

    def authorized_operations(self, resource: Resource, name: str) -> int:
        """The operations that the client may do on a resource: one bit each, numbered by the
        operation's code."""
        return sum(
            1 << operation
            for operation in OPERATIONS_OF[resource]
            if self.sees(operation, resource, name)
        )

    def asking_once(self, request: type) -> RequestContext:
        """This context with an `AskedOnce` as its access."""
        return replace(self, access=AskedOnce(self.access, request))

    def with_token(self, token: RequestToken) -> RequestContext:
        return RequestContext(
            token,
            self.api_version,
            self.client_id,
            self.client_host,
            self.access,
            self.listener,
        )


DataHandler = Callable[[RequestContext, Any], Awaitable[Any]]
"""(context, request) -> reply, for requests that are not about groups. None means that no reply is
sent; only Produce with acks=0 returns it. It may raise ApiError for the whole request; all other
expected errors are in the reply."""


class EventKind(StrEnum):
    """Facts that are worth counting, logging or showing to an operator."""

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


CLASSIC = "classic"
"""The group type whose events say when a rebalance starts and when it is complete. The events of
all other types tell of epochs, targets, and members that move towards them."""


class Event(Struct, frozen=True, array_like=True):
    """`group_type`: the name of the group's `GroupType`; for a group that is converted, that of the
    new type. `cause`: the reason in words; `details`: facts of this kind of event, with
    JSON-friendly values."""

    group_type: str
    kind: EventKind
    group_id: str
    member_id: str = ""
    epoch: int = -1
    cause: str = ""
    details: Mapping[str, Any] = field(default_factory=dict)


class Completion(Struct, frozen=True):
    """Comes back as `shard.appended(completion, error, now)` once the records of its outcome are
    durable (error None) or have failed. Classic groups finish a SyncGroup and a static
    replacement there, as Kafka does in its append callbacks. `data` is for `owner` only."""

    owner: str
    data: Any = None


class OutsideCall(Struct, frozen=True):
    """A question to another coordinator or to the topics. `whom`: which of them answers; `data` is
    for the handler of the answer. `token`: the client's request that waits for the answer, if there
    is one. It is refused if the handler will never get an answer."""

    whom: str
    group_id: str
    request: Any
    data: Any = None
    token: RequestToken = NO_TOKEN


class Task(Struct, frozen=True):
    """Slow pure work. `steps()` runs between other requests, and the result comes back as
    `shard.task_done(task, result, now)`. `result` is an Exception if a step raised."""

    kind: str
    group_id: str
    steps: Callable[[], Steps[Any]]


class ReplyValidity(Protocol):
    """Says how long a reply stays right: until then the same request gets the same reply."""

    group_id: str

    def renew(self, now_ms: int) -> bool:
        """The same request has come again. True: its only effect is done. False: it must be
        handled."""
        ...


class Outcome(Struct):
    """What an input leads to. Each field says when it may be acted on.

    records     At once: they are applied to memory and put into the journal, in this order and
                together, in one batch. Records that do not fit into a batch are refused, and then
                nothing of the outcome happens but `urgent` and `completion`.
    commits     The records of an offset commit, in place of `records`.
    transaction (producer id, epoch) if the records belong in a transactional batch.
    replies     Once the records are durable. Without records: once the pending records of the group
                `gate` are durable, or those of the whole shard if `gate` is "*", or at once if it
                is None. If the records are lost, the requests are refused instead.
    urgent      At once: answers to other, parked requests that do not depend on a new record.
    events      Once the records are applied. They are facts for people and counters; nothing waits
                for them.
    tasks       Once the records are applied. The result is an input (`task_done`).
    calls       As `replies`; if the records are lost, the calls are not made. The answer, or the
                Exception that came instead, is an input (`answered`). If the shard was loaded anew
                meanwhile, the request that waits for the answer is refused.
    completion  Once the records are durable or lost: then it is an input (`appended`).
    reply_validity  Only without records: says how long the same request gets the same reply.
    """

    records: list[Record] = field(default_factory=list)
    replies: list[tuple[RequestToken, Any]] = field(default_factory=list)
    urgent: list[tuple[RequestToken, Any]] = field(default_factory=list)
    gate: str | None = None
    events: list[Event] = field(default_factory=list)
    tasks: list[Task] = field(default_factory=list)
    calls: list[OutsideCall] = field(default_factory=list)
    completion: Completion | None = None
    reply_validity: ReplyValidity | None = None
    transaction: tuple[int, int] | None = None
    commits: CommitRecords | None = None

    @property
    def logged(self) -> list[Record] | CommitRecords:
        """The records of this outcome: `commits` if it has them, else `records`."""
        return self.records if self.commits is None else self.commits


class AppliedAt(Struct, frozen=True):
    """Where a replayed record is in the log. `producer_id` >= 0 only inside a transaction."""

    offset: int
    producer_id: int = -1
    producer_epoch: int = -1


class AppendError(Struct, frozen=True):
    """Why an append failed, already mapped to the code that clients see."""

    code: ErrorCode


def merged_outcomes(outcomes: Iterable[Outcome]) -> Outcome:
    """One outcome with everything that `outcomes` have, in their order. Raises ValueError for what
    cannot be merged or needs a request: replies, their validity, a completion, a transaction,
    commits."""
    merged = Outcome()
    for one in outcomes:
        if one.replies or one.completion or one.commits or one.transaction or one.reply_validity:
            raise ValueError(f"this belongs to an outcome of its own: {one}")
        merged.records += one.records
        merged.urgent += one.urgent
        merged.events += one.events
        merged.tasks += one.tasks
        merged.calls += one.calls
        if one.gate is not None:
            merged.gate = one.gate if merged.gate in (None, one.gate) else "*"
    return merged
