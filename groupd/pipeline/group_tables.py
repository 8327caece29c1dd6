"""The columns of the result tables about groups, which the jobs `members`, `rebalances`, `health`
and `what-if` write. They are in one place because the report reads them too.

Times are UTC instants: the timestamps of the records, which is when the coordinator wrote them.
Null means that the log does not tell. Members are named by their member id. `topic` is null where
the log and the topics table know only the id, `topic_id` where they know only the name.
"""

from __future__ import annotations

from groupd.pipeline.schema import BOOL, DOUBLE, INT, LONG, STRING, STRINGS, TIME, struct

MEMBERS = struct(
    group=STRING,
    member_id=STRING,
    instance_id=STRING,
    client_id=STRING,
    client_host=STRING,
    rack_id=STRING,
    protocol=STRING,
    joined=TIME,
    began_by=STRING,
    replaces=STRING,
    ended=TIME,
    ended_by=STRING,
    ended_certainty=STRING,
    ended_why=STRING,
    replaced_by=STRING,
    lifetime_ms=LONG,
    last_sign=TIME,
    first_epoch=INT,
    last_epoch=INT,
    epochs=INT,
    partitions=INT,
    partitions_max=INT,
    away_ms=LONG,
    subscribed_topics=STRINGS,
    subscribed_regex=STRING,
    server_assignor=STRING,
    rebalance_timeout_ms=INT,
    session_timeout_ms=INT,
    log_partition=INT,
    log_offset=LONG,
)
"""One row for each life: a member from joining to leaving under one member id and one protocol.

`began_by`: `joined`, `replaced` (it took over a static instance), `converted` (the group changed
its protocol), `seen` (the log begins in the middle of its life; `joined` is then when it is first
seen). `ended_by`: `left`, `expired` (session), `rebalance-timeout`, `replaced`, `converted`,
`removed` (one of the first three, but the log does not tell which), null while the member lives.
`ended_certainty`: `certain` or `likely`, null for `removed`. `ended_why`: the evidence, in words.
"""

MEMBER_EPOCHS = struct(
    group=STRING,
    member_id=STRING,
    instance_id=STRING,
    client_id=STRING,
    protocol=STRING,
    epoch=INT,
    state=STRING,
    since=TIME,
    until=TIME,
    partitions=INT,
    revoking=INT,
    log_partition=INT,
    log_offset=LONG,
)
"""One row for each interval in which a member had one epoch (classic: generation) and one state:
`stable`, `revoking`, `waiting` (for partitions that other members still hold), `away` (a static
member that left for a while)."""

OWNERSHIP = struct(
    group=STRING,
    topic=STRING,
    topic_id=STRING,
    partition=INT,
    member_id=STRING,
    instance_id=STRING,
    client_id=STRING,
    protocol=STRING,
    epoch=INT,
    since=TIME,
    revoking_since=TIME,
    until=TIME,
    ended_by=STRING,
    log_partition=INT,
    log_offset=LONG,
)
"""One row for each interval in which a member held a partition; a null `until` means that it still
does. A partition that is being revoked (since `revoking_since`) is held until the member confirms
the revocation. `ended_by`: `revoked`, `removed` (the member is gone), `replaced`, `converted`.
Intervals of a partition never overlap: if a client-side assignor gives it to two members, the one
whose id sorts last has it here."""

