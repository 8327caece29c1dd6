"""Counts failed attempts to log in by address, so that nobody can guess for long.

All addresses of an IPv6 subnet of 64 bits count as one: whoever has one of them has all.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from ipaddress import ip_address, ip_network

WINDOW_S = 10.0
_IPV6_SUBNET = 64


class RecentFailures:
    """`limit`: failures of an address in a window, which begins with the first of them; then it has
    to wait for the end of the window. 0: no limit. `most`: addresses that are remembered; to make
    room for one more, the address whose last failure is the oldest is forgotten. `elapsed`: a clock
    in seconds."""

    def __init__(self, limit: int, most: int, elapsed: Callable[[], float]) -> None:
        self._limit = limit
        self._most = most
        self._elapsed = elapsed
        self._windows: OrderedDict[str, tuple[float, int]] = OrderedDict()
        """The windows by address: when each ends, and the failures in it."""

    def __len__(self) -> int:
        return len(self._windows)

    def add(self, address: str) -> None:
        if not self._limit:
            return
        key, now = _subnet(address), self._elapsed()
        ends, count = self._windows.pop(key, (0.0, 0))
        self._windows[key] = (ends, count + 1) if now < ends else (now + WINDOW_S, 1)
        if len(self._windows) > self._most:
            self._windows.popitem(last=False)

    def waits_s(self, address: str) -> int:
        """Whole seconds until the address may try again; 0: now."""
        if not self._windows:
            return 0
        ends, count = self._windows.get(_subnet(address), (0.0, 0))
        left = ends - self._elapsed()
        return int(left) + 1 if count >= self._limit and left > 0 else 0


def _subnet(address: str) -> str:
    try:
        ip = ip_address(address)
    except ValueError:
        return address
    mapped = getattr(ip, "ipv4_mapped", None)
    if mapped is not None:
        return str(mapped)
    if ip.version == 4:
        return address
    return str(ip_network((ip, _IPV6_SUBNET), strict=False))
