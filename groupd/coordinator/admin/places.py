"""Places for what the admin port does at once: each kind of path has its own, so that long pages
never keep a health check waiting."""

from __future__ import annotations

from collections import Counter
from typing import Protocol


class Abortable(Protocol):
    """The holder of a place: a connection."""

    def abort(self) -> None: ...


class Places:
    """The places of one kind: at most `count` connections hold one at a time. If one more wants a
    place, one that waits for its client is closed: of the address with the most of these, the one
    that has waited longest. If none waits for its client, there is no place."""

    def __init__(self, count: int) -> None:
        self.count = count
        self._held: set[Abortable] = set()
        self._waiting: dict[Abortable, str] = {}
        """The holders that wait for their clients, with the address; the one that has waited
        longest comes first."""

    def __len__(self) -> int:
        return len(self._held)

    def take(self, client: Abortable) -> bool:
        """Take a place; False if there is none. The caller gives it back."""
        if len(self._held) >= self.count:
            other = self._who_gives_way()
            if other is None:
                return False
            self.give_back(other)
            other.abort()
        self._held.add(client)
        return True

    def wait_for_client(self, client: Abortable, address: str = "") -> None:
        """From now on it is the client's turn: to send its request, or to read its reply. Without
        an `address` all count as one."""
        if client in self._held:
            self._waiting[client] = address

    def _who_gives_way(self) -> Abortable | None:
        counts = Counter(self._waiting.values())
        most = max(counts.values(), default=0)
        return next((one for one, at in self._waiting.items() if counts[at] == most), None)

    def abort_waiting(self) -> None:
        """Close all that wait for their clients."""
        for client in tuple(self._waiting):
            self.give_back(client)
            client.abort()

    def abort_all(self) -> None:
        """Close all that hold a place."""
        for client in tuple(self._held):
            self.give_back(client)
            client.abort()

    def give_back(self, client: Abortable) -> None:
        """Give the place back; it may have been taken away before."""
        self._held.discard(client)
        self._waiting.pop(client, None)
