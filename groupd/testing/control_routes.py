"""Every route of the control API: what it takes and what it calls. The OpenAPI document is made
from this table."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from functools import reduce
from operator import or_
from typing import Any

from msgspec import Struct
from msgspec.structs import asdict

from groupd.coordinator.faults.errors import InvariantViolation
from groupd.coordinator.faults.spec import FaultFields
from groupd.testing.control_bodies import (
    RECORDS_MAX,
    ClockBody,
    Fields,
    OffsetsBody,
    RecordsBody,
    RecordsQuery,
    fields_of,
    given_record,
    shown_record,
)
from groupd.testing.operations import Operations
from groupd.testing.recipes import RECIPES

PARAMETER = re.compile(r"\{(\w+)\}")

Path = dict[str, Any]
"""The values of the path's parameters, by name."""
Run = Callable[[Operations, Path, Any], Awaitable[Any]]
"""Carries out a request. The last argument is the body or the query; None if there is neither."""


class Endpoint(Struct, frozen=True):
    """One route. `path`: `{name}` stands for one percent-encoded segment. `body`, `query`: what the
    route takes there; None = nothing."""

    method: str
    path: str
    summary: str
    run: Run
    body: Any = None
    query: type[Fields] | None = None


async def _produce(ops: Operations, path: Path, body: RecordsBody) -> Any:
    records = [one if isinstance(one, str) else given_record(one) for one in body.records]
    return [shown_record(record) for record in await ops.produce(path["topic"], records)]


async def _records(ops: Operations, path: Path, query: RecordsQuery) -> Any:
    wanted = query.given()
    first, limit = wanted.pop("first", 0), wanted.pop("limit", 1000)
    found = await ops.records(path["topic"], **wanted)
    return {
        "total": len(found),
        "records": [shown_record(record) for record in found[first : first + limit]],
    }


async def _wait_records(ops: Operations, path: Path, body: Fields) -> Any:
    found = await ops.wait_records(path["topic"], **body.given())
    return {"records": [shown_record(record) for record in found[:RECORDS_MAX]]}


async def _group(ops: Operations, path: Path, _: None) -> Any:
    shown = await ops.describe(path["group"])
    return {**shown, "rebalances": await ops.rebalances(path["group"])}


async def _commit(ops: Operations, path: Path, body: OffsetsBody) -> Any:
    places = {(one.topic, one.partition): one.offset for one in body.offsets}
    await ops.commit(path["group"], places)


async def _add_fault(ops: Operations, _: Path, body: FaultFields) -> Any:
    return await ops.fault(await ops.add_fault(**asdict(body)))


async def _clock(ops: Operations, _: Path, __: None) -> Any:
    monotonic_ms, wall_ms = await ops.now()
    return {"monotonic_ms": monotonic_ms, "wall_ms": wall_ms, "factor": await ops.clock_factor()}


async def _set_clock(ops: Operations, path: Path, body: ClockBody) -> Any:
    await ops.set_clock(body.mode)
    return await _clock(ops, path, None)


async def _check(ops: Operations, _: Path, __: None) -> Any:
    try:
        await ops.check()
    except InvariantViolation as violation:
        return {"ok": False, "violations": str(violation)}
    return {"ok": True, "violations": None}


def _call(method: str, path: str, summary: str, name: str, key: str | None = None) -> Endpoint:
    """A route that calls the method `name` of `Operations`. Some arguments are in the path, the
    others are in the body, or in the query for GET. The answer is what the method returns, or an
    object that has it under `key`."""

    async def run(ops: Operations, path: Path, given: Fields | None) -> Any:
        found = await getattr(ops, name)(**path, **(given.given() if given is not None else {}))
        return found if key is None else {key: found}

    taken = fields_of(getattr(Operations, name), PARAMETER.findall(path))
    body = taken if method == "POST" else None
    query = taken if method == "GET" and taken.__struct_fields__ else None
    return Endpoint(method, path, summary, run, body, query)


def _numbered(path: str, summary: str, name: str, number: str) -> Endpoint:
    """A route that gets a number for each partition of a group: the field `number`."""

    async def run(ops: Operations, path: Path, _: None) -> Any:
        return _numbers(number, await getattr(ops, name)(path["group"]))

    return Endpoint("GET", path, summary, run)


def _any_of(prefix: str, *kinds: str) -> Any:
    """The body of a route that waits: which method of `Operations`, and its arguments."""
    return reduce(
        or_, [fields_of(getattr(Operations, prefix + kind), ["group"], kind) for kind in kinds]
    )


def _wait(path: str, summary: str, prefix: str, any_wait: Any) -> Endpoint:
    async def run(ops: Operations, path: Path, body: Fields) -> Any:
        kind = body.__struct_config__.tag
        found = await getattr(ops, f"{prefix}{kind}")(**path, **body.given())
        return {"result": _numbers("lag", found) if kind == "lag" else found}

    return Endpoint("POST", path, summary, run, any_wait)


ANY_WAIT = _any_of(
    "wait_", "stable", "members", "epoch", "released", "owned", "committed", "rebalances", "lag"
)
ANY_SHARE_WAIT = _any_of("wait_share_", "acquired", "acknowledged", "released", "archived")

