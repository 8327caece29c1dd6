"""What ends a daemon although nothing is wrong with its command line (exit code 1; mistakes are
`CannotStart`, 2), and why a connection has failed, in words."""

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