REBALANCES = struct(
    group=STRING,
    protocol=STRING,
    epoch=INT,
    started=TIME,
    target_at=TIME,
    stable_at=TIME,
    duration_ms=LONG,
    status=STRING,
    trigger=STRING,
    triggers=STRINGS,
    trigger_members=STRINGS,
    why=STRING,
    assignor=STRING,
    members_before=INT,
    members_after=INT,
    joined=STRINGS,
    left=STRINGS,
    partitions=INT,
    moved=INT,
    gained=INT,
    lost=INT,
    minimal=INT,
    minimal_method=STRING,
    needless=INT,
    needless_share=DOUBLE,
    unowned_sum_ms=LONG,
    unowned_max_ms=LONG,
    unowned_unknown=INT,
    waiting_for=STRINGS,
    flapping=STRINGS,
    skipped_generations=INT,
    complete_history=BOOL,
    written_at=TIME,
    log_partition=INT,
    log_offset=LONG,
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

REBALANCE_MOVES = struct(
    group=STRING,
    epoch=INT,
    written_at=TIME,
    topic=STRING,
    topic_id=STRING,
    partition=INT,
    kind=STRING,
    from_member=STRING,
    to_member=STRING,
    forced=BOOL,
    released_at=TIME,
    taken_at=TIME,
    unowned_ms=LONG,
)
"""One row for each partition that a rebalance gave to another member. `kind`: `moved`, `gained` (it
had no owner before) or `lost` (it has none now). `forced`: the previous owner could not keep it."""

HEALTH = struct(
    group=STRING,
    rank=INT,
    score=DOUBLE,
    severity=STRING,
    findings=INT,
    kinds=STRINGS,
    summary=STRING,
    protocol=STRING,
    state=STRING,
    members=INT,
    last_activity=TIME,
)
"""One row for each group, the worst one first (`rank` 1). `severity`: that of its worst finding,
`ok` if there is none. `summary`: that of the finding with the greatest weight. `state`: `Stable`,
`Rebalancing` or `Empty` at the end of the log, `Offsets` for a group that only stores offsets."""

GROUP_STATES = struct(group=STRING, protocol=STRING, state=STRING, members=INT, last_activity=TIME)
"""One row for each group: the columns of `HEALTH` that do not come from findings."""

FINDINGS = struct(
    group=STRING,
    finding=STRING,
    severity=STRING,
    score=DOUBLE,
    topic=STRING,
    partition=INT,
    member_id=STRING,
    first=TIME,
    last=TIME,
    count=LONG,
    summary=STRING,
    evidence=STRING,
)
"""One row for each finding. `severity`: `info`, `warning`, `critical`. `evidence`: JSON with
`table`, `where` (columns and values that select its rows), `since` and `until` (ISO 8601) and
`facts`."""

WHAT_IF = struct(
    group=STRING,
    protocol=STRING,
    epoch=INT,
    at=TIME,
    assignor=STRING,
    trigger=STRING,
    status=STRING,
    members=INT,
    partitions=INT,
    recorded_min=INT,
    recorded_max=INT,
    recorded_stddev=DOUBLE,
    recorded_moved=INT,
    recorded_needless=INT,
    recorded_unowned_ms=LONG,
    simulated_min=INT,
    simulated_max=INT,
    simulated_stddev=DOUBLE,
    simulated_moved=INT,
    simulated_needless=INT,
    simulated_unowned_ms=LONG,
    unowned_per_move_ms=DOUBLE,
    unowned_model=STRING,
    same_assignment=BOOL,
    differing=INT,
)
"""One row for each rebalance that installed a target assignment: what happened, beside what
`assignor` would have done. `status`: `ok`, or why the assignor failed. `differing`: partitions that
would have another owner. `unowned_model`: where `unowned_per_move_ms` comes from: `rebalance`,
`group` or `default`."""

WHAT_IF_TOTALS = struct(
    group=STRING,
    assignor=STRING,
    rebalances=LONG,
    failed=LONG,
    same=LONG,
    recorded_moved=LONG,
    simulated_moved=LONG,
    recorded_needless=LONG,
    simulated_needless=LONG,
    recorded_unowned_ms=LONG,
    simulated_unowned_ms=LONG,
    recorded_stddev=DOUBLE,
    simulated_stddev=DOUBLE,
    recorded_spread=INT,
    simulated_spread=INT,
)
"""One row for each group. The deviations are means over its rebalances; the spreads (most minus
fewest partitions of a member) are the largest ones. Failed rows count in `failed` only."""
