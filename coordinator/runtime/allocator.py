"""Has the C library give large blocks back to the system as soon as they are freed.

glibc does so for blocks of 128 KB and more at first. But whenever one is freed it raises that
bound, up to 32 MB, and keeps what is smaller for later. After a minute of large replies a process
then stays at three times its size for good. Other C libraries give them back anyway.
"""

from __future__ import annotations

import ctypes

LARGE = 512 * 1024
_M_MMAP_THRESHOLD = -3
"""The number of this option of `mallopt` in malloc.h."""


def give_back_large_blocks() -> None:
    """Sets it for the whole process, so only a process that is groupd's own may call this."""
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):
        return  # not glibc
    mallopt(_M_MMAP_THRESHOLD, LARGE)
