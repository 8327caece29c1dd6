"""`/control` on the admin port: the harness for any programming language.

Any client that can reach it can do anything with this broker. So it is off by default, and it keeps
browsers out: a request with an `Origin` header is refused, and a request that changes something
must declare a JSON body, which a web page cannot do without permission. Bad input gets a 4xx status
and one JSON error.
"""

from __future__ import annotations

import re
from typing import Any

import structlog
from msgspec import DecodeError, ValidationError, convert
from msgspec.json import decode, schema_components

from groupd.coordinator.admin.http_messages import HttpReply, HttpRequest, as_json
from groupd.coordinator.admin.http_server import CONTROL_BODY_MAX
from groupd.coordinator.faults.errors import HarnessError, NotFound, RequestRefused, WaitTimeout
from groupd.coordinator.suggest import did_you_mean, misfit
from groupd.testing.control_routes import PARAMETER, ROUTES, Endpoint
from groupd.testing.operations import Operations

log = structlog.get_logger("groupd.control")

_WHOLE = frozenset({"number", "partition", "offset"})
"""Path parameters that are whole numbers."""
DIGITS_MAX = 18
ERRORS = {
    "400": "bad input",
    "403": "the request comes from a web page",
    "404": "there is no such thing",
    "409": "refused by the broker (`refused`), or not within the timeout (`wait-timeout`)",
    "413": "the body is too large",
    "415": "the body is not declared as application/json",
}


class ControlApi:
    """A `ControlHandler` for one broker."""

    def __init__(self, operations: Operations) -> None:
        self._operations = operations

    async def __call__(self, request: HttpRequest) -> HttpReply:
        if "origin" in request.headers:
            return _error(403, "forbidden", "not for web pages")
        if request.path == ("control", "openapi.json"):
            return as_json(document())
        matching = [(route, args) for route in ROUTES if (args := _match(route, request.path))]
        if not matching:
            hint = did_you_mean("/" + "/".join(request.path), [route.path for route in ROUTES])
            return _error(404, "not-found", f"no such route{hint}; see /control/openapi.json")
        method = "GET" if request.method == "HEAD" else request.method
        for route, args in matching:
            if route.method == method:
                return await self._run(route, args[0], request)
        allowed = ", ".join(sorted(route.method for route, _ in matching))
        return _error(405, "method-not-allowed", f"here is {allowed}", (("Allow", allowed),))

    async def _run(self, route: Endpoint, path: dict[str, Any], request: HttpRequest) -> HttpReply:
        try:
            if request.body is None:
                limit = f"a body has at most {CONTROL_BODY_MAX} bytes"
                return _error(413, "too-large", limit)
            if route.body is not None:
                kind = request.headers.get("content-type", "").partition(";")[0].strip()
                if kind.lower() != "application/json":
                    return _error(415, "not-json", "Content-Type must be application/json")
            result = await route.run(self._operations, path, _given(route, request))
        except NotFound as error:
            return _error(404, "not-found", str(error))
        except RequestRefused as error:
            return _error(409, "refused", str(error))
        except HarnessError as error:
            return _error(400, "bad-input", str(error))
        except WaitTimeout as error:
            return _error(409, "wait-timeout", str(error))
        except Exception:
            log.exception("control request failed", path="/".join(request.path))
            return _error(500, "internal", "a bug of groupd; see its log")
        return as_json({} if result is None else result)


def _match(route: Endpoint, path: tuple[str, ...]) -> tuple[dict[str, Any]] | None:
    """The path's parameters as the only item of a tuple; None if the path does not match. The tuple
    is needed because a match without parameters would be false, as an empty dictionary is."""
    parts = route.path.strip("/").split("/")
    if len(parts) != len(path):
        return None
    found: dict[str, Any] = {}
    for part, given in zip(parts, path, strict=True):
        parameter = PARAMETER.fullmatch(part)
        if parameter is None:
            if part != given:
                return None
        elif parameter[1] not in _WHOLE:
            found[parameter[1]] = given
        elif given.isdecimal() and len(given) <= DIGITS_MAX:
            found[parameter[1]] = int(given)
        else:
            return None
    return (found,)


def _given(route: Endpoint, request: HttpRequest) -> Any:
    """The decoded body or query of the request; None if the route takes neither. Raises
    HarnessError if it does not fit the route."""
    if route.query is None and request.query:
        raise HarnessError(f"no parameter {min(request.query)}")
    kind, where = route.body, "body"
    try:
        if route.body is not None:
            return decode((request.body or b"").strip() or b"{}", type=route.body)
        if route.query is not None:
            kind, where = route.query, "query"
            return convert(request.query, route.query, strict=False)
    except ValidationError as error:
        raise HarnessError(misfit(error, kind, where)) from None
    except (DecodeError, UnicodeDecodeError) as error:
        raise HarnessError(f"body is not JSON: {error}") from None
    return None


def _error(
    status: int, code: str, message: str, headers: tuple[tuple[str, str], ...] = ()
) -> HttpReply:
    made = as_json({"error": {"code": code, "message": message}}, status)
    return HttpReply(made.body, made.content_type, status, headers)


# The OpenAPI document


def document() -> dict[str, Any]:
    """The OpenAPI 3.1 document that `/control/openapi.json` answers with."""
    taken = {kind for route in ROUTES for kind in (route.body, route.query) if kind is not None}
    kinds = sorted(taken, key=str)
    schemas, components = schema_components(kinds, ref_template="#/components/schemas/{name}")
    schema_of = dict(zip(kinds, schemas, strict=True))
    paths: dict[str, dict[str, Any]] = {}
    for route in ROUTES:
        operation = _operation(route, components.get(getattr(route.query, "__name__", ""), {}))
        if route.body is not None:
            content = {"application/json": {"schema": schema_of[route.body]}}
            needed = components.get(getattr(route.body, "__name__", ""), {"required": True})
            operation["requestBody"] = {"required": bool(needed["required"]), "content": content}
        paths.setdefault(route.path, {})[route.method.lower()] = operation
    text = {"type": "string"}
    error = {
        "type": "object",
        "properties": {"code": text, "message": text},
        "required": ["code", "message"],
    }
    components["Error"] = {"type": "object", "properties": {"error": error}, "required": ["error"]}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "groupd control API",
            "version": "1",
            "description": "Faults, time and waits for integration tests; see docs/testing.md.",
        },
        "paths": paths,
        "components": {"schemas": components},
    }


def _operation(route: Endpoint, query: dict[str, Any]) -> dict[str, Any]:
    """The route as an operation of the OpenAPI document. `query`: the schema of its query."""
    parameters = [
        {
            "name": name,
            "in": "path",
            "required": True,
            "schema": {"type": "integer" if name in _WHOLE else "string"},
        }
        for name in PARAMETER.findall(route.path)
    ]
    parameters += [
        {"name": name, "in": "query", "required": False, "schema": schema}
        for name, schema in query.get("properties", {}).items()
    ]
    error = {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}}
    words = re.findall(r"\w+", route.path.removeprefix("/control/"))
    return {
        "operationId": "_".join([route.method.lower(), *words]),
        "summary": route.summary,
        "parameters": parameters,
        "responses": {
            "200": {"description": "done", "content": {"application/json": {"schema": {}}}},
            **{
                code: {"description": description, "content": error}
                for code, description in ERRORS.items()
            },
        },
    }
