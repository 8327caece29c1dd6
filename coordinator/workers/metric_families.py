"""Metrics of several processes as one page: every sample gets the label `node`.

A worker sends its families as JSON. Nothing is summed here: whoever scrapes can add counters over
`node`, and a quantile or a maximum could not be added anyway.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping

from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

NODE = "node"


def encode_families(registry: Collector) -> bytes:
    return json.dumps(
        [
            [
                family.name,
                family.documentation,
                family.type,
                [[sample.name, sample.labels, sample.value] for sample in family.samples],
            ]
            for family in registry.collect()
        ]
    ).encode()


def decode_families(body: bytes) -> list[Metric]:
    families = []
    for name, documentation, kind, samples in json.loads(body):
        family = Metric(name, documentation, kind)
        for sample_name, labels, value in samples:
            family.add_sample(sample_name, labels, value)
        families.append(family)
    return families


class MergedFamilies(Collector):
    """What `generate_latest` gets instead of a registry. `by_node`: families by node id."""

    def __init__(self, by_node: Mapping[int, Iterable[Metric]]) -> None:
        self._by_node = by_node

    def collect(self) -> Iterable[Metric]:
        merged: dict[str, Metric] = {}
        for node_id, families in self._by_node.items():
            for family in families:
                into = merged.setdefault(
                    family.name, Metric(family.name, family.documentation, family.type)
                )
                for sample in family.samples:
                    labels = {NODE: str(node_id), **sample.labels}
                    into.add_sample(sample.name, labels, sample.value)
        return merged.values()
