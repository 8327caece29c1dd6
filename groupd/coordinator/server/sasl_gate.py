"""The login of a client (`docs/spec/security.md#2.2`), and the end of its session
(`docs/spec/security.md#2.5`).

While a login is under way, the gate gets all frames of the connection and answers them itself. So
nothing of a login reaches the broker, its logs or a recording.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import structlog

from groupd.coordinator.runtime.clock import TimerHandle
from groupd.coordinator.security.sasl.authenticator import (
    Authenticator,
    Claimed,
    Complete,
    Drop,
    InThread,
    Proceed,
    Refuse,
    SaslAction,
    SaslIdentity,
)
from groupd.coordinator.security.sasl.mechanisms import Rejected, SaslStep
from groupd.coordinator.server.by_network import network_of
from groupd.coordinator.server.sasl_endpoint import SaslEndpoint
from groupd.coordinator.server.slot import ClientConnection
from groupd.protocol.wire.api.security import SASL_HANDSHAKE

REAUTHENTICATION_PAUSE_MS = 1000
"""At least this time must be between two attempts of a client to authenticate again."""

SLOWED_MAX_MS = 3000
"""The longest time that a client which guesses passwords waits for an answer. If it had to wait
longer, its login is refused without one."""

_HANDSHAKE = SASL_HANDSHAKE.key.to_bytes(2, "big")

log = structlog.get_logger("groupd.sasl")


class SaslGate:
    """The login of one connection. It begins when the connection is accepted."""

    __slots__ = (
        "_authenticator",
        "_begun_ms",
        "_connection",
        "_deadline",
        "_delay",
        "_endpoint",
        "_ends_ms",
        "_expiry",
        "_identity",
    )

    def __init__(
        self,
        endpoint: SaslEndpoint,
        connection: ClientConnection,
    ) -> None:
        self._endpoint = endpoint
        self._connection = connection
        self._authenticator: Authenticator | None = None
        """The login under way; None: the client has logged in."""
        self._identity: SaslIdentity | None = None
        self._begun_ms: int | None = None
        """When the client last began to authenticate again."""
        self._ends_ms: int | None = None
        """When the session ends; None: never."""
        self._deadline: TimerHandle | None = None
        self._delay: TimerHandle | None = None
        self._expiry: TimerHandle | None = None
        connection.limit_frames(endpoint.config.sasl_server_max_receive_size)
        self._begin(endpoint.authenticator())

    @property
    def login(self) -> bool:
        """Whether a login is under way, so that the next frame is a step of it."""
        return self._authenticator is not None

    def takes(self, frame: bytes) -> bool:
        """Works on the frame if it belongs to the gate, and returns whether it did. All requests
        before it have been answered."""
        if self._authenticator is not None:
            if self._connection.account.incoming == len(frame):
                self._connection.account.started()
            if len(frame) > self._endpoint.config.sasl_server_max_receive_size:
                self._act(Drop("frame too large"))
            else:
                self._act(self._authenticator.frame(frame))
            return True
        if self._ends_ms is None:
            return False
        now_ms = self._endpoint.clock.monotonic_ms()
        if frame[:2] == _HANDSHAKE and self._may_begin_again(now_ms):
            self._begun_ms = now_ms
            self._connection.stored_replies.stop()
            self._begin(self._endpoint.authenticator(self._identity))
            return self.takes(frame)
        if now_ms >= self._ends_ms:
            self._expired()
            return True
        return False

    def close(self) -> None:
        """Ends the gate with its connection."""
        self._endpoint.token_verifier.leave(self)
        for timer in (self._deadline, self._delay, self._expiry):
            if timer is not None:
                timer.cancel()
        # This breaks reference cycles, as in `Connection.connection_lost`.
        self._deadline = self._delay = self._expiry = None
        self._authenticator = None

    # A login ------------------------------------------------------------------------------

    def _may_begin_again(self, now_ms: int) -> bool:
        begun_ms = self._begun_ms
        return begun_ms is None or now_ms - begun_ms >= REAUTHENTICATION_PAUSE_MS

    def _begin(self, authenticator: Authenticator) -> None:
        self._authenticator = authenticator
        timeout_ms = self._endpoint.config.authentication_timeout_ms
        self._deadline = self._later(timeout_ms, self._too_late)

    def _act(self, action: SaslAction) -> None:
        connection, authenticator = self._connection, self._authenticator
        assert authenticator is not None
        match action:
            case Proceed(frame):
                if authenticator.software is not None:
                    connection.software = authenticator.software
                connection.write(frame)
            case Complete(frame, identity):
                self._completed(identity)
                connection.write(frame)
            case InThread(work, size):
                connection.block()
                connection.account.grow(size)
                network, told = network_of(connection.host), partial(self._of_thread, size)
                self._endpoint.token_verifier.run(self, network, size, work, told)
            case Claimed(user, step):
                self._slow_down(user, step)
            case Refuse(frame, reason):
                self._failed(reason)
                connection.block()
                connection.stop_reading()
                delay_ms = self._endpoint.config.connection_failed_authentication_delay_ms
                self._delay = self._later(delay_ms, partial(self._part, frame))
            case Drop(reason):
                self._failed(reason)
                connection.abort()

    def _of_thread(self, size: int, step: SaslStep | None) -> None:
        """Takes the result of the thread; None: too many tokens wait for the thread."""
        if self._connection.closed or self._authenticator is None:
            return
        self._connection.account.grow(-size)
        if step is None:
            self._act(Drop("too many tokens wait"))
        else:
            self._go_on(step)

    def _slow_down(self, user: str, step: SaslStep) -> None:
        """Answers a client whose password has been checked. After too many wrong passwords, the
        answer comes later, whether this password is right or wrong, or the login is refused without
        it. A client that authenticates again as the same user does not wait, because it learns
        nothing new."""
        login_throttle, host = self._endpoint.login_throttle, self._connection.host
        if self._identity is not None and self._identity.principal == f"User:{user}":
            self._act(self._judged(step))
            return
        wait_ms = login_throttle.wait_ms(host, user)
        if wait_ms > SLOWED_MAX_MS:
            self._act(Refuse(None, "not judged: too many wrong passwords"))
            return
        if isinstance(step, Rejected):
            login_throttle.wrong(host, user)
        else:
            login_throttle.right(host, user)
        if wait_ms:
            self._connection.block()
            self._delay = self._later(wait_ms, partial(self._go_on, step))
        else:
            self._act(self._judged(step))

    def _judged(self, step: SaslStep) -> SaslAction:
        assert self._authenticator is not None
        return self._authenticator.judged(step)

    def _go_on(self, step: SaslStep) -> None:
        """Goes on with `step` and ends the `block` that was called before it."""
        if not (self._connection.closed or self._authenticator is None):
            self._act(self._judged(step))
            self._connection.unblock()

    def _later(self, wait_ms: int, go: Callable[[], None]) -> TimerHandle:
        return self._endpoint.clock.call_at(self._endpoint.clock.monotonic_ms() + wait_ms, go)

    def _completed(self, identity: SaslIdentity) -> None:
        self._end_login()
        connection, endpoint = self._connection, self._endpoint
        self._count(succeeded=True)
        if not identity.may_repeat and self._identity is None:
            endpoint.stats.no_reauthentication += 1
        if self._identity is None:
            connection.identify(identity.principal)
            connection.limit_frames(endpoint.config.socket_request_max_bytes)
        self._authenticator, self._identity = None, identity
        connection.stored_replies.go_on()
        if self._expiry is not None:
            self._expiry.cancel()
        self._ends_ms = self._expiry = None
        if identity.lifetime_ms is not None:
            self._ends_ms = endpoint.clock.monotonic_ms() + identity.lifetime_ms
            # A stored reply would be sent without asking the gate.
            self._expiry = endpoint.clock.call_at(self._ends_ms, connection.stored_replies.stop)

    def _part(self, frame: bytes | bytearray | None) -> None:
        """Sends `frame`, if there is one, and closes the connection. Called when the delay of a
        failed login is over."""
        if frame is not None:
            self._connection.write(frame)
        self._connection.finish()

    # The end ------------------------------------------------------------------------------

    def _too_late(self) -> None:
        self._deadline = None
        self._failed("it took too long")
        self._connection.abort()

    def _expired(self) -> None:
        self._endpoint.stats.expired += 1
        log.info("session is over; connection closed", client=self._connection.host)
        self._connection.finish()

    def _failed(self, reason: str) -> None:
        assert self._authenticator is not None
        self._end_login()
        self._count(succeeded=False)
        log.info(
            "authentication failed",
            client=self._connection.host,
            listener=self._endpoint.listener,
            mechanism=self._authenticator.mechanism or None,
            reason=reason,
        )
        self._authenticator = None

    def _end_login(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _count(self, *, succeeded: bool) -> None:
        assert self._authenticator is not None
        again = self._identity is not None
        key = self._endpoint.listener, self._authenticator.mechanism, again, succeeded
        self._endpoint.stats.logins[key] += 1
