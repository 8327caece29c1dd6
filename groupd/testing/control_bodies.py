"""What the routes of the control API take, and the records that they give, as JSON."""

from __future__ import annotations

import base64
import binascii
from typing import Annotated, Any, Literal, TypeAlias

from msgspec import Meta, Struct, field
from msgspec.structs import asdict

from groupd.coordinator.faults.errors import HarnessError
from groupd.coordinator.faults.spec import DelayMs, Node, Number, Text
from groupd.testing.client_settings import GroupProtocol, Role
from groupd.testing.records import TestRecord
from groupd.testing.secure import FORM
from groupd.testing.security import Mechanism
from groupd.testing.topic_operations import Isolation

RECORDS_MAX = 10_000
ACLS_MAX = 1000
ADVANCE_MAX_MS = 366 * 24 * 3_600_000
TIMEOUT_MAX_S = 60

Count: TypeAlias = Annotated[int, Meta(ge=1, le=100_000)]
Isolated: TypeAlias = Annotated[
    Isolation, Meta(description="as a consumer's; by default without aborted and open transactions")
]
Timeout: TypeAlias = Annotated[
    float, Meta(ge=0, le=TIMEOUT_MAX_S, description="seconds of real time; 10 by default")
]


class Fields(Struct, forbid_unknown_fields=True):
    """What a route takes. A field that is None counts as not given."""

    def given(self) -> dict[str, Any]:
        return {name: value for name, value in asdict(self).items() if value is not None}


class NoFields(Fields):
    """A body without fields."""


class TopicBody(Fields):
    name: Text
    partitions: Count | None = None
    config: dict[str, Text] | None = None


class Base64(Fields):
    base64: str


Bytes: TypeAlias = Annotated[
    str | Base64 | None, Meta(description='text (UTF-8), {"base64": "..."}, or null')
]


class RecordBody(Fields):
    value: Bytes
    key: Bytes = None
    headers: dict[str, Bytes] | None = None
    partition: Annotated[int, Meta(ge=0, le=2**31 - 1)] | None = None
    timestamp_ms: Number | None = None


class RecordsBody(Fields):
    records: Annotated[list[str | RecordBody], Meta(max_length=RECORDS_MAX)]


class RecordsQuery(Fields):
    partition: Number | None = None
    first: Number | None = field(name="from", default=None)
    isolation: Isolated | None = None
    limit: Annotated[int, Meta(ge=1, le=RECORDS_MAX)] | None = None


class RecordsWait(Fields):
    count: Number
    partition: Number | None = None
    isolation: Isolated | None = None
    timeout: Timeout | None = None


class ClientQuery(Fields):
    protocol: GroupProtocol | None = None
    role: Role | None = None
    user: Text | None = None
    mechanism: Mechanism | None = None


class UserBody(Fields):
    name: Text
    password: Text


class TokenQuery(Fields):
    lifetime_s: Number | None = None


class AclsBody(Fields):
    rules: Annotated[list[Text | dict[str, Text]], Meta(max_length=ACLS_MAX, description=FORM)]


class OffsetBody(Fields):
    topic: Text
    partition: Number
    offset: Number


class OffsetsBody(Fields):
    offsets: Annotated[list[OffsetBody], Meta(max_length=RECORDS_MAX)]


class GroupWait(Fields, tag_field="until", tag=lambda name: name[5:].lower(), kw_only=True):
    """`POST /control/groups/{group}/wait`: the name of a wait, and its arguments."""

    timeout: Timeout | None = None


class UntilStable(GroupWait):
    members: Number | None = None


class UntilMembers(GroupWait):
    count: Number


class UntilEpoch(GroupWait):
    member: Text
    epoch: Number


class UntilReleased(GroupWait):
    topic: Text
    partition: Number
    member: Text | None = None


class UntilOwned(GroupWait):
    topic: Text
    partition: Number


class UntilCommitted(GroupWait):
    topic: Text
    partition: Number
    offset: Number


class UntilRebalances(GroupWait):
    count: Number


class UntilLag(GroupWait):
    at_most: Annotated[
        Number | None, Meta(description="records not yet committed; 0 by default")
    ] = None


AnyWait = (
    UntilStable | UntilMembers | UntilEpoch | UntilReleased | UntilOwned | UntilCommitted
    | UntilRebalances | UntilLag
)  # fmt: skip


class HitsWait(Fields):
    hits: Count | None = None
    timeout: Timeout | None = None


class RecipeBody(Fields):
    group: Text | None = None
    member: Text | None = None
    instance: Text | None = None
    code: Text | None = None
    ms: DelayMs | None = None
    applied: bool | None = None
    outage: Count | None = None


class MoveBody(Fields):
    group: Text | None = None
    to: Node | None = None
    count: Count | None = None


class LoadingBody(Fields):
    group: Text | None = None
    count: Count | None = None


class AppendsBody(Fields):
    count: Count | None = None
    applied: bool | None = None


class ClockBody(Fields):
    mode: Annotated[
        Literal["real", "frozen"] | Annotated[float, Meta(gt=0, le=1_000_000)],
        Meta(description="real, frozen, or how many times as fast"),
    ]


class AdvanceBody(Fields):
    ms: Annotated[int, Meta(ge=0, le=ADVANCE_MAX_MS)]
    keep_connected: bool | None = None


class RestartBody(Fields):
    lose_memory: bool | None = None


def given_record(record: RecordBody) -> dict[str, Any]:
    """A record in the form that `Operations.produce` takes."""
    headers = {name: _bytes(value) for name, value in (record.headers or {}).items()}
    value, key = _bytes(record.value), _bytes(record.key)
    return {**record.given(), "value": value, "key": key, "headers": headers}


def _bytes(given: str | Base64 | None) -> bytes | None:
    if isinstance(given, Base64):
        try:
            return base64.b64decode(given.base64, validate=True)
        except binascii.Error:
            raise HarnessError("base64 is not valid") from None
    return None if given is None else given.encode()


def shown_record(record: TestRecord) -> dict[str, Any]:
    """A record of a topic as JSON."""
    return {
        "partition": record.partition,
        "offset": record.offset,
        "timestamp_ms": record.timestamp_ms,
        "key": _text(record.key),
        "value": _text(record.value),
        "headers": {name: _text(value) for name, value in record.headers},
    }


def _text(data: bytes | None) -> Any:
    """The bytes as text if they are UTF-8, else as base64."""
    if data is None:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode()}
