"""The log of share groups' state as a table."""

from __future__ import annotations

from groupd.pipeline.jobs.entries import copy_of
from groupd.pipeline.logs import SHARE_STATE

JOB = copy_of(SHARE_STATE, "every record of share groups' state, decoded: a copy to keep")
