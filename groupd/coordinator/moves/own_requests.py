"""Requests that the daemon makes itself, for an operator. They go the way of every client's
request, so the coordinator refuses them where it would refuse a client."""

from __future__ import annotations

import asyncio
from typing import Any

from groupd.coordinator.core.types import Access, RequestContext
from groupd.coordinator.runtime.broker import Broker
from groupd.coordinator.runtime.waiting import Callback
from groupd.protocol.errors import ErrorCode
from groupd.protocol.wire.apis import API_BY_KEY

CLIENT_ID = "groupd-console"


class Operator(Access):
    """Somebody whom the admin port has let in with the role admin. `name`: who that is."""

    audited_by_asker = True

    def __init__(self, name: str) -> None:
        self.principal = name


def context_of(operator: Operator, address: str, token: Any, version: int = 0) -> RequestContext:
    """The context of an operator's request. `address`: where the operator's client is."""
    return RequestContext(token, version, CLIENT_ID, f"/{address}", operator)


async def ask(broker: Broker, by: RequestContext, api_key: int, version: int, request: Any) -> Any:
    """The reply to a request in the name of `by`. An error is in the reply, and so is it if the
    reply is lost; then nobody knows what was done."""
    answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    failure = API_BY_KEY[api_key].failure

    def resolve(reply: Any) -> None:
        if not answer.done():
            answer.set_result(reply)

    def lost() -> None:
        resolve(failure(request, ErrorCode.UNKNOWN_SERVER_ERROR, None))

    waiter = Callback(request, failure, resolve, lost)
    context = RequestContext(waiter, version, by.client_id, by.client_host, by.access)
    broker.submit(context, request)
    return await answer
