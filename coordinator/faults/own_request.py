"""A request that the harness makes itself: no client sent it, and no fault is asked about it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from groupd.coordinator.core.types import NO_TOKEN, RequestContext
from groupd.coordinator.faults.errors import RequestRefused
from groupd.coordinator.runtime.broker import Broker
from groupd.protocol.errors import ErrorCode


def submit_own(
    broker: Broker, request: Any, api_version: int, resolve: Callable[[Any], None]
) -> None:
    """A request of the harness itself; RequestRefused is the reply that carries an error."""
    context = RequestContext(NO_TOKEN, api_version, client_id="groupd-harness")
    broker.submit(context, request, _refused, resolve)


def _refused(request: Any, code: ErrorCode, message: str | None) -> RequestRefused:
    return RequestRefused(f"{code.name}: {message or type(request).__name__}")
