"""The socket of a recorded connection: who was at its other end; what is sent goes nowhere."""

from __future__ import annotations


class VirtualTransport:
    """As much of an `asyncio.Transport` as a connection uses."""

    def __init__(self, host: str) -> None:
        self._host = host

    def get_extra_info(self, name: str) -> object:
        return (self._host, 0) if name == "peername" and self._host != "unknown" else None

    def set_write_buffer_limits(self, high: int) -> None:
        """There is no buffer."""

    def get_write_buffer_size(self) -> int:
        return 0

    def write(self, data: bytes) -> None:
        """Replies are compared where they are made."""

    def pause_reading(self) -> None:
        """Frames come when the recording says so."""

    def resume_reading(self) -> None:
        """See `pause_reading`."""

    def abort(self) -> None:
        """That the connection was lost is an entry of its own."""

    def close(self) -> None:
        """See `abort`."""
