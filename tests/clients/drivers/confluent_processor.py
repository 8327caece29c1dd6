"""A worker that reads, processes and writes exactly once, on confluent-kafka (librdkafka).

Copies every record of `--source` into the same partition of `--target`, in transactions that take
the offsets along. The Java and Go drivers have the same command line and tell the same on stdout,
one JSON object a line: `assignment` (partitions owned), `offsets` (they are in the transaction,
which is to end soon), `committed` and `aborted` (a transaction, with the number of its records),
`error`, `anew` (what was fatal: the worker goes on with a new consumer and a new producer),
`closed`; this one also `again` (a call that is repeated) and `stuck` (a call that does not come
back, whatever its timeout: it exits with STUCK_EXIT and wants to be started again). SIGTERM or end
of stdin: it commits what is open and leaves. SIGUSR1: the stacks on stderr.
"""

from __future__ import annotations

import argparse
import faulthandler
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from confluent_kafka import (
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)

from tests.clients.drivers.driver import stop_at_sigterm_or_after

CALL_S = 10.0
"""How long one call may take, before it is asked again."""
STUCK_TICKS, TICK_S = 40, 0.5
"""A call that was given `CALL_S` may take so many ticks. They are counted, so that a process that
was stopped by SIGSTOP is not taken for a stuck one."""
STUCK_EXIT = 70
POLL_S, ANEW_S = 0.1, 0.2
LINGER_S = 0.2
"""How long a transaction waits for more records."""
NO_OFFSET = "Failed to fetch committed offset"
"""An error whose partitions librdkafka keeps but never reads (docs/clients.md)."""


def is_the_end(error: KafkaError) -> bool:
    """Whether a consumer that has reported it is of no more use."""
    reset = error.code() == KafkaError._AUTO_OFFSET_RESET
    return error.fatal() or reset or NO_OFFSET in error.str()


def emit(event: str, **fields: Any) -> None:
    sys.stdout.write(json.dumps({"event": event, **fields}) + "\n")
    sys.stdout.flush()


class Watchdog:
    """Ends the process in a call that does not come back: librdkafka's
    send_offsets_to_transaction does not keep to its timeout (docs/clients.md)."""

    def __init__(self) -> None:
        self._call: str | None = None
        self._ticks = 0
        threading.Thread(target=self._watch, daemon=True).start()

    @contextmanager
    def over(self, call: str) -> Iterator[None]:
        self._ticks, self._call = 0, call
        try:
            yield
        finally:
            self._call = None

    def _watch(self) -> None:
        while True:
            time.sleep(TICK_S)
            self._ticks += 1
            if self._call is not None and self._ticks > STUCK_TICKS:
                emit("stuck", call=self._call)
                faulthandler.dump_traceback()
                os._exit(STUCK_EXIT)


WATCHDOG = Watchdog()


def retrying(name: str, call: Callable[[], Any]) -> None:
    """Calls again while the client says that it may be asked again; then it goes on where it
    was."""
    while True:
        try:
            with WATCHDOG.over(name):
                call()
        except KafkaException as error:
            if not error.args[0].retriable():
                raise
            emit("again", error=str(error))
        else:
            return


def consumer_config(options: argparse.Namespace) -> dict[str, Any]:
    config: dict[str, Any] = {
        "bootstrap.servers": options.bootstrap,
        "group.id": options.group,
        "group.protocol": options.protocol,
        "isolation.level": "read_committed",
        # The group has an offset for every partition, but librdkafka resets one nevertheless if it
        # is assigned others while a transaction still holds this one's offset back
        # (docs/clients.md). With "earliest" it would read everything twice.
        "auto.offset.reset": "error",
        "enable.auto.commit": False,
        # Else it can stand still for good when all connections are lost at once (docs/clients.md).
        "metadata.recovery.strategy": "none",
        "reconnect.backoff.max.ms": 500,
        "log_level": 3,
    }
    if options.protocol == "classic":
        config["partition.assignment.strategy"] = options.assignor or "range"
        config["session.timeout.ms"] = options.session_timeout_ms
        config["heartbeat.interval.ms"] = 300
    return config


