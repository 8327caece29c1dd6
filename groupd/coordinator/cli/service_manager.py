"""Tells systemd that this process serves or stops: sd_notify(3), for units with `Type=notify`."""

from __future__ import annotations

import os
import socket
from contextlib import suppress

_VARIABLE = "NOTIFY_SOCKET"


class ServiceManager:
    """The service manager that has started this process. Without one, the methods do nothing. Make
    it only once: it removes the variable from the environment, so that child processes do not
    notify."""

    def __init__(self) -> None:
        address = os.environ.pop(_VARIABLE, "")
        # A leading @ stands for the zero byte of an abstract address.
        self._address = address.replace("@", "\0", 1) if address.startswith("@") else address

    def ready(self) -> None:
        self._tell("READY=1")

    def stopping(self) -> None:
        self._tell("STOPPING=1")

    def _tell(self, state: str) -> None:
        if not self._address:
            return
        # If the manager is gone, the daemon must go on.
        with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as end:
            end.sendto(state.encode(), self._address)
