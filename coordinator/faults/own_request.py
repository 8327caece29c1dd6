"""A request that the harness makes itself: no client sent it, and no fault is asked about it."""

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
    """A request of the harness itself; RequestRefused is the reply that carries an error."""
    waiter = Callback(request, _refused, resolve)
    broker.submit(RequestContext(waiter, api_version, client_id="groupd-harness"), request)


def _refused(request: Any, code: ErrorCode, message: str | None) -> RequestRefused:
    return RequestRefused(f"{code.name}: {message or type(request).__name__}")
