"""`/control` on the admin port: the harness for any programming language.

Whoever can reach it can do anything with this broker, so it is off by default, and it keeps
browsers out: a request with an `Origin` header is refused, and a request that changes something
must declare a JSON body, which a web page cannot do without permission. Bad input gets a 4xx status
and one JSON error.
"""

from __future__ import annotations

import json
import re
from typing import Any

import structlog

from groupd.coordinator.admin.http_server import CONTROL_BODY_MAX, HttpReply, HttpRequest, as_json
from groupd.coordinator.faults.errors import HarnessError, NotFound, RequestRefused
from groupd.testing.control_openapi import document
from groupd.testing.control_routes import ROUTES, Endpoint
from groupd.testing.control_schema import BadInput, check
from groupd.testing.errors import WaitTimeout
from groupd.testing.operations import Operations

log = structlog.get_logger("groupd.control")

_PARAMETER = re.compile(r"\{(\w+)\}")
_WHOLE = frozenset({"number"})
"""Path parameters that are whole numbers."""
DIGITS_MAX = 18


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
            return _error(404, "not-found", "no such route; see /control/openapi.json")
        method = "GET" if request.method == "HEAD" else request.method
        for route, args in matching:
            if route.method == method:
                return await self._run(route, dict(args[0]), request)
        allowed = ", ".join(sorted(route.method for route, _ in matching))
        return _error(405, "method-not-allowed", f"here is {allowed}", (("Allow", allowed),))

    async def _run(self, route: Endpoint, args: dict[str, Any], request: HttpRequest) -> HttpReply:
        try:
            if request.body is None:
                limit = f"a body has at most {CONTROL_BODY_MAX} bytes"
                return _error(413, "too-large", limit)
            if route.body is not None:
                kind = request.headers.get("content-type", "").partition(";")[0].strip()
                if kind.lower() != "application/json":
                    return _error(415, "not-json", "Content-Type must be application/json")
                args.update(_body(route, request.body))
            args.update(_query(route, request.query))
            result = await route.run(self._operations, args)
        except BadInput as error:
            return _error(400, "bad-input", str(error))
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
    """The path's parameters in a tuple of one, or None if the path does not match. The tuple tells
    a match without parameters from no match."""
    parts = route.path.strip("/").split("/")
    if len(parts) != len(path):
        return None
    found: dict[str, Any] = {}
    for part, given in zip(parts, path, strict=True):
        parameter = _PARAMETER.fullmatch(part)
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


def _body(route: Endpoint, body: bytes) -> dict[str, Any]:
    try:
        given = json.loads(body) if body.strip() else {}
    except (ValueError, RecursionError):
        raise BadInput("body is not JSON") from None
    assert route.body is not None
    check(given, route.body)
    return dict(given)


def _query(route: Endpoint, query: dict[str, str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, text in query.items():
        schema = route.query.get(name)
        if schema is None:
            raise BadInput(f"no parameter {name}")
        if schema["type"] == "integer":
            if not text.isdecimal() or len(text) > DIGITS_MAX:
                raise BadInput(f"parameter {name} must be a whole number")
            found[name] = int(text)
        else:
            found[name] = text
        check(found[name], schema, f"parameter {name}")
    return found


def _error(
    status: int, code: str, message: str, headers: tuple[tuple[str, str], ...] = ()
) -> HttpReply:
    made = as_json({"error": {"code": code, "message": message}}, status)
    return HttpReply(made.body, made.content_type, status, headers)
