"""The numbers by which target assignments are timed and cut into slices, in one place.

Times are milliseconds, sizes are members or partitions. An operator may change
`group.consumer.assignment.interval.ms`, a test `consumer_target_linger_ms` ("linger" below) and
`consumer_large_group_size` (`config/constants.py`).
Where a number has a reason of its own, the decision record tells it: docs/adr/0020 (targets in
slices), 0021 (one target for members that join together), 0025 (free partitions).
"""

from __future__ import annotations

# Which groups are large, so that their target is computed in slices (ADR 20).

MEMBER_WEIGHT = 30
"""A member costs about as much to assign as this many partitions. A group is large if members
times this, plus the partitions of its topics, reach `consumer_large_group_size`."""

# One slice of a computation: everybody else's requests wait for so long (ADR 20).

SLICE_MEMBERS = 256
"""At most this many members are collected, checked or compared in one slice."""

SLICE_PARTITIONS = 8192
"""At most about this many partitions are checked in one slice."""

PART_MEMBERS = 64
"""At most this many target records are written in one batch: a batch has a limit in bytes, and a
target of thousands of members does not fit."""

PART_PARTITIONS = 4096
"""At most about this many partitions are in the target records of one batch."""

UNCHANGED_MEMBERS = 1024
"""At most this many members are passed over in one slice because no record is needed for them."""

# A computation that does not move (ADR 20).

STALE_MS = 30_000
"""A computation that has not moved for this long was lost, because its records were refused. The
next heartbeat that finds a target due starts a new one."""

RETRY_MS = 1000
"""After the assignor has failed in a large group it is not called again for this long."""

# How long a target waits for further members (ADR 21).

FIRST_FACTOR = 4
"""A group's first target waits for this many times the linger: there more members are likely."""

STORM_FACTOR = 10
"""Once a second change has come, the target waits for at least this many times the linger."""

STORM_SHARE = 5
"""Once a second change has come, the target also waits at least the fifth part of the time for
which changes have been coming: on a busy machine they come with gaps."""

LINGER_MAX_MS = 500
"""No target waits for longer than this after the first heartbeat that found it due."""

FIRST_LINGER_MAX_MS = 5000
"""The same for a group's first target: no member has partitions that it would miss."""

# How long a heartbeat waits for its answer (ADR 21).

PATIENCE_MS = 900
"""A heartbeat is held back for at most this long; librdkafka gives one up after a second."""

ANSWER_MEMBERS = 64
"""At most this many waiting heartbeats are answered in one slice: their records are one batch."""

ANSWER_PARTITIONS = 4096
"""At most about this many partitions are in the answers of one slice."""

COME_BACK_MS = 250
"""A member without partitions that is answered before its target is there is told to send its next
heartbeat after this long, for each started `COME_BACK_MEMBERS` of its group, and not after a whole
heartbeat interval."""

COME_BACK_MEMBERS = 2500
"""See `COME_BACK_MS`: the larger the group, the longer its target takes."""

# Who gets partitions that no member has (ADR 25).

LATE_SHARE = 20
"""A member counts as silent, and is chosen last, once its heartbeat is late by more than this part
(a twentieth) of the heartbeat interval."""
