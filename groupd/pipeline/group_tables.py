"""The columns of the result tables about groups, which the jobs `members`, `rebalances`, `health`
and `what-if` write. They are in one place because the report reads them too.

Times are UTC instants: the timestamps of the records, which is when the coordinator wrote them.
Null means that the log does not tell. Members are named by their member id. `topic` is null where
the log and the topics table know only the id, `topic_id` where they know only the name.
"""

from __future__ import annotations

from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    DoubleType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)


def _struct(**columns: DataType) -> StructType:
    return StructType([StructField(name, kind, nullable=True) for name, kind in columns.items()])


_STRING, _INT, _LONG, _TIME = StringType(), IntegerType(), LongType(), TimestampType()
_DOUBLE, _BOOL, _STRINGS = DoubleType(), BooleanType(), ArrayType(StringType())

MEMBERS = _struct(
    group=_STRING,
    member_id=_STRING,
    instance_id=_STRING,
    client_id=_STRING,
    client_host=_STRING,
    rack_id=_STRING,
    protocol=_STRING,
    joined=_TIME,
    began_by=_STRING,
    replaces=_STRING,
    ended=_TIME,
    ended_by=_STRING,
    ended_certainty=_STRING,
    ended_why=_STRING,
    replaced_by=_STRING,
    lifetime_ms=_LONG,
    last_sign=_TIME,
    first_epoch=_INT,
    last_epoch=_INT,
    epochs=_INT,
    partitions=_INT,
    partitions_max=_INT,
    away_ms=_LONG,
    subscribed_topics=_STRINGS,
    subscribed_regex=_STRING,
    server_assignor=_STRING,
    rebalance_timeout_ms=_INT,
    session_timeout_ms=_INT,
    log_partition=_INT,
    log_offset=_LONG,
)
"""One row for each life: a member from joining to leaving under one member id and one protocol.

`began_by`: `joined`, `replaced` (it took over a static instance), `converted` (the group changed
its protocol), `seen` (the log begins in the middle of its life; `joined` is then when it is first
seen). `ended_by`: `left`, `expired` (session), `rebalance-timeout`, `replaced`, `converted`,
`removed` (one of the first three, but the log does not tell which), null while the member lives.
`ended_certainty`: `certain` or `likely`, null for `removed`. `ended_why`: the evidence, in words.
"""

MEMBER_EPOCHS = _struct(
    group=_STRING,
    member_id=_STRING,
    instance_id=_STRING,
    client_id=_STRING,
    protocol=_STRING,
    epoch=_INT,
    state=_STRING,
    since=_TIME,
    until=_TIME,
    partitions=_INT,
    revoking=_INT,
    log_partition=_INT,
    log_offset=_LONG,
)
"""One row for each interval in which a member had one epoch (classic: generation) and one state:
`stable`, `revoking`, `waiting` (for partitions that other members still hold), `away` (a static
member that left for a while)."""

OWNERSHIP = _struct(
    group=_STRING,
    topic=_STRING,
    topic_id=_STRING,
    partition=_INT,
    member_id=_STRING,
    instance_id=_STRING,
    client_id=_STRING,
    protocol=_STRING,
    epoch=_INT,
    since=_TIME,
    revoking_since=_TIME,
    until=_TIME,
    ended_by=_STRING,
    log_partition=_INT,
    log_offset=_LONG,
)
"""One row for each interval in which a member held a partition; a null `until` means that it still
does. A partition that is being revoked (since `revoking_since`) is held until the member confirms
the revocation. `ended_by`: `revoked`, `removed` (the member is gone), `replaced`, `converted`.
Intervals of a partition never overlap: if a client-side assignor gives it to two members, the one
whose id sorts last has it here."""

