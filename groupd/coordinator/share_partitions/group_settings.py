"""The settings of one share group that leaders of share-partitions read
(docs/spec/share-group.md#2.6)."""

from __future__ import annotations

from msgspec import Struct

from groupd.coordinator.config.coordinator_config import CoordinatorConfig
from groupd.coordinator.core.group_configs import Overrides
from groupd.coordinator.core.share_group import configs
from groupd.protocol.messages.data import READ_COMMITTED, READ_UNCOMMITTED


class ShareGroupSettings(Struct, frozen=True):
    """`delivery_count_limit`: how often a record is delivered before it is archived.
    `max_record_locks`: the most records of a share-partition in flight. `reset`: "earliest",
    "latest" or "by_duration:" and a duration. `isolation_level`: as in Fetch. `may_renew`: whether
    members may renew their locks. `dead_letter_topic`: "" if the group has no dead-letter queue."""

    lock_duration_ms: int
    delivery_count_limit: int
    max_record_locks: int
    reset: str
    isolation_level: int
    may_renew: bool
    dead_letter_topic: str
    copies_dead_letters: bool

    @property
    def has_dead_letters(self) -> bool:
        return bool(self.dead_letter_topic)

    @property
    def reset_ms(self) -> int:
        """How old the first record may be, if `reset` is by duration."""
        return configs.duration_ms(self.reset.removeprefix(configs.BY_DURATION))


def settings_of(config: CoordinatorConfig, overrides: Overrides) -> ShareGroupSettings:
    """The settings of a group with these overrides."""
    level = configs.ISOLATION_LEVEL.text(config, overrides)
    return ShareGroupSettings(
        configs.RECORD_LOCK_DURATION.number(config, overrides),
        configs.DELIVERY_COUNT_LIMIT.number(config, overrides),
        configs.MAX_RECORD_LOCKS.number(config, overrides),
        configs.AUTO_OFFSET_RESET.text(config, overrides),
        READ_COMMITTED if level == "read_committed" else READ_UNCOMMITTED,
        configs.RENEW_ACKNOWLEDGE.flag(config, overrides),
        configs.DEAD_LETTER_TOPIC.text(config, overrides)
        if config.dead_letter_queue_enabled
        else "",
        configs.DEAD_LETTER_COPY.flag(config, overrides),
    )
