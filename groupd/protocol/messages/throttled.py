"""The base of replies whose requests use up a quota while they are handled."""

from __future__ import annotations

from msgspec import Struct


class Throttled(Struct, frozen=True, kw_only=True):
    """`throttle_ms`: how long the client has to wait, as far as the request's handler knows."""

    throttle_ms: int = 0