ROUTES: tuple[Endpoint, ...] = (
    _call("GET", "/control/topics", "Topics and their partitions.", "topics"),
    _call("POST", "/control/topics", "Create a topic.", "create_topic"),
    _call("DELETE", "/control/topics/{name}", "Delete a topic.", "delete_topic"),
    Endpoint("POST", "/control/topics/{topic}/records", "Append records; where they are now.",
          _produce, RecordsBody),
    Endpoint("GET", "/control/topics/{topic}/records", "What is in a topic.", _records,
          query=RecordsQuery),
    Endpoint("POST", "/control/topics/{topic}/wait", "Wait until it has so many records.",
          _wait_records,
          fields_of(Operations.wait_records, ["topic"])),
    _call("GET", "/control/clients/{library}", "Settings of a client library for tests.",
          "client_config"),
    _call("GET", "/control/clients/java/properties", "The same as a .properties file.",
          "client_properties", "properties"),
    _call("GET", "/control/users", "Names of the users.", "users", "users"),
    _call("POST", "/control/users", "Add a user, or change its password.", "add_user"),
    _call("DELETE", "/control/users/{name}", "Remove a user.", "remove_user"),
    _call("GET", "/control/users/{user}/token", "A token for OAUTHBEARER.",
          "token", "token"),
    _call("GET", "/control/acls", "All ACLs, as rules.", "acls", "acls"),
    _call("POST", "/control/acls", "Add ACLs.", "add_acls"),
    _call("POST", "/control/acls/remove", "Remove ACLs.", "remove_acls"),
    _call("GET", "/control/groups", "All groups.", "groups"),
    Endpoint("GET", "/control/groups/{group}", "A group as the coordinator sees it.", _group),
    _call("GET", "/control/groups/{group}/events", "Its last events.", "events"),
    _numbered("/control/groups/{group}/offsets", "Its committed offsets.", "committed", "offset"),
    Endpoint("POST", "/control/groups/{group}/offsets", "Set offsets of a group without members.",
          _commit, OffsetsBody),
    _numbered("/control/groups/{group}/lag", "Records not yet committed.", "lag", "lag"),
    _wait("/control/groups/{group}/wait", "Wait until the group is as wanted.", "wait_", ANY_WAIT),
    _call("GET", "/control/share-groups/{group}/records", "Its records that are under way.",
          "share_records", "records"),
    _call("GET", "/control/share-groups/{group}/records/{topic}/{partition}/{offset}",
          "One record, under way or over.", "share_record"),
    _numbered("/control/share-groups/{group}/offsets", "Where its partitions begin.",
          "share_start_offsets", "offset"),
    _numbered("/control/share-groups/{group}/lag", "Offsets that are not over.",
          "share_lag", "lag"),
    _call("POST", "/control/share-groups/{group}/configs", "Set configs of the group.",
          "configure_share"),
    _wait("/control/share-groups/{group}/wait", "Wait until its records are as wanted.",
          "wait_share_", ANY_SHARE_WAIT),
    _call("GET", "/control/faults", "All faults.", "faults"),
    Endpoint("POST", "/control/faults", "Add a fault.", _add_fault, FaultFields),
    _call("DELETE", "/control/faults", "Remove all faults.", "remove_faults"),
    _call("GET", "/control/faults/{number}", "A fault, its hits, what it holds.",
          "fault"),
    _call("POST", "/control/faults/{number}/release", "Let go what it holds, and end it.",
          "release_fault", "released"),
    _call("POST", "/control/faults/{number}/wait", "Wait until it was hit so often.",
          "wait_fault", "hits"),
    _call("DELETE", "/control/faults/{number}", "Release and forget it.", "remove_fault"),
    *(
        _call("POST", f"/control/recipes/{name}", "An incident: see docs/testing.md.", name)
        for name in RECIPES
    ),
    _call("POST", "/control/coordinator/move", "NOT_COORDINATOR, and another node or none.",
          "move_coordinator", "faults"),
    _call("POST", "/control/coordinator/loading", "COORDINATOR_LOAD_IN_PROGRESS.",
          "loading", "fault"),
    _call("POST", "/control/log/fail", "The next appends fail.", "fail_appends"),
    _call("POST", "/control/log/hold", "Nothing becomes durable any more.",
          "hold_appends"),
    _call("POST", "/control/log/release", "The end of that.", "release_appends"),
    Endpoint("GET", "/control/clock", "The coordinator's time.", _clock),
    Endpoint("POST", "/control/clock", "How its time runs from now on.", _set_clock, ClockBody),
    _call("POST", "/control/clock/advance", "Let time pass; how many timers fired.",
          "advance", "fired"),
    _call("POST", "/control/settle", "Wait until what came in is durable and answered.",
          "settle"),
    Endpoint("GET", "/control/check", "Whether the coordinator kept its promises.", _check),
    _call("POST", "/control/restart", "Stop and start on the same ports.", "restart"),
)  # fmt: skip


def _numbers(name: str, found: Mapping[tuple[str, int], int]) -> list[dict[str, Any]]:
    """An array of objects, each with a topic, a partition and its number under `name`."""
    return [{"topic": topic, "partition": at, name: n} for (topic, at), n in found.items()]
