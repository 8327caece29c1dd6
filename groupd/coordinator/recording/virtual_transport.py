"""The transport of a recorded connection in a replay: it knows the client's address, and what is
sent goes nowhere."""

from __future__ import annotations


class VirtualTransport:
    """The parts of an `asyncio.Transport` that a connection uses."""

    def __init__(self, host: str) -> None:
        self._host = host

    def get_extra_info(self, name: str) -> object:
        return (self._host, 0) if name == "peername" and self._host != "unknown" else None

    def set_write_buffer_limits(self, high: int) -> None:
        """Does nothing: there is no buffer."""

    def get_write_buffer_size(self) -> int:
        return 0

    def write(self, data: bytes) -> None:
        """Does nothing: replies are compared where they are made."""

    def pause_reading(self) -> None:
        """Does nothing: frames come when the recording says so."""

    def resume_reading(self) -> None:
        """See `pause_reading`."""

    def is_closing(self) -> bool:
        return False

    def abort(self) -> None:
        """Does nothing: the loss of the connection is an entry of its own."""

    def close(self) -> None:
        """See `abort`."""
