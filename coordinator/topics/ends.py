"""Where the logs of partitions begin and end, for whoever only wants to show it."""

from __future__ import annotations

from groupd.coordinator.topics.partitions import KnownTopics, Partitions


class LogEnds:
    """Looks at what is open: opening a log reads all of it."""

    def __init__(self, catalogue: KnownTopics, partitions: Partitions) -> None:
        self._catalogue = catalogue
        self._partitions = partitions

    def __call__(self, topic: str, partition: int) -> tuple[int, int] | None:
        """(start offset, high watermark). None: there is no such partition, or no client has used
        it since the start."""
        known = self._catalogue.topic(topic)
        log = None if known is None else self._partitions.is_open(known, partition)
        return None if log is None else (log.start_offset, log.high_watermark)
