"""What all connections of a listener have seen."""

from __future__ import annotations


class ConnectionStats:
    """Plain counters, collected at scrape."""

    __slots__ = (
        "accepted",
        "bytes_in",
        "bytes_out",
        "malformed",
        "open",
        "refused",
        "repeated",
        "requests",
        "stalled",
    )

    def __init__(self) -> None:
        self.open = 0
        self.accepted = 0
        self.refused = 0
        self.malformed = 0
        self.stalled = 0
        self.repeated = 0
        self.bytes_in = 0
        self.bytes_out = 0
        self.requests: dict[tuple[int, int], int] = {}
