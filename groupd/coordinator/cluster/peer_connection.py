"""One connection to another node: requests go out at once, replies come back in their order.

(The connection of commands, `cli/kafka/connection.py`, blocks its thread; what the two share is in
`groupd/protocol/wire/calls.py` and `security/sasl/client.py`.)
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any, cast

from msgspec import Struct

from groupd.coordinator.failures import reason
from groupd.coordinator.runtime.clock import Alarm, Clock
from groupd.protocol.reader import READ_ERRORS, Reader, what_is_wrong
from groupd.protocol.wire.calls import Ask, reply_reader, request_frame
from groupd.protocol.wire.framing import FrameError, FrameSplitter

FAILED, TIMEOUT, REFUSED = "failed", "timeout", "refused"


class PeerUnavailable(Exception):
    """A call to another node has no answer, and nobody knows whether it was done. `outcome`: FAILED
    (no connection, or it was lost), TIMEOUT, or REFUSED: too much is under way to that node, so
    nothing was sent."""

    def __init__(self, reason: str, outcome: str = FAILED) -> None:
        super().__init__(reason)
        self.outcome = outcome


class _Sent(Struct, eq=False):
    """A request without a reply. `reply`: a future; one that is cancelled still waits for its
    reply, which nobody reads."""

    ask: Ask
    correlation: int
    size: int
    due_ms: int
    reply: Any


class PeerConnection(asyncio.Protocol):
    """`where`: for texts. Requests that have no reply after `timeout_ms` end the connection."""

    def __init__(
        self, where: str, client_id: str, max_frame_bytes: int, clock: Clock, timeout_ms: int
    ) -> None:
        self.size = 0
        """Bytes of the requests that are under way."""
        self.expires_ms: int | None = None
        """When the login is about to end, in monotonic ms; None: never."""
        self._where = where
        self._client_id = client_id
        self._clock = clock
        self._timeout_ms = timeout_ms
        self._splitter = FrameSplitter(max_frame_bytes)
        self._sent: deque[_Sent] = deque()
        self._correlation = 0
        self._transport: asyncio.Transport | None = None
        self._broken: str | None = None
        self._retired = False
        self._late = Alarm(clock, self._check_late)

    @property
    def under_way(self) -> int:
        """Requests without a reply."""
        return len(self._sent)

    @property
    def usable(self) -> bool:
        """Whether further requests may be sent."""
        if self._transport is None or self._broken is not None or self._retired:
            return False
        return self.expires_ms is None or self._clock.monotonic_ms() < self.expires_ms

    async def ask(self, ask: Ask) -> Any:
        """Send a request and return what `ask.read` makes of its reply. Raises PeerUnavailable."""
        reader = await self._send(ask)
        try:
            return ask.read(reader)
        except READ_ERRORS as error:
            self.close(f"answer to {ask.api.name} not understood: {what_is_wrong(error)}")
            raise PeerUnavailable(f"{self._where}: {self._broken}") from error

    def _send(self, ask: Ask) -> asyncio.Future[Reader]:
        if self._transport is None or self._broken is not None:
            raise PeerUnavailable(f"{self._where}: {self._broken or 'not connected'}")
        self._correlation = (self._correlation + 1) & 0x7FFFFFFF
        frame = request_frame(ask.api, self._correlation, self._client_id, ask.write)
        reply: asyncio.Future[Reader] = asyncio.get_running_loop().create_future()
        due_ms = self._clock.monotonic_ms() + self._timeout_ms
        self._sent.append(_Sent(ask, self._correlation, len(frame), due_ms, reply))
        self.size += len(frame)
        self._late.at_latest(due_ms)
        self._transport.write(frame)
        return reply

    def retire(self) -> None:
        """Close once all replies are there."""
        self._retired = True
        if not self._sent:
            self.close("not used any more")

    def close(self, why: str, outcome: str = FAILED) -> None:
        """Close at once; requests without a reply fail."""
        if self._broken is not None:
            return
        self._broken = why
        self._late.cancel()
        if self._transport is not None:
            self._transport.abort()
        sent, self._sent, self.size = self._sent, deque(), 0
        for one in sent:
            if not one.reply.done():
                one.reply.set_exception(PeerUnavailable(f"{self._where}: {why}", outcome))

    def _check_late(self) -> None:
        if self._sent and self._sent[0].due_ms <= self._clock.monotonic_ms():
            name = self._sent[0].ask.api.name
            self.close(f"no answer to {name} in {self._timeout_ms} ms", TIMEOUT)
        elif self._sent:
            self._late.at_latest(self._sent[0].due_ms)

    # Protocol -----------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        if self._broken is not None:
            self._transport.abort()

    def data_received(self, data: bytes) -> None:
        try:
            self._splitter.feed(data)
            for frame in iter(self._splitter.next, None):
                self._take(frame)
        except FrameError as error:
            self.close(f"does not speak Kafka's protocol: {error}")
        except READ_ERRORS as error:
            self.close(f"answer not understood: {what_is_wrong(error)}")
        if self._retired and not self._sent:
            self.close("not used any more")

    def _take(self, frame: bytes) -> None:
        if not self._sent:
            self.close("an answer that nobody has asked for")
            return
        one = self._sent[0]
        reader = reply_reader(one.ask.api, frame, one.correlation)
        self._sent.popleft()
        self.size -= one.size
        if not one.reply.done():
            one.reply.set_result(reader)

    def connection_lost(self, error: Exception | None) -> None:
        why = f": {reason(error)}" if isinstance(error, OSError) else ""
        self.close(f"the connection was lost{why}")
