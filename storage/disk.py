"""Whether a disk is full, for databases that only say that something failed."""

from __future__ import annotations

import errno
import tempfile
from pathlib import Path

FULL = "the disk is full"
NO_SPACE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_PROBE_BYTES = 64 * 1024


def is_full(directory: Path) -> bool:
    """Tries to write a little."""
    try:
        with tempfile.TemporaryFile(dir=directory) as probe:
            probe.write(bytes(_PROBE_BYTES))
    except OSError as error:
        return error.errno in NO_SPACE
    return False
