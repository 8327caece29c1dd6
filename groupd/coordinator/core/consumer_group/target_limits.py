"""The times and sizes that govern when target assignments are computed and how they are cut into
slices.

Times are milliseconds, sizes are members or partitions. An operator may change
`group.consumer.assignment.interval.ms`, a test `consumer_target_linger_ms` ("linger" below) and
`consumer_large_group_size` (`config/internal_limits.py`). The decision records give the reasons for
single numbers: docs/adr/0020 (targets in slices), 0021 (one target for members that join together),
0025 (free partitions).
"""

from __future__ import annotations

# Which groups are large, so that their target is computed in slices (ADR 20).

MEMBER_WEIGHT = 30
"""A member costs about as much to assign as this many partitions. A group is large if members
times this, plus the partitions of its topics, reach `consumer_large_group_size`."""

# The size of one slice of a computation: all other requests wait for so long (ADR 20).

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
"""At most this many members that need no record are skipped in one slice."""

# A computation that does not go on (ADR 20).

STALE_MS = 30_000
"""A computation that has not gone on for this long was lost, because its records were refused. The
next heartbeat that finds a target due starts a new one."""

RETRY_MS = 1000
"""After the assignor has failed in a large group it is not called again for this long."""

# How long a target waits for further members (ADR 21).

FIRST_FACTOR = 4
"""A group's first target waits for this many times the linger, because more members are likely to
join."""

STORM_FACTOR = 10
"""Once a second change of the group has come, the target waits for at least this many times the
linger."""

STORM_SHARE = 5
"""Once a second change of the group has come, the target also waits for at least this part (a
fifth) of the time for which changes have been coming: on a busy machine they come with gaps."""

LINGER_MAX_MS = 500
"""No target waits for longer than this after the first heartbeat that found it due."""

FIRST_LINGER_MAX_MS = 5000
"""The same for a group's first target, which may take longer: no member has partitions yet."""

# How long a heartbeat waits for its answer (ADR 21).

PATIENCE_MS = 900
"""A heartbeat waits for at most this long; librdkafka gives up on a heartbeat after a second."""

ANSWER_MEMBERS = 64
"""At most this many waiting heartbeats are answered in one slice; their records are one batch."""

ANSWER_PARTITIONS = 4096
"""At most about this many partitions are in the answers of one slice."""

COME_BACK_MS = 250
"""A member without partitions may have to be answered before its target is there. Then the reply
tells it to send its next heartbeat after this long, for each started `COME_BACK_MEMBERS` of its
group, and not after a whole heartbeat interval."""

COME_BACK_MEMBERS = 2500
"""See `COME_BACK_MS`: the larger the group, the longer its target takes."""

# Who gets partitions that no member has (ADR 25).

LATE_SHARE = 20
"""Once a heartbeat is late by more than this part (a twentieth) of the heartbeat interval, its
member counts as silent and is chosen last."""
