"""A broker without sockets, and clients of it with few rights."""

from __future__ import annotations

import asyncio
from typing import Any

from groupd.coordinator.core.types import Access, Operation, RequestContext, Resource
from groupd.coordinator.daemon.parts import DaemonParts
from groupd.coordinator.runtime.waiting import Callback
from groupd.coordinator.security.audit import api_text
from groupd.protocol.wire.apis import API_BY_KEY
from tests.support.kio_entities import request_bytes

TOPIC_ID = bytes(range(16))
APIS = {api.name: api for api in API_BY_KEY.values()}


class Denied(Access):
    """No right at all. Keeps the audited questions, and in `apis` which requests asked them."""

    restricted = True
    principal = "User:mallory"

    def __init__(self, *granted: tuple[Operation, Resource, str]) -> None:
        self.granted = granted
        self.audited: list[tuple[Operation, Resource, str]] = []
        self.apis: set[str] = set()

    def allows(
        self, operation: Operation, resource: Resource, name: str, request: type | None = None
    ) -> bool:
        self.audited.append((operation, resource, name))
        self.apis.add(api_text(request))
        return self.sees(operation, resource, name)

    def sees(self, operation: Operation, resource: Resource, name: str) -> bool:
        return (operation, resource, name) in self.granted

    def allows_any(self, operation: Operation, resource: Resource) -> bool:
        return False


class World:
    """A broker with a topic foo, a group grp and a transactional id txn."""

    def __init__(self, parts: DaemonParts) -> None:
        self.parts = parts

    async def ask(
        self, name: str, version: int, fields: Any, access: Access | None = None
    ) -> tuple[Any, bytes]:
        """(the reply, its bytes)"""
        api = APIS[name]
        known = written(name, version)
        request = api.decode(request_bytes(name, known, fields), 0, known)
        replies: list[Any] = []
        waiter = Callback(request, api.failure, replies.append)
        context = RequestContext(waiter, version, "c", "/127.0.0.1", access or Access())
        self.parts.broker.submit(context, request)
        for _ in range(1000):
            if replies:
                return replies[0], bytes(api.encode(replies[0], version))
            await asyncio.sleep(0)
        raise AssertionError(f"{name} v{version} is not answered")


def written(name: str, version: int) -> int:
    """The version in which kio writes the request: it does not know all that are served."""
    if name == "Produce":
        return max(version, 3)
    return min(version, {"TxnOffsetCommit": 5, "DeleteGroups": 2}.get(name, version))
