"""Short forms for Prometheus metric families, and families as text in slices."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping
from itertools import chain

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, UntypedMetricFamily
from prometheus_client.exposition import generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector
from prometheus_client.samples import Sample

from groupd.coordinator.core.slices import chunks

SAMPLES_AT_ONCE = 64


def gauge(name: str, doc: str, value: float) -> GaugeMetricFamily:
    return GaugeMetricFamily(name, doc, value=value)


def total(name: str, doc: str, value: float) -> CounterMetricFamily:
    """A counter. The exposition format adds `_total` to its name."""
    return CounterMetricFamily(name, doc, value=value)


def untyped(name: str, doc: str, value: float) -> UntypedMetricFamily:
    """A counter under a name without `_total`, as the JMX exporter shows it."""
    return UntypedMetricFamily(name, doc, value=value)


def labelled(name: str, doc: str, label: str, values: Mapping[str, float]) -> GaugeMetricFamily:
    family = GaugeMetricFamily(name, doc, labels=[label])
    for key, value in values.items():
        family.add_metric([key], value)
    return family


class LazySamples(list[Sample]):
    """Samples of one family that are made while somebody goes over them: there may be many."""

    def __init__(self, make: Callable[[], Iterator[Sample]]) -> None:
        super().__init__()
        self._make = make

    def __iter__(self) -> Iterator[Sample]:
        return self._make()


def text_steps(families: Collector) -> Generator[None, None, bytes]:
    """What `generate_latest` makes of the families. They must have no samples `_created`; ours have
    none."""
    text = bytearray()
    for family in families.collect():
        parts = chunks(family.samples, SAMPLES_AT_ONCE)
        head = True
        for samples in chain((next(parts, []),), parts):
            part = Metric(family.name, family.documentation, family.type)
            part.samples = samples
            lines = generate_latest(_One(part))
            text += lines if head else b"".join(_without_head(lines))
            head = False
            yield
    return bytes(text)


def _without_head(lines: bytes) -> list[bytes]:
    """The lines without the head: a family has one head, however many parts there are."""
    return [line for line in lines.splitlines(keepends=True) if not line.startswith(b"#")]


class _One(Collector):
    def __init__(self, family: Metric) -> None:
        self._family = family

    def collect(self) -> list[Metric]:
        return [self._family]
