"""Tells systemd that this process serves, or stops: sd_notify(3), for units with `Type=notify`."""

from __future__ import annotations

import os
import socket
from contextlib import suppress

_VARIABLE = "NOTIFY_SOCKET"


class ServiceManager:
    """Says nothing where nobody asks for it. To be made once: processes that this one starts have
    nothing to say for it."""

    def __init__(self) -> None:
        address = os.environ.pop(_VARIABLE, "")
        # An @ stands for the first byte of an abstract address.
        self._address = address.replace("@", "\0", 1) if address.startswith("@") else address

    def ready(self) -> None:
        """The daemon serves."""
        self._tell("READY=1")

    def stopping(self) -> None:
        """The daemon has begun to stop."""
        self._tell("STOPPING=1")

    def _tell(self, state: str) -> None:
        if not self._address:
            return
        # A manager that is gone must not end a daemon that serves.
        with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as end:
            end.sendto(state.encode(), self._address)
