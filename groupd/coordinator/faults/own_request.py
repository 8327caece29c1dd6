"""A request that the harness makes itself. It comes from no client, and faults do not apply to
it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from groupd.coordinator.core.types import RequestContext
from groupd.coordinator.faults.errors import RequestRefused
from groupd.coordinator.runtime.broker import Broker
from groupd.coordinator.runtime.waiting import Callback
from groupd.protocol.errors import ErrorCode


def submit_own(
    broker: Broker, request: Any, api_version: int, resolve: Callable[[Any], None]
) -> None:
    """Submit a request of the harness. A reply that carries an error is given as RequestRefused."""
    waiter = Callback(request, _refused, resolve)
    broker.submit(RequestContext(waiter, api_version, client_id="groupd-harness"), request)


def _refused(request: Any, code: ErrorCode, message: str | None) -> RequestRefused:
    return RequestRefused(f"{code.name}: {message or type(request).__name__}")