class Worker:
    """One consumer and one producer, until something is fatal for either."""

    def __init__(self, options: argparse.Namespace) -> None:
        self._options = options
        self._next: dict[int, int] = {}  # of the open transaction, by partition
        self._records = 0
        self._began = 0.0
        self._rewinding = False
        self._producer = Producer(
            {
                # Without it, librdkafka 2.16 can wait for ever in send_offsets_to_transaction
                # after the only broker has restarted; with Apache Kafka, too (docs/clients.md).
                "metadata.recovery.strategy": "none",
                "bootstrap.servers": options.bootstrap,
                "transactional.id": options.transactional_id,
                "client.id": options.transactional_id,
                "transaction.timeout.ms": options.transaction_timeout_ms,
                "reconnect.backoff.max.ms": 500,
                "linger.ms": 0,
                "log_level": 3,
            }
        )
        self._consumer = Consumer(consumer_config(options))

    def run(self, stopping: threading.Event) -> None:
        """Works until `stopping` is set. Raises KafkaException for what neither side recovers
        from."""
        try:
            retrying("init", lambda: self._producer.init_transactions(CALL_S))
            self._consumer.subscribe(
                [self._options.source],
                on_assign=lambda *_: self._tell(),
                on_revoke=lambda *_: self._end(),
                on_lost=lambda *_: self._abort("partitions lost"),
            )
            while not stopping.is_set():
                self._step()
            self._end()
        finally:
            with WATCHDOG.over("close"):
                self._consumer.close()

    def _tell(self) -> None:
        emit("assignment", owned=sorted(at.partition for at in self._consumer.assignment()))

    def _step(self) -> None:
        message = self._consumer.poll(POLL_S)
        if self._rewinding:  # what was polled will come again
            self._rewind()
        elif message is not None and message.error() is not None:
            emit("error", error=str(message.error()))
            if is_the_end(message.error()):
                raise KafkaException(message.error())
        elif message is not None:
            self._take(message)
        full = self._records >= self._options.records
        if self._records and (full or time.monotonic() - self._began > LINGER_S):
            self._end()

    def _take(self, message: Message) -> None:
        if not self._records:
            self._producer.begin_transaction()
            self._began = time.monotonic()
        self._records += 1
        self._next[message.partition()] = message.offset() + 1
        try:
            self._producer.produce(
                self._options.target, message.value(), partition=message.partition()
            )
        except KafkaException as error:
            self._abort(str(error))

    def _end(self) -> None:
        """Commit the open transaction; also before partitions are given back."""
        if not self._records:
            return
        places = [TopicPartition(self._options.source, *at) for at in self._next.items()]
        try:
            time.sleep(self._options.work_ms / 1000)
            group = self._consumer.consumer_group_metadata()
            retrying(
                "send_offsets",
                lambda: self._producer.send_offsets_to_transaction(places, group, CALL_S),
            )
            emit("offsets")
            time.sleep(self._options.work_ms / 1000)
            retrying("commit", lambda: self._producer.commit_transaction(CALL_S))
        except KafkaException as error:
            self._abort(str(error))
            return
        emit("committed", records=self._records)
        self._next, self._records = {}, 0

    def _abort(self, reason: str) -> None:
        if not self._records:
            return
        emit("aborted", records=self._records, error=reason)
        self._next, self._records = {}, 0
        self._rewinding = True
        retrying("abort", lambda: self._producer.abort_transaction(CALL_S))

    def _rewind(self) -> None:
        """Goes back to what is committed; tries it again after the next poll if that fails."""
        try:
            for at in self._consumer.committed(self._consumer.assignment(), CALL_S):
                if at.error is not None:
                    raise KafkaException(at.error)
                self._consumer.seek(TopicPartition(at.topic, at.partition, at.offset))
        except KafkaException as error:
            emit("error", error=f"rewind: {error}")
        else:
            self._rewinding = False


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    for name in ("bootstrap", "group", "source", "target", "transactional-id"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--protocol", default="consumer", choices=("classic", "consumer"))
    parser.add_argument("--assignor", default="")
    parser.add_argument("--session-timeout-ms", type=int, default=6000)
    parser.add_argument("--transaction-timeout-ms", type=int, default=60_000)
    parser.add_argument("--records", type=int, default=25)
    parser.add_argument("--work-ms", type=int, default=0)
    return parser.parse_args()


def main() -> None:
    faulthandler.register(signal.SIGUSR1, all_threads=True)
    options = parse()
    stopping = stop_at_sigterm_or_after(sys.stdin.read)
    while not stopping.is_set():
        worker = Worker(options)
        try:
            worker.run(stopping)
        except KafkaException as error:
            emit("anew", error=str(error))
            stopping.wait(ANEW_S)
        with WATCHDOG.over("destroy"):
            del worker  # librdkafka waits for its threads here
    emit("closed")


if __name__ == "__main__":
    main()
