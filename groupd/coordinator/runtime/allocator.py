"""Has the C library give memory back to the system once it is free.

glibc gives blocks of 128 KB and more back at first. But whenever one is freed it raises that bound,
up to 32 MB, and keeps what is smaller for later. After a minute of large replies a process then
stays at three times its size for good. Small blocks it keeps as long as anything stands behind them
in its heap: a crowd of connections leaves hundreds of megabytes. Other C libraries give back both.
"""

from __future__ import annotations

import ctypes
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
