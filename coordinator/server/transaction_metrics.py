"""Metrics of the transaction coordinator, read when scraped."""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client.core import CounterMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from groupd.coordinator.server.families import gauge, labelled, total
from groupd.coordinator.transactions.coordinator import TransactionCoordinator
from groupd.coordinator.transactions.metadata import TransactionState

PREFIX = "kafka_server_transaction_coordinator_metrics_"

RESULTS = ("committed", "aborted", "timed_out", "expired")

NEVER_AT_REST = (TransactionState.DEAD, TransactionState.PREPARE_EPOCH_FENCE)


class TransactionMetrics(Collector):
    """Transactional ids, what became of transactions, and how the markers go."""

    def __init__(self, transactions: TransactionCoordinator) -> None:
        self._transactions = transactions

    def collect(self) -> Iterable[Metric]:
        state_log, markers = self._transactions.log, self._transactions.markers
        yield gauge(
            PREFIX + "partition_load_time_max", "Load of the transactions, ms.", state_log.load_ms
        )
        states = {
            state.shown: count
            for state, count in state_log.table.count_states().items()
            if state not in NEVER_AT_REST
        }
        yield labelled("groupd_transactional_ids", "Transactional ids by state.", "state", states)
        results = CounterMetricFamily(
            "groupd_transactions", "What became of transactions and ids.", labels=["result"]
        )
        for result in RESULTS:
            results.add_metric([result], self._transactions.counts[result])
        yield results
        yield total("groupd_transaction_markers", "Markers written.", markers.written)
        yield total(
            "groupd_transaction_marker_retries", "Rounds of markers to repeat.", markers.retries
        )
        records = state_log.durable_offset - state_log.start_offset
        yield gauge("groupd_transaction_log_records", "Records in the log of ids.", records)
