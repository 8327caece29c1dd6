"""The reasons why a call to a broker has no reply."""

from __future__ import annotations

import os
import ssl

FAILED, TIMEOUT, REFUSED = "failed", "timeout", "refused"


class CallFailed(Exception):
    """A call has no reply, and the client cannot know whether the broker has executed it.

    `str()`: one line with the broker's name. `outcome`: FAILED (no connection, or it was lost),
    TIMEOUT, or REFUSED: too much is under way to that broker, so nothing was sent. `__cause__`: the
    error that has ended an open connection, if any.
    """

    def __init__(self, text: str, outcome: str = FAILED) -> None:
        super().__init__(text)
        self.outcome = outcome


class NotOffered(CallFailed):
    """The broker does not have the API, or not in this version. Nothing was sent."""


class LoginFailed(CallFailed):
    """The broker has refused the login, or has not proved that it knows the password."""


def reason(error: OSError) -> str:
    """Describes an error for people, without error numbers and lines of OpenSSL's code."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return error.verify_message
    if isinstance(error, ssl.SSLError):
        return error.reason.replace("_", " ").lower() if error.reason else str(error)
    if error.errno is not None and error.errno > 0:
        return os.strerror(error.errno)  # asyncio's own text is "Connect call failed (ADDRESS)"
    return error.strerror or str(error)
