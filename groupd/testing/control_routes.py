"""Every route of the control API: what it takes and what it calls. The OpenAPI document is made
from this table."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from msgspec import Struct
from msgspec.structs import asdict

from groupd.coordinator.faults.errors import InvariantViolation, NotFound
from groupd.coordinator.faults.spec import FaultFields
from groupd.testing.arguments import check_arguments
from groupd.testing.control_bodies import (
    RECORDS_MAX,
    AclsBody,
    AdvanceBody,
    AnyWait,
    AppendsBody,
    ClientQuery,
    ClockBody,
    Fields,
    GroupWait,
    HitsWait,
    LoadingBody,
    MoveBody,
    NoFields,
    OffsetsBody,
    RecipeBody,
    RecordsBody,
    RecordsQuery,
    RecordsWait,
    RestartBody,
    TokenQuery,
    TopicBody,
    UserBody,
    given_record,
    shown_record,
)
from groupd.testing.operations import Operations
from groupd.testing.recipes import RECIPES

Path = dict[str, Any]
"""The parameters of the path."""
Run = Callable[[Operations, Path, Any], Awaitable[Any]]
"""Gets the body or the query, too."""


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


async def _wait_records(ops: Operations, path: Path, body: RecordsWait) -> Any:
    found = await ops.wait_records(path["topic"], **body.given())
    return {"records": [shown_record(record) for record in found[:RECORDS_MAX]]}


async def _group(ops: Operations, path: Path, _: None) -> Any:
    shown = await ops.describe(path["group"])
    return {**shown, "rebalances": await ops.rebalances(path["group"])}


async def _committed(ops: Operations, path: Path, _: None) -> Any:
    return _numbers("offset", await ops.committed(path["group"]))


async def _commit(ops: Operations, path: Path, body: OffsetsBody) -> Any:
    places = {(one.topic, one.partition): one.offset for one in body.offsets}
    await ops.commit(path["group"], places)


async def _lag(ops: Operations, path: Path, _: None) -> Any:
    return _numbers("lag", await ops.lag(path["group"]))


async def _wait(ops: Operations, path: Path, body: GroupWait) -> Any:
    kind = body.__struct_config__.tag
    found = await getattr(ops, f"wait_{kind}")(**path, **body.given())
    return {"result": _numbers("lag", found) if kind == "lag" else found}


async def _add_fault(ops: Operations, _: Path, body: FaultFields) -> Any:
    return await ops.fault(await ops.add_fault(**asdict(body)))


async def _recipe(ops: Operations, path: Path, body: RecipeBody) -> Any:
    name = path["recipe"]
    if name not in RECIPES:
        raise NotFound(f"no recipe {name}: there are {', '.join(RECIPES)}")
    check_arguments(getattr(Operations, name), (), body.given())
    return await getattr(ops, name)(**body.given())


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


def _call(name: str, key: str | None = None) -> Run:
    """Call one of `Operations` by name, with the arguments by name. The answer is what it returns,
    or an object with that under `key`."""

    async def run(ops: Operations, path: Path, given: Fields | None) -> Any:
        found = await getattr(ops, name)(**path, **(given.given() if given is not None else {}))
        return found if key is None else {key: found}

    return run


ROUTES: tuple[Endpoint, ...] = (
    Endpoint("GET", "/control/topics", "Topics and their partitions.", _call("topics")),
    Endpoint("POST", "/control/topics", "Create a topic.", _call("create_topic"), TopicBody),
    Endpoint("DELETE", "/control/topics/{name}", "Delete a topic.", _call("delete_topic")),
    Endpoint("POST", "/control/topics/{topic}/records", "Append records; where they are now.",
          _produce, RecordsBody),
    Endpoint("GET", "/control/topics/{topic}/records", "What is in a topic.", _records,
          query=RecordsQuery),
    Endpoint("POST", "/control/topics/{topic}/wait", "Wait until it has so many records.",
          _wait_records, RecordsWait),
    Endpoint("GET", "/control/clients/{library}", "Settings of a client library for tests.",
          _call("client_config"), query=ClientQuery),
    Endpoint("GET", "/control/clients/java/properties", "The same as a .properties file.",
          _call("client_properties", "properties"), query=ClientQuery),
    Endpoint("GET", "/control/users", "Names of the users.", _call("users", "users")),
    Endpoint("POST", "/control/users", "Add a user, or change its password.", _call("add_user"),
          UserBody),
    Endpoint("DELETE", "/control/users/{name}", "Remove a user.", _call("remove_user")),
    Endpoint("GET", "/control/users/{user}/token", "A token for OAUTHBEARER.",
          _call("token", "token"), query=TokenQuery),
    Endpoint("GET", "/control/acls", "All ACLs, as rules.", _call("acls", "acls")),
    Endpoint("POST", "/control/acls", "Add ACLs.", _call("add_acls"), AclsBody),
    Endpoint("POST", "/control/acls/remove", "Remove ACLs.", _call("remove_acls"), AclsBody),
    Endpoint("GET", "/control/groups", "All groups.", _call("groups")),
    Endpoint("GET", "/control/groups/{group}", "A group as the coordinator sees it.", _group),
    Endpoint("GET", "/control/groups/{group}/events", "Its last events.", _call("events")),
    Endpoint("GET", "/control/groups/{group}/offsets", "Its committed offsets.",
          _committed),
    Endpoint("POST", "/control/groups/{group}/offsets", "Set offsets of a group without members.",
          _commit, OffsetsBody),
    Endpoint("GET", "/control/groups/{group}/lag", "Records not yet committed.", _lag),
    Endpoint("POST", "/control/groups/{group}/wait", "Wait until the group is as wanted.",
          _wait, AnyWait),
    Endpoint("GET", "/control/faults", "All faults.", _call("faults")),
    Endpoint("POST", "/control/faults", "Add a fault.", _add_fault, FaultFields),
    Endpoint("DELETE", "/control/faults", "Remove all faults.", _call("remove_faults")),
    Endpoint("GET", "/control/faults/{number}", "A fault, its hits, what it holds.",
          _call("fault")),
    Endpoint("POST", "/control/faults/{number}/release", "Let go what it holds, and end it.",
          _call("release_fault", "released"), NoFields),
    Endpoint("POST", "/control/faults/{number}/wait", "Wait until it was hit so often.",
          _call("wait_fault", "hits"), HitsWait),
    Endpoint("DELETE", "/control/faults/{number}", "Release and forget it.", _call("remove_fault")),
    Endpoint("POST", "/control/recipes/{recipe}", "An incident: " + ", ".join(RECIPES) + ".",
          _recipe, RecipeBody),
    Endpoint("POST", "/control/coordinator/move", "NOT_COORDINATOR, and another node or none.",
          _call("move_coordinator", "faults"), MoveBody),
    Endpoint("POST", "/control/coordinator/loading", "COORDINATOR_LOAD_IN_PROGRESS.",
          _call("loading", "fault"), LoadingBody),
    Endpoint("POST", "/control/log/fail", "The next appends fail.", _call("fail_appends"),
          AppendsBody),
    Endpoint("POST", "/control/log/hold", "Nothing becomes durable any more.",
          _call("hold_appends"), NoFields),
    Endpoint("POST", "/control/log/release", "The end of that.", _call("release_appends"),
          NoFields),
    Endpoint("GET", "/control/clock", "The coordinator's time.", _clock),
    Endpoint("POST", "/control/clock", "How its time runs from now on.", _set_clock, ClockBody),
    Endpoint("POST", "/control/clock/advance", "Let time pass; how many timers fired.",
          _call("advance", "fired"), AdvanceBody),
    Endpoint("POST", "/control/settle", "Wait until what came in is durable and answered.",
          _call("settle"), NoFields),
    Endpoint("GET", "/control/check", "Whether the coordinator kept its promises.", _check),
    Endpoint("POST", "/control/restart", "Stop and start on the same ports.", _call("restart"),
          RestartBody),
)  # fmt: skip


def _numbers(name: str, found: Mapping[tuple[str, int], int]) -> list[dict[str, Any]]:
    """A number for each partition: an array of objects with the topic, the partition and the number
    under `name`."""
    return [{"topic": topic, "partition": at, name: n} for (topic, at), n in found.items()]
