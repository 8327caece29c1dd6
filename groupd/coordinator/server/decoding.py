"""Decodes requests: short ones at once, long ones in a thread. Also decides which requests of one
connection may be under way together: those of the same lane (ADR 30)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, cast

from groupd.protocol.wire.apis import API_BY_KEY
from groupd.protocol.wire.header import RequestHeader, parse_request_header
from groupd.protocol.wire.registry import Api, LongRequest, MalformedRequest

# Lanes --------------------------------------------------------------------------------------

# Kafka works on one request of a connection at a time, and clients rely on that. Otherwise a client
# that sends Produce and then ListOffsets, without waiting in between, would get an offset from
# before its own records. So a request starts when every request before it has been answered.
#
# Exceptions are requests whose effects happen in order anyway, and which together can share an
# fsync. Each API says so in its row (`Api.lane`). A request of an API without a lane runs alone on
# its connection.

_LANES = {api.key.to_bytes(2, "big"): api.lane for api in API_BY_KEY.values()}
_NAMED = {key: lane for key, lane in _LANES.items() if isinstance(lane, str)}
_READ = {key: lane for key, lane in _LANES.items() if callable(lane)}
"""The lanes by the first bytes of a frame: either the name of the lane, or a function that reads it
in the frame."""


def lane_of(frame: bytes) -> str | None:
    """The lane of a request; None if it must be the only one under way. `frame`: the request
    without its length field. It may be malformed."""
    key = frame[:2]
    if (name := _NAMED.get(key)) is not None:
        return name
    if (lane := _READ.get(key)) is None:
        return None
    try:
        header = parse_request_header(frame, API_BY_KEY)
        return lane(frame, header.body_offset, header.api_version)
    except MalformedRequest:
        return None


# Long requests ------------------------------------------------------------------------------

# Decoding spends most of its time on the items of arrays. A request with more than
# `ITEMS_DECODED_INLINE` of them is decoded again in a thread, where Python gives the event loop its
# turn every few milliseconds. There is one such thread, so only one request at a time takes the
# memory that decoding needs. A request with more than `request_max_items` is refused like a frame
# that is too large.

ITEMS_DECODED_INLINE = 4000
"""The most items of a request that are decoded on the event loop: about two milliseconds."""

Decoded = tuple[Any, int]
"""(request, number of its items)."""

Done = Callable[[Decoded | Exception], None]


class Decoder:
    """Decodes long requests in a thread. `max_items`: the most items that a request may have."""

    def __init__(self, max_items: int) -> None:
        self._max_items = max_items
        self._thread: ThreadPoolExecutor | None = None
        self._line: dict[Hashable, tuple[Callable[[], Decoded], Done]] = {}
        self._busy = False

    def in_thread(
        self, owner: Hashable, frame: bytes, header: RequestHeader, api: Api, done: Done
    ) -> None:
        """Calls `done` in a later turn of the running loop, with the request and the number of its
        items, or with a MalformedRequest. An `owner` has one request at a time here."""
        self._line[owner] = partial(self._whole, frame, header, api), done
        self._next()

    def forget(self, owner: Hashable) -> None:
        """Drops the request of `owner`. If it is being decoded already, `done` is called all the
        same."""
        self._line.pop(owner, None)

    def _next(self) -> None:
        if self._busy or not self._line:
            return
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, "decoding")
        work, done = self._line.pop(next(iter(self._line)))
        future = asyncio.get_running_loop().run_in_executor(self._thread, work)
        # This is set only now: if no thread can be started, the next request tries again.
        self._busy = True
        future.add_done_callback(partial(self._told, done))

    def _told(self, done: Done, future: asyncio.Future[Decoded]) -> None:
        self._busy = False
        if future.cancelled():
            return
        error = future.exception()
        try:
            done(future.result() if error is None else cast(Exception, error))
        finally:
            self._next()

    def _whole(self, frame: bytes, header: RequestHeader, api: Api) -> Decoded:
        try:
            return api.counted(frame, header.body_offset, header.api_version, self._max_items)
        except LongRequest as error:
            raise MalformedRequest(f"{api.name} with {error}") from error

    def close(self) -> None:
        if self._thread is not None:
            self._thread.shutdown(wait=False, cancel_futures=True)
