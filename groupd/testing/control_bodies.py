"""The bodies and queries of the control API's routes, and records as JSON.

A route takes the arguments of the operation that it calls (`fields_of`). This file adds the bounds
that HTTP needs, and the few bodies that look different in JSON.
"""

from __future__ import annotations

import base64
import binascii
import inspect
from collections.abc import Callable, Iterable, Mapping
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, TypeAlias, cast, get_args, get_type_hints

from msgspec import Meta, Struct, defstruct, field
from msgspec.structs import asdict

from groupd.coordinator.faults.errors import HarnessError
from groupd.coordinator.faults.spec import NodeNumber, Number, Text
from groupd.testing.records import TestRecord
from groupd.testing.topic_operations import Isolation
from groupd.testing.users_and_acls import FORM

RECORDS_MAX = 10_000
ACLS_MAX = 1000
ADVANCE_MAX_MS = 366 * 24 * 3_600_000
TIMEOUT_MAX_S = 60

Isolated: TypeAlias = Annotated[
    Isolation, Meta(description="as a consumer's; by default without aborted and open transactions")
]
BOUNDS: Mapping[str, Any] = {
    "partitions": Annotated[int, Meta(ge=1, le=100_000)],
    "ms": Annotated[int, Meta(ge=0, le=ADVANCE_MAX_MS)],
    "timeout": Annotated[
        float, Meta(ge=0, le=TIMEOUT_MAX_S, description="seconds of real time; 10 by default")
    ],
    "isolation": Isolated,
    "to": NodeNumber,
    "rules": Annotated[list[Text | dict[str, Text]], Meta(max_length=ACLS_MAX, description=FORM)],
    "config": dict[str, Text],
    "at_most": Annotated[Number, Meta(description="records not yet committed; 0 by default")],
}
"""Types of arguments with their own bounds; other str are a `Text`, other int a `Number`."""


class Fields(Struct, forbid_unknown_fields=True):
    """The body or the query of a route. A field that is None counts as not given."""

    def given(self) -> dict[str, Any]:
        return {name: value for name, value in asdict(self).items() if value is not None}


def fields_of(
    operation: Callable[..., Any], without: Iterable[str] = (), until: str | None = None
) -> type[Fields]:
    """The arguments of `operation` as fields, except those in `without`, which are in the path.
    `until`: the value that the field `until` must have, if a route has several waits."""
    hints = get_type_hints(operation)
    required: list[Any] = []
    optional: list[Any] = []
    for name, parameter in inspect.signature(operation).parameters.items():
        if name == "self" or name in without:
            continue
        kind = BOUNDS.get(name) or _bounded(hints[name])
        if parameter.default is parameter.empty:
            required.append((name, kind))
        else:
            optional.append((name, kind | None, None))
    words = operation.__name__.title().replace("_", "")
    tag: dict[str, Any] = {} if until is None else {"tag_field": "until", "tag": until}
    fields = [*required, *optional]
    made = defstruct(words, fields, bases=(Fields,), module=__name__, **tag)
    return cast("type[Fields]", made)


def _bounded(hint: Any) -> Any:
    """The type of an argument, without None."""
    if isinstance(hint, UnionType):
        (hint,) = set(get_args(hint)) - {NoneType}
    return {str: Text, int: Number}.get(hint, hint)


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


class OffsetBody(Fields):
    topic: Text
    partition: Number
    offset: Number


class OffsetsBody(Fields):
    offsets: Annotated[list[OffsetBody], Meta(max_length=RECORDS_MAX)]


class ClockBody(Fields):
    mode: Annotated[
        Literal["real", "frozen"] | Annotated[float, Meta(gt=0, le=1_000_000)],
        Meta(description="real, frozen, or how many times as fast"),
    ]


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
