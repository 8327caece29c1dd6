"""Errors that end a daemon, and why a connection has failed, in words.

Their exit code is 1. A wrong command line is `CannotStart`, whose exit code is 2."""

from __future__ import annotations

import ssl


class DaemonFailed(Exception):
    """`str()` is one line."""


def reason(error: OSError) -> str:
    """Why something failed, in words: without numbers of errors and lines of OpenSSL's code."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return error.verify_message
    if isinstance(error, ssl.SSLError) and error.reason:
        return error.reason.replace("_", " ").lower()
    return error.strerror or str(error)
