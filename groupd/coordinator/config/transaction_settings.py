"""The settings of transactions."""

from __future__ import annotations

from dataclasses import dataclass

from groupd.coordinator.config.settings import setting


@dataclass(frozen=True)
class TransactionSettings:
    """Limits of transactional ids and transactions, and how often they are looked after."""

    # Transactions
    transaction_state_log_num_partitions: int = setting(
        "transaction.state.log.num.partitions",
        50,
        "Partitions of __transaction_state; fixed once the data directory exists.",
        low=1,
        high=10000,
    )
    transaction_max_timeout_ms: int = setting(
        "transaction.max.timeout.ms", 900000, "Largest transaction timeout.", low=1
    )
    transactional_id_expiration_ms: int = setting(
        "transactional.id.expiration.ms",
        604800000,
        "A transactional id that nobody has used for so long is forgotten.",
        low=1,
    )
    transaction_abort_interval_ms: int = setting(
        "transaction.abort.timed.out.transaction.cleanup.interval.ms",
        10000,
        "How often transactions that have timed out are aborted.",
        low=1,
    )
    transaction_expiration_interval_ms: int = setting(
        "transaction.remove.expired.transaction.cleanup.interval.ms",
        3600000,
        "How often unused transactional ids are forgotten.",
        low=1,
    )
    transaction_version: int = setting(
        "groupd.transaction.version",
        2,
        "Finalized feature transaction.version; 2: a new epoch for every transaction (KIP-890).",
        low=1,
        high=2,
    )
    max_transactional_ids: int = setting(
        "groupd.max.transactional.ids", 100000, "Most transactional ids of one node.", low=1
    )
    max_transaction_partitions: int = setting(
        "groupd.max.transaction.partitions",
        5000,
        "Most partitions in one transaction. When a producer has more offsets pending in one "
        "partition of __consumer_offsets, it cannot add any.",
        low=1,
    )
    transaction_partition_verification_enable: bool = setting(
        "transaction.partition.verification.enable",
        True,
        "Check that a partition was added to the transaction before writing to it.",
    )