REBALANCES = _struct(
    group=_STRING,
    protocol=_STRING,
    epoch=_INT,
    started=_TIME,
    target_at=_TIME,
    stable_at=_TIME,
    duration_ms=_LONG,
    status=_STRING,
    trigger=_STRING,
    triggers=_STRINGS,
    trigger_members=_STRINGS,
    why=_STRING,
    assignor=_STRING,
    members_before=_INT,
    members_after=_INT,
    joined=_STRINGS,
    left=_STRINGS,
    partitions=_INT,
    moved=_INT,
    gained=_INT,
    lost=_INT,
    minimal=_INT,
    minimal_method=_STRING,
    needless=_INT,
    needless_share=_DOUBLE,
    unowned_sum_ms=_LONG,
    unowned_max_ms=_LONG,
    unowned_unknown=_INT,
    waiting_for=_STRINGS,
    flapping=_STRINGS,
    skipped_generations=_INT,
    complete_history=_BOOL,
    written_at=_TIME,
    log_partition=_INT,
    log_offset=_LONG,
)
"""One row for each rebalance: a bump of the group epoch, or a generation of a classic group.

`started`; `target_at`: when the target assignment was written; `stable_at`: when every member had
it; `written_at`: when the first record of the rebalance was written, never null. For classic groups
only stable generations are written, so `started` and `duration_ms` are null and `target_at` is when
the join phase ended. `status`: `completed`, `superseded` (the next rebalance began before it was
stable), `emptied` (no member is left), `unfinished` (at the end of the log). `waiting_for`: the
members that it waited for, if it was not completed. `triggers`, the most important first, and
`trigger`, the first of them: `join`, `leave`, `expiry`, `rebalance-timeout`, `removal` (one of the
three before it), `static-replacement`, `conversion`, `subscription-change`, `regex`,
`assignor-change`, `metadata-change`, `follow-up` (second round of a cooperative classic group),
`unknown`; `why` says it in words. `moved`, `minimal`, `needless` and the unowned times are
explained in docs/pipeline-jobs.md.
"""

REBALANCE_MOVES = _struct(
    group=_STRING,
    epoch=_INT,
    written_at=_TIME,
    topic=_STRING,
    topic_id=_STRING,
    partition=_INT,
    kind=_STRING,
    from_member=_STRING,
    to_member=_STRING,
    forced=_BOOL,
    released_at=_TIME,
    taken_at=_TIME,
    unowned_ms=_LONG,
)
"""One row for each partition that a rebalance gave to another member. `kind`: `moved`, `gained` (it
had no owner before) or `lost` (it has none now). `forced`: the previous owner could not keep it."""

HEALTH = _struct(
    group=_STRING,
    rank=_INT,
    score=_DOUBLE,
    severity=_STRING,
    findings=_INT,
    kinds=_STRINGS,
    summary=_STRING,
    protocol=_STRING,
    state=_STRING,
    members=_INT,
    last_activity=_TIME,
)
"""One row for each group, the worst one first (`rank` 1). `severity`: that of its worst finding,
`ok` if there is none. `summary`: that of the finding with the greatest weight. `state`: `Stable`,
`Rebalancing` or `Empty` at the end of the log, `Offsets` for a group that only stores offsets."""

FINDINGS = _struct(
    group=_STRING,
    finding=_STRING,
    severity=_STRING,
    score=_DOUBLE,
    topic=_STRING,
    partition=_INT,
    member_id=_STRING,
    first=_TIME,
    last=_TIME,
    count=_LONG,
    summary=_STRING,
    evidence=_STRING,
)
"""One row for each finding. `severity`: `info`, `warning`, `critical`. `evidence`: JSON with
`table`, `where` (columns and values that select its rows), `since` and `until` (ISO 8601) and
`facts`."""

WHAT_IF = _struct(
    group=_STRING,
    protocol=_STRING,
    epoch=_INT,
    at=_TIME,
    assignor=_STRING,
    trigger=_STRING,
    status=_STRING,
    members=_INT,
    partitions=_INT,
    recorded_min=_INT,
    recorded_max=_INT,
    recorded_stddev=_DOUBLE,
    recorded_moved=_INT,
    recorded_needless=_INT,
    recorded_unowned_ms=_LONG,
    simulated_min=_INT,
    simulated_max=_INT,
    simulated_stddev=_DOUBLE,
    simulated_moved=_INT,
    simulated_needless=_INT,
    simulated_unowned_ms=_LONG,
    unowned_per_move_ms=_DOUBLE,
    unowned_model=_STRING,
    same_assignment=_BOOL,
    differing=_INT,
)
"""One row for each rebalance that installed a target assignment: what happened, beside what
`assignor` would have done. `status`: `ok`, or why the assignor failed. `differing`: partitions that
would have another owner. `unowned_model`: where `unowned_per_move_ms` comes from: `rebalance`,
`group` or `default`."""

WHAT_IF_TOTALS = _struct(
    group=_STRING,
    assignor=_STRING,
    rebalances=_LONG,
    failed=_LONG,
    same=_LONG,
    recorded_moved=_LONG,
    simulated_moved=_LONG,
    recorded_needless=_LONG,
    simulated_needless=_LONG,
    recorded_unowned_ms=_LONG,
    simulated_unowned_ms=_LONG,
    recorded_stddev=_DOUBLE,
    simulated_stddev=_DOUBLE,
    recorded_spread=_INT,
    simulated_spread=_INT,
)
"""One row for each group. The deviations are means over its rebalances; the spreads (most minus
fewest partitions of a member) are the largest ones. Failed rows count in `failed` only."""
