"""A producer that does not pause while a test changes the group that reads."""

from __future__ import annotations

import threading

from confluent_kafka import Producer

from tests.clients.group import Place

RECORDS_PER_S = 400


class Load:
    """Produces until stopped; `written`: every record that the broker has acknowledged."""

    def __init__(self, bootstrap: str, topic: str, partitions: int) -> None:
        self.written: set[Place] = set()
        self._errors: list[str] = []
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "linger.ms": 20,
                "log_level": 0,
                "metadata.recovery.strategy": "none",  # see docs/clients.md
            }
        )
        self.topic, self._partitions = topic, partitions
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _delivered(self, error: object, message: object) -> None:
        if error is not None:
            self._errors.append(str(error))
        else:
            place = (message.topic(), message.partition(), message.offset())  # type: ignore[attr-defined]
            self.written.add(place)

    def _run(self) -> None:
        number = 0
        while not self._stop.wait(1 / RECORDS_PER_S):
            self._producer.produce(
                self.topic,
                value=str(number).encode(),
                partition=number % self._partitions,
                on_delivery=self._delivered,
            )
            self._producer.poll(0)
            number += 1

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()
        assert self._producer.flush(30) == 0
        assert self._errors == []
