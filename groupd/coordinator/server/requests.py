"""What a connection gives its decoded requests to."""

from __future__ import annotations

from typing import Any, Protocol

from groupd.coordinator.server.slot import Slot
from groupd.protocol.wire.registry import Api


class Requests(Protocol):
    """Where decoded requests go: the front end of the broker, or a layer before it."""

    def submit(self, slot: Slot, api: Api, request: Any) -> None:
        """Handle `request`; `slot` is answered once, now or later."""
        ...

    def forget(self, slot: Slot) -> None:
        """The client is gone: the reply may be dropped, but the effect of the request stays."""
        ...
