"""Slows down clients that guess passwords (`docs/spec/security.md#2.2`). It is asked for each
login, after the password has been checked and before the client is answered. So more connections
do not bring more guesses, and not all clients of the same address have to wait.

A wrong password counts twice: for the user together with the network of the client, and for the
network. If a client guesses the password of one user, only clients wait that log in as this user.
If it tries many users, also those users wait that have not logged in from its network lately.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable

from groupd.coordinator.config.coordinator_config import CoordinatorConfig
from groupd.coordinator.security.recent import Recent, short
from groupd.coordinator.server.by_network import network_of

WINDOW_S = 10.0


class RecentFailures:
    """The recent failures of keys. `limit`: how many failures a key may have in `WINDOW_S`; 0: no
    limit. They may come all at once; then one more is allowed after each `WINDOW_S / limit`.
    `most`: how many keys are remembered; to make room for another, the key whose last failure is
    the oldest is forgotten. `elapsed()`: a clock in seconds."""

    def __init__(self, limit: int, most: int, elapsed: Callable[[], float]) -> None:
        self._each_s = WINDOW_S / limit if limit else 0.0
        self._most = most
        self._elapsed = elapsed
        self._forgotten: OrderedDict[Hashable, float] = OrderedDict()
        """The time at which all failures of a key are forgotten, by key."""

    def __len__(self) -> int:
        return len(self._forgotten)

    def add(self, key: Hashable) -> None:
        if not self._each_s:
            return
        at = max(self._forgotten.pop(key, 0.0), self._elapsed()) + self._each_s
        self._forgotten[key] = at
        if len(self._forgotten) > self._most:
            self._forgotten.popitem(last=False)

    def wait_s(self, key: Hashable) -> float:
        """The time in seconds until the key may fail once more; 0: now."""
        at = self._forgotten.get(key)
        if at is None:
            return 0.0
        left = at - self._elapsed() + self._each_s - WINDOW_S
        return left if left > 1e-6 else 0.0


REMEMBERED_MAX = 10_000
"""How many networks, and how many users from a network, are remembered with their wrong passwords;
also how many users from a network that have logged in."""

LATELY_MS = 7 * 24 * 3600 * 1000
"""For this long a user that has logged in from a network is known there."""


class LoginThrottle:
    """The wrong passwords of a process. `monotonic_ms()`: a clock that never goes back."""

    def __init__(self, config: CoordinatorConfig, monotonic_ms: Callable[[], int]) -> None:
        self._now_ms = monotonic_ms

        def failures(limit: int) -> RecentFailures:
            return RecentFailures(limit, REMEMBERED_MAX, lambda: monotonic_ms() / 1000)

        self._of_user = failures(config.authentication_failures_per_user)
        self._of_network = failures(config.authentication_failures_per_ip)
        self._known: Recent[bool] = Recent(lambda: True, LATELY_MS, REMEMBERED_MAX)

    def wait_ms(self, host: str, user: str) -> int:
        """How long a client of `host` has to wait for the answer to a login as `user`, in ms,
        whether its password is right or wrong."""
        network, name = network_of(host), short(user)
        wait_s = self._of_user.wait_s((network, name))
        if (network, name) not in self._known:
            wait_s = max(wait_s, self._of_network.wait_s(network))
        return round(wait_s * 1000)

    def wrong(self, host: str, user: str) -> None:
        """Counts a wrong password. Called before the client is answered."""
        network = network_of(host)
        self._of_user.add((network, short(user)))
        self._of_network.add(network)

    def right(self, host: str, user: str) -> None:
        self._known.of((network_of(host), short(user)), self._now_ms())
