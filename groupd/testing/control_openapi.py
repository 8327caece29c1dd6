"""Makes the OpenAPI 3.1 document of the control API from its table of routes."""

from __future__ import annotations

import re
from typing import Any

from groupd.testing.control_routes import ROUTES, Endpoint

ERRORS = {
    "400": "bad input",
    "403": "the request comes from a web page",
    "404": "there is no such thing",
    "409": "refused by the broker (`refused`), or not within the timeout (`wait-timeout`)",
    "413": "the body is too large",
    "415": "the body is not declared as application/json",
}


def document() -> dict[str, Any]:
    """The document that `/control/openapi.json` answers with."""
    paths: dict[str, dict[str, Any]] = {}
    for route in ROUTES:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "groupd control API",
            "version": "1",
            "description": "Faults, time and waits for integration tests; see docs/testing.md.",
        },
        "paths": paths,
        "components": {
            "schemas": {
                "Error": {
                    "type": "object",
                    "properties": {
                        "error": {
                            "type": "object",
                            "properties": {
                                "code": {"type": "string"},
                                "message": {"type": "string"},
                            },
                            "required": ["code", "message"],
                        }
                    },
                    "required": ["error"],
                }
            }
        },
    }


def _operation(route: Endpoint) -> dict[str, Any]:
    names = re.findall(r"\{(\w+)\}", route.path)
    parameters = [
        {
            "name": name,
            "in": "path",
            "required": True,
            "schema": {"type": "integer" if name == "number" else "string"},
        }
        for name in names
    ]
    parameters += [
        {"name": name, "in": "query", "required": False, "schema": dict(schema)}
        for name, schema in route.query.items()
    ]
    error = {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}}
    made: dict[str, Any] = {
        "operationId": _operation_id(route),
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
    if route.body is not None:
        content = {"application/json": {"schema": route.body}}
        made["requestBody"] = {"required": bool(route.body.get("required")), "content": content}
    return made


def _operation_id(route: Endpoint) -> str:
    """A unique operation id, made of the method and the words of the path."""
    words = re.findall(r"\w+", route.path.removeprefix("/control/"))
    return "_".join([route.method.lower(), *words])
