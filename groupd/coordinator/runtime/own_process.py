"""What groupd sets for a whole process, so only for one that is its own: that free memory is given
back to the system, and that threads beside a busy event loop go on quickly.

Memory: glibc gives blocks of 128 KB and more back at first. But whenever one is freed it raises
that bound, up to 32 MB, and keeps what is smaller for later. After a minute of large replies a
process then stays at three times its size for good. Small blocks it keeps as long as anything
stands behind them in its heap: a crowd of connections leaves hundreds of megabytes. Other C
libraries give back both.

Threads: one that wants to run Python waits until the running one has had its interval, 5 ms by
default. One transaction of SQLite goes in and out of Python dozens of times, so beside a loop that
is never idle a commit took a second. A request of 240,000 partitions adds a thread that decodes:
with turns of 0.5 ms a Produce beside it took up to 326 ms, with 0.1 ms 40. Steady loads cost the
same.
"""

from __future__ import annotations

import ctypes
import sys
import threading

LARGE = 512 * 1024
_M_MMAP_THRESHOLD = -3
"""The number of this option of `mallopt` in malloc.h."""

_ours = False
"""This process is groupd's own."""


def give_back_large_blocks() -> None:
    """Has large blocks given back as soon as they are freed, and `give_back_small_blocks` do its
    work. Both are for the whole process, so only one that is groupd's own may call this."""
    global _ours
    _ours = True
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):
        return  # not glibc
    mallopt(_M_MMAP_THRESHOLD, LARGE)


def give_back_small_blocks() -> None:
    """Gives back what is free now, in a thread: that takes some milliseconds. Does nothing in a
    process that is not groupd's own."""
    if not _ours:
        return
    try:
        trim = ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError, TypeError):
        return  # not glibc
    threading.Thread(target=trim, args=(0,), name="groupd-trim", daemon=True).start()


INTERVAL_S = 0.0001


def threads_have_short_turns() -> None:
    """Sets it for the whole process, so only a process that is groupd's own may call this."""
    sys.setswitchinterval(INTERVAL_S)
