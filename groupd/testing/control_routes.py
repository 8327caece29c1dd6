"""Every route of the control API: what it takes and what it calls. The OpenAPI document is made
from this table."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from msgspec import Struct, field

from groupd.coordinator.faults import spec as fault_spec
from groupd.coordinator.faults.errors import NotFound
from groupd.testing.acl_rules import FORM as ACL_FORM
from groupd.testing.client_settings import CLASSIC, CONSUMER, ROLES
from groupd.testing.control_schema import BadInput, Schema
from groupd.testing.control_waits import TIMEOUT, WAIT_BODY, placed_numbers, wait
from groupd.testing.errors import InvariantViolation
from groupd.testing.operations import Operations
from groupd.testing.recipes import RECIPES
from groupd.testing.records import TestRecord
from groupd.testing.security import MECHANISMS
from groupd.testing.topic_reader import ISOLATIONS, READ_COMMITTED

Args = dict[str, Any]
"""The path parameters, and the fields of the body or the parameters of the query."""
Run = Callable[[Operations, Args], Awaitable[Any]]

RECORDS_MAX = 10_000
ACLS_MAX = 1000
ADVANCE_MAX_MS = 366 * 24 * 3_600_000


class Endpoint(Struct, frozen=True):
    """One route. `path`: `{name}` stands for one percent-encoded segment. `body`, `query`: JSON
    Schemas of objects; None or empty = the route takes none."""

    method: str
    path: str
    summary: str
    run: Run
    body: Schema | None = None
    query: Mapping[str, Schema] = field(default_factory=dict)


def _object(required: tuple[str, ...] = (), **properties: Schema) -> Schema:
    shape: dict[str, Any] = {"type": "object", "properties": properties}
    return {**shape, "required": list(required), "additionalProperties": False}


TEXT: Schema = {"type": "string", "maxLength": 1024}
NUMBER: Schema = {"type": "integer", "minimum": 0, "maximum": 2**63 - 1}
FLAG: Schema = {"type": "boolean"}
ISOLATION: Schema = {
    "type": "string",
    "enum": list(ISOLATIONS),
    "description": "as a consumer's; by default without aborted and open transactions",
}
COUNT: Schema = {"type": "integer", "minimum": 1, "maximum": 100_000}
CONFIG: Schema = {"type": "object", "additionalProperties": TEXT}
BYTES: Schema = {
    "description": 'text (UTF-8), {"base64": "..."}, or null',
    "anyOf": [
        {"type": "string"},
        {"type": "null"},
        _object(("base64",), base64={"type": "string"}),
    ],
}
RECORD: Schema = {
    "anyOf": [
        {"type": "string"},
        _object(
            ("value",),
            value=BYTES,
            key=BYTES,
            headers={"type": "object", "additionalProperties": BYTES},
            partition={"type": "integer", "minimum": 0, "maximum": 2**31 - 1},
            timestamp_ms=NUMBER,
        ),
    ]
}
OFFSETS: Schema = {
    "type": "array",
    "maxItems": RECORDS_MAX,
    "items": _object(("topic", "partition", "offset"), topic=TEXT, partition=NUMBER, offset=NUMBER),
}
LOGIN: Mapping[str, Schema] = {
    "user": TEXT,
    "mechanism": {"type": "string", "enum": list(MECHANISMS)},
}
ACLS: Schema = _object(
    ("rules",),
    rules={
        "type": "array",
        "maxItems": ACLS_MAX,
        "items": {"anyOf": [TEXT, {"type": "object", "additionalProperties": TEXT}]},
        "description": ACL_FORM,
    },
)
_ONE_API: Schema = {"anyOf": [{"type": "string"}, {"type": "integer"}]}
FAULT: Schema = _object(
    ("action",),
    action={"type": "string", "enum": list(fault_spec.ACTIONS)},
    api={
        "description": "names, keys, or one of " + ", ".join(fault_spec.ALIASES),
        "anyOf": [*_ONE_API["anyOf"], {"type": "array", "items": _ONE_API}],
    },
    group=TEXT,
    member={**TEXT, "description": "member id or group.instance.id; * stands for anything"},
    client_id=TEXT,
    transactional_id=TEXT,
    count={"type": "integer", "minimum": 1, "maximum": fault_spec.COUNT_MAX},
    skip={"type": "integer", "minimum": 0, "maximum": fault_spec.COUNT_MAX},
    probability={"type": "number", "exclusiveMinimum": 0, "maximum": 1},
    seed=NUMBER,
    after={**NUMBER, "description": "only once the fault with this id was hit"},
    applied={**FLAG, "description": "the request takes effect, only its reply is affected"},
    code={"anyOf": [{"type": "string"}, {"type": "integer"}]},
    message=TEXT,
    ms={"type": "integer", "minimum": 0, "maximum": fault_spec.DELAY_MAX_MS},
    node={"type": "array", "maxItems": 3, "description": "[id, host, port]"},
)
RECIPE: Schema = _object(
    group=TEXT,
    member=TEXT,
    instance=TEXT,
    code=TEXT,
    ms={"type": "integer", "minimum": 0, "maximum": fault_spec.DELAY_MAX_MS},
    applied=FLAG,
    outage=COUNT,
)
CLOCK: Schema = _object(
    ("mode",),
    mode={
        "description": "real, frozen, or how many times as fast",
        "anyOf": [
            {"type": "string", "enum": ["real", "frozen"]},
            {"type": "number", "exclusiveMinimum": 0, "maximum": 1_000_000},
        ],
    },
)
ADVANCE: Schema = _object(
    ("ms",), ms={"type": "integer", "minimum": 0, "maximum": ADVANCE_MAX_MS}, keep_connected=FLAG
)
MOVE: Schema = _object(group=TEXT, to=FAULT["properties"]["node"], count=COUNT)


async def _create_topic(ops: Operations, args: Args) -> Any:
    await ops.create_topic(args["name"], args.get("partitions", 1), args.get("config"))


async def _produce(ops: Operations, args: Args) -> Any:
    records = [_given(record) for record in args["records"]]
    return [_record(record) for record in await ops.produce(args["topic"], records)]


async def _records(ops: Operations, args: Args) -> Any:
    isolation = args.get("isolation", READ_COMMITTED)
    found = await ops.records(args["topic"], args.get("partition"), isolation=isolation)
    first = args.get("from", 0)
    limit = args.get("limit", 1000)
    return {
        "total": len(found),
        "records": [_record(record) for record in found[first : first + limit]],
    }


async def _wait_records(ops: Operations, args: Args) -> Any:
    return [_record(record) for record in (await ops.wait_records(**args))[:RECORDS_MAX]]


async def _group(ops: Operations, args: Args) -> Any:
    shown = await ops.describe(args["group"])
    return {**shown, "rebalances": await ops.rebalances(args["group"])}


async def _commit(ops: Operations, args: Args) -> Any:
    places = {(one["topic"], one["partition"]): one["offset"] for one in args["offsets"]}
    await ops.commit(args["group"], places)


async def _add_fault(ops: Operations, args: Args) -> Any:
    given = dict(args)
    return await ops.fault(await ops.add_fault(given.pop("action"), **given))


async def _recipe(ops: Operations, args: Args) -> Any:
    given = dict(args)
    name = given.pop("recipe")
    if name not in RECIPES:
        raise NotFound(f"no recipe {name}: there are {', '.join(RECIPES)}")
    try:
        running = getattr(ops, name)(**given)
    except TypeError as error:  # a wrong or missing argument
        raise BadInput(f"recipe {str(error).partition('.')[2] or error}") from None
    return await running


async def _move(ops: Operations, args: Args) -> Any:
    return {
        "faults": await ops.move_coordinator(
            args.get("group"), to=args.get("to"), count=args.get("count")
        )
    }


async def _clock(ops: Operations, args: Args) -> Any:
    monotonic_ms, wall_ms = await ops.now()
    return {"monotonic_ms": monotonic_ms, "wall_ms": wall_ms, "factor": await ops.clock_factor()}


async def _set_clock(ops: Operations, args: Args) -> Any:
    await ops.set_clock(args["mode"])
    return await _clock(ops, args)


async def _check(ops: Operations, args: Args) -> Any:
    try:
        await ops.check()
    except InvariantViolation as violation:
        return {"ok": False, "violations": str(violation)}
    return {"ok": True, "violations": None}


def _call(name: str, **fixed: Any) -> Run:
    """Call one of `Operations` by name, with the arguments by name."""

    async def run(ops: Operations, args: Args) -> Any:
        return await getattr(ops, name)(**args, **fixed)

    return run


def _places(name: str) -> Run:
    async def run(ops: Operations, args: Args) -> Any:
        found = await getattr(ops, name)(**args)
        return placed_numbers("offset" if name == "committed" else name, found)

    return run


def _shown(key: str, run: Run) -> Run:
    async def wrapped(ops: Operations, args: Args) -> Any:
        return {key: await run(ops, args)}

    return wrapped


ROUTES: tuple[Endpoint, ...] = (
    Endpoint("GET", "/control/topics", "Topics and their partitions.", _call("topics")),
    Endpoint("POST", "/control/topics", "Create a topic.", _create_topic,
          _object(("name",), name=TEXT, partitions=COUNT, config=CONFIG)),
    Endpoint("DELETE", "/control/topics/{name}", "Delete a topic.", _call("delete_topic")),
    Endpoint("POST", "/control/topics/{topic}/records", "Append records; where they are now.",
          _produce, _object(("records",),
                            records={"type": "array", "items": RECORD, "maxItems": RECORDS_MAX})),
    Endpoint("GET", "/control/topics/{topic}/records", "What is in a topic.", _records, None,
          {"partition": NUMBER, "from": NUMBER, "isolation": ISOLATION,
           "limit": {"type": "integer", "minimum": 1, "maximum": RECORDS_MAX}}),
    Endpoint("POST", "/control/topics/{topic}/wait", "Wait until it has so many records.",
          _shown("records", _wait_records),
          _object(("count",), count=NUMBER, partition=NUMBER, isolation=ISOLATION,
                  timeout=TIMEOUT)),
    Endpoint("GET", "/control/clients/{library}", "Settings of a client library for tests.",
          _call("client_config"), None,
          {"protocol": {"type": "string", "enum": [CLASSIC, CONSUMER]},
           "role": {"type": "string", "enum": list(ROLES)}, **LOGIN}),
    Endpoint("GET", "/control/clients/java/properties", "The same as a .properties file.",
          _shown("properties", _call("client_properties")), None,
          {"protocol": {"type": "string", "enum": [CLASSIC, CONSUMER]},
           "role": {"type": "string", "enum": list(ROLES)}, **LOGIN}),
    Endpoint("GET", "/control/users", "Names of the users.", _shown("users", _call("users"))),
    Endpoint("POST", "/control/users", "Add a user, or change its password.", _call("add_user"),
          _object(("name", "password"), name=TEXT, password=TEXT)),
    Endpoint("DELETE", "/control/users/{name}", "Remove a user.", _call("remove_user")),
    Endpoint("GET", "/control/users/{user}/token", "A token for OAUTHBEARER.",
          _shown("token", _call("token")), None, {"lifetime_s": NUMBER}),
    Endpoint("GET", "/control/acls", "All ACLs, as rules.", _shown("acls", _call("acls"))),
    Endpoint("POST", "/control/acls", "Add ACLs.", _call("add_acls"), ACLS),
    Endpoint("POST", "/control/acls/remove", "Remove ACLs.", _call("remove_acls"), ACLS),
    Endpoint("GET", "/control/groups", "All groups.", _call("groups")),
    Endpoint("GET", "/control/groups/{group}", "A group as the coordinator sees it.", _group),
    Endpoint("GET", "/control/groups/{group}/events", "Its last events.", _call("events")),
    Endpoint("GET", "/control/groups/{group}/offsets", "Its committed offsets.",
          _places("committed")),
    Endpoint("POST", "/control/groups/{group}/offsets", "Set offsets of a group without members.",
          _commit, _object(("offsets",), offsets=OFFSETS)),
    Endpoint("GET", "/control/groups/{group}/lag", "Records not yet committed.", _places("lag")),
    Endpoint("POST", "/control/groups/{group}/wait", "Wait until the group is as wanted.",
          _shown("result", wait), WAIT_BODY),
    Endpoint("GET", "/control/faults", "All faults.", _call("faults")),
    Endpoint("POST", "/control/faults", "Add a fault.", _add_fault, FAULT),
    Endpoint("DELETE", "/control/faults", "Remove all faults.", _call("remove_faults")),
    Endpoint("GET", "/control/faults/{number}", "A fault, its hits, what it holds.",
          _call("fault")),
    Endpoint("POST", "/control/faults/{number}/release", "Let go what it holds, and end it.",
          _shown("released", _call("release_fault")), _object()),
    Endpoint("POST", "/control/faults/{number}/wait", "Wait until it was hit so often.",
          _shown("hits", _call("wait_fault")),
          _object(hits=COUNT, timeout=TIMEOUT)),
    Endpoint("DELETE", "/control/faults/{number}", "Release and forget it.", _call("remove_fault")),
    Endpoint("POST", "/control/recipes/{recipe}", "An incident: " + ", ".join(RECIPES) + ".",
          _recipe, RECIPE),
    Endpoint("POST", "/control/coordinator/move", "NOT_COORDINATOR, and another node or none.",
          _move, MOVE),
    Endpoint("POST", "/control/coordinator/loading", "COORDINATOR_LOAD_IN_PROGRESS.",
          _shown("fault", _call("loading")), _object(group=TEXT, count=COUNT)),
    Endpoint("POST", "/control/log/fail", "The next appends fail.", _call("fail_appends"),
          _object(count=COUNT, applied=FLAG)),
    Endpoint("POST", "/control/log/hold", "Nothing becomes durable any more.",
          _call("hold_appends"), _object()),
    Endpoint("POST", "/control/log/release", "The end of that.", _call("release_appends"),
          _object()),
    Endpoint("GET", "/control/clock", "The coordinator's time.", _clock),
    Endpoint("POST", "/control/clock", "How its time runs from now on.", _set_clock, CLOCK),
    Endpoint("POST", "/control/clock/advance", "Let time pass; how many timers fired.",
          _shown("fired", _call("advance")), ADVANCE),
    Endpoint("POST", "/control/settle", "Wait until what came in is durable and answered.",
          _call("settle"), _object()),
    Endpoint("GET", "/control/check", "Whether the coordinator kept its promises.", _check),
    Endpoint("POST", "/control/restart", "Stop and start on the same ports.", _call("restart"),
          _object(lose_memory=FLAG)),
)  # fmt: skip


def _given(record: Any) -> Any:
    """A record in the form that `Operations.produce` takes."""
    if not isinstance(record, dict):
        return record
    made = {**record, "value": _bytes(record["value"]), "key": _bytes(record.get("key"))}
    headers = record.get("headers", {})
    made["headers"] = {name: _bytes(value) for name, value in headers.items()}
    return made


def _bytes(given: Any) -> bytes | None:
    if isinstance(given, dict):
        try:
            return base64.b64decode(given["base64"], validate=True)
        except binascii.Error:
            raise BadInput("base64 is not valid") from None
    return None if given is None else str(given).encode()


def _record(record: TestRecord) -> dict[str, Any]:
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
