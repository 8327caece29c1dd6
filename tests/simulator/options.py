"""What a seed decides before anything happens. Each kind of fault is switched by itself, so that
runs differ in character instead of all having a little of everything."""

from __future__ import annotations

from dataclasses import dataclass, fields
from random import Random

from groupd.coordinator.config.coordinator_config import CoordinatorConfig

LARGE_EVERY = 40
"""One seed in so many has large groups."""


@dataclass(frozen=True, slots=True)
class Options:
    """Probabilities are per message or append; `*_every_ms` are mean intervals, 0 = never."""

    seed: int
    mixed_groups: bool
    fault_phase_ms: int
    shards: int
    consumer_groups: int
    classic_groups: int
    members: int
    topics: int
    partitions_max: int
    static_share: float
    regex_share: float
    session_timeout_ms: int
    heartbeat_interval_ms: int
    assignment_interval_ms: int
    rebalance_timeout_ms: int
    initial_rebalance_delay_ms: int
    batch_bytes_max: int
    revocation_ms: int
    request_timeout_ms: int
    delay_max_ms: int
    loss: float
    duplicates: float
    late: float
    append_max_ms: int
    slow_append: float
    failed_append: float
    ambiguous_append: float
    failed_read: float
    crash_every_ms: int
    crash_at_append: float
    graceful_restarts: bool
    compaction: bool
    freeze_every_ms: int
    wall_jump_every_ms: int
    churn_every_ms: int
    topic_change_every_ms: int
    admin_every_ms: int
    commit_every_ms: int
    retention_minutes: int
    large_group_size: int
    target_linger_ms: int

    def config(self) -> CoordinatorConfig:
        return CoordinatorConfig(
            consumer_session_timeout_ms=self.session_timeout_ms,
            consumer_min_session_timeout_ms=1000,
            consumer_max_session_timeout_ms=60_000,
            consumer_heartbeat_interval_ms=self.heartbeat_interval_ms,
            consumer_min_heartbeat_interval_ms=500,
            consumer_assignment_interval_ms=self.assignment_interval_ms,
            consumer_large_group_size=self.large_group_size,
            consumer_target_linger_ms=self.target_linger_ms,
            consumer_assignors=("uniform", "range", "roundrobin", "sticky"),
            consumer_regex_refresh_interval_ms=60_000,
            group_min_session_timeout_ms=1000,
            group_initial_rebalance_delay_ms=self.initial_rebalance_delay_ms,
            offsets_topic_num_partitions=self.shards,
            offsets_retention_minutes=self.retention_minutes,
            offsets_retention_check_interval_ms=30_000,
            message_max_bytes=self.batch_bytes_max,
        )

    def describe(self) -> str:
        return "\n".join(f"  {field.name} = {getattr(self, field.name)}" for field in fields(self))


def draw(seed: int, *, mixed_groups: bool = False) -> Options:
    random = Random(f"options {seed}")
    large = seed % LARGE_EVERY == LARGE_EVERY - 1

    def sometimes(probability: float, value: float) -> float:
        return value if random.random() < probability else 0.0

    def mean(probability: float, low: int, high: int) -> int:
        return random.randint(low, high) if random.random() < probability else 0

    heartbeat_ms = random.choice([1000, 2000, 3000])
    session_ms = heartbeat_ms * random.choice([3, 4, 6])
    kinds = random.choice([(1, 0), (1, 0), (2, 0), (0, 1), (1, 1), (2, 1), (0, 2)])
    return Options(
        seed=seed,
        mixed_groups=mixed_groups,
        fault_phase_ms=random.choice([30_000, 60_000] if large else [40_000, 80_000, 120_000]),
        shards=random.choice([1, 2, 3]),
        consumer_groups=kinds[0],
        classic_groups=kinds[1],
        members=random.choice([60, 120, 200]) if large else random.choice([3, 5, 8, 12]),
        topics=random.randint(1, 4),
        partitions_max=random.choice([20, 60]) if large else random.choice([2, 4, 8]),
        static_share=random.choice([0.0, 0.0, 0.3, 0.7]),
        regex_share=random.choice([0.0, 0.0, 0.2, 0.5]),
        session_timeout_ms=session_ms,
        heartbeat_interval_ms=heartbeat_ms,
        assignment_interval_ms=random.choice([0, 0, 1000, 3000]),
        rebalance_timeout_ms=random.choice([3000, 8000, 20_000]),
        initial_rebalance_delay_ms=random.choice([0, 500, 3000]),
        batch_bytes_max=1_000_000 if large else random.choice([1_000_000, 1_000_000, 20_000]),
        revocation_ms=random.choice([0, 300, 2000, 15_000]),
        request_timeout_ms=random.choice([2000, 5000, 30_000]),
        delay_max_ms=random.choice([0, 5, 50, 1000]),
        loss=sometimes(0.6, random.choice([0.01, 0.05, 0.15])),
        duplicates=sometimes(0.3, 0.05),
        late=sometimes(0.3, 0.03),
        append_max_ms=random.choice([0, 2, 20, 200]),
        slow_append=sometimes(0.3, 0.03),
        failed_append=sometimes(0.4, random.choice([0.01, 0.05])),
        ambiguous_append=sometimes(0.4, random.choice([0.01, 0.05])),
        failed_read=sometimes(0.3, 0.2),
        crash_every_ms=mean(0.5, 5000, 40_000),
        crash_at_append=sometimes(0.4, random.choice([0.005, 0.02])),
        graceful_restarts=random.random() < 0.5,
        compaction=random.random() < 0.5,
        freeze_every_ms=mean(0.3, 10_000, 40_000),
        wall_jump_every_ms=mean(0.3, 10_000, 40_000),
        churn_every_ms=mean(0.9, 500, 8000),
        topic_change_every_ms=mean(0.6, 2000, 20_000),
        admin_every_ms=mean(0.5, 3000, 15_000),
        commit_every_ms=random.choice([0, 1000, 3000]) if not large else 5000,
        retention_minutes=random.choice([1, 10_080]),
        large_group_size=random.choice([0, 120, 6000]),
        target_linger_ms=random.choice([0, 5, 5, 100]),
    )
