"""Settings for the whole process, so only for a process that belongs to groupd alone: free memory
is given back to the system, and threads beside a busy event loop run quickly.

Memory: at first glibc gives free blocks of 128 KB and more back. But whenever such a block is freed
glibc raises that limit, up to 32 MB, and keeps smaller blocks for later. After a minute of large
replies a process then keeps three times its size for good. Small blocks are kept as long as
anything lies behind them in the heap: after a crowd of connections these are hundreds of megabytes.
Other C libraries give back both.

Threads: a thread that wants to run Python waits until the running one has had its interval, 5 ms by
default. One transaction of SQLite enters and leaves Python dozens of times, so beside a loop that
is never idle a commit took a second. A request of 240,000 partitions adds a thread that decodes:
with intervals of 0.5 ms a Produce beside it took up to 326 ms, with 0.1 ms 40. Steady loads cost
the same.
"""

from __future__ import annotations

import ctypes
import sys
import threading

LARGE = 512 * 1024
_M_MMAP_THRESHOLD = -3
"""The number of this option of `mallopt` in malloc.h."""

_ours = False
"""Whether this process belongs to groupd alone."""


def give_back_large_blocks() -> None:
    """Let large blocks be given back as soon as they are freed, and turn on
    `give_back_small_blocks`. Both are for the whole process, so only a process that belongs to
    groupd alone may call this."""
    global _ours
    _ours = True
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):
        return  # not glibc
    mallopt(_M_MMAP_THRESHOLD, LARGE)


def give_back_small_blocks() -> None:
    """Give back the free memory, in a thread, because that takes some milliseconds. Does nothing in
    a process that does not belong to groupd alone."""
    if not _ours:
        return
    try:
        trim = ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError, TypeError):
        return  # not glibc
    threading.Thread(target=trim, args=(0,), name="groupd-trim", daemon=True).start()


INTERVAL_S = 0.0001


def threads_have_short_turns() -> None:
    """Set a short interval for the whole process, so only a process that belongs to groupd alone
    may call this."""
    sys.setswitchinterval(INTERVAL_S)
