"""An error that ends a daemon although its command line is right (exit code 1). A wrong command
line is `CannotStart` (exit code 2).
"""

from __future__ import annotations


class DaemonFailed(Exception):
    """`str()` is one line for the user."""
