"""The metrics of a recording."""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from groupd.coordinator.admin.collectors import gauge, total
from groupd.coordinator.recording.tape import Tape


class RecordingCollector(Collector):
    def __init__(self, tape: Tape) -> None:
        self._tape = tape

    def collect(self) -> Iterable[Metric]:
        tape = self._tape
        yield gauge("groupd_recording_active", "1 = being recorded.", int(tape.ended is None))
        yield total("groupd_recording_bytes", "Bytes of the recording.", tape.bytes)
        yield total("groupd_recording_entries", "Entries of the recording.", tape.entries)
        yield gauge(
            "groupd_recording_queued_bytes", "Bytes that wait to be written.", tape.queued_bytes
        )
