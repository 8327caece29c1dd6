"""Short forms for Prometheus metric families."""

from __future__ import annotations

from collections.abc import Mapping

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, UntypedMetricFamily


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
