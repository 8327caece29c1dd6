"""What ends a daemon although nothing is wrong with its command line (exit code 1; mistakes are
`CannotStart`, 2)."""

from __future__ import annotations


class DaemonFailed(Exception):
    """`str()` is one line."""
