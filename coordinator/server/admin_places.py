"""Places for what the admin port does at once: each kind of path has its own, so that long pages
never keep a health check waiting."""

from __future__ import annotations

from asyncio import WriteTransport


class Places:
    """At most `count` connections hold one at a time. If one more wants a place, the one that has
    waited longest for its client is closed. If none waits for its client, there is no place."""

    def __init__(self, count: int) -> None:
        self.count = count
        self._held: set[WriteTransport] = set()
        self._waiting: dict[WriteTransport, None] = {}
        """Some of those that are held; the one that has waited longest comes first."""

    def __len__(self) -> int:
        return len(self._held)

    def take(self, transport: WriteTransport) -> bool:
        """Whether there is a place. The caller gives it back."""
        if len(self._held) >= self.count:
            longest = next(iter(self._waiting), None)
            if longest is None:
                return False
            self.give_back(longest)
            longest.abort()
        self._held.add(transport)
        return True

    def wait_for_client(self, transport: WriteTransport) -> None:
        """From now on it is the client's turn: to send its request, or to read its reply."""
        self._waiting[transport] = None

    def give_back(self, transport: WriteTransport) -> None:
        """It may have been taken away before."""
        self._held.discard(transport)
        self._waiting.pop(transport, None)
