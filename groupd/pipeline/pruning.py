"""Reads off Spark's plans which columns of the log a job uses, so that the others stay undecoded.

Spark tells a Python data source nothing about columns, but its optimizer knows them. So a job is
first built over all columns without being run; its plans say which columns it needs, and then it is
built again with only those.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from msgspec.json import decode
from pyspark.sql import DataFrame

from groupd.pipeline.decode import COLUMNS

_SOURCES = ("DataSourceV2ScanRelation", "DataSourceV2Relation", "MapInArrow")
_OPAQUE = ("InMemoryRelation", "LogicalRDD")
"""Plan nodes of cached results, which do not show what they were made from."""


def used_columns(frames: Iterable[DataFrame]) -> tuple[str, ...]:
    """The columns that the frames use, in the order of the schema; all of them if a plan cannot
    tell."""
    used: set[str] = set()
    for frame in frames:
        plan: Any = frame._jdf.queryExecution().optimizedPlan()
        nodes = decode(plan.toJSON())
        names: dict[int, str] = {}
        wanted = {attribute.exprId().id() for attribute in _items(plan.output())}
        for node in nodes:
            kind = node["class"].rpartition(".")[2]
            if kind in _OPAQUE:
                return COLUMNS
            if kind in _SOURCES:
                names |= dict(_attributes(node.get("output", ())))
            else:
                wanted |= {number for number, _ in _attributes(node)}
        used |= {names[number] for number in wanted if number in names}
    return tuple(name for name in COLUMNS if name in used)


def _items(sequence: Any) -> Iterator[Any]:
    """The items of a Scala sequence."""
    for index in range(sequence.length()):
        yield sequence.apply(index)


def _attributes(tree: Any) -> Iterator[tuple[int, str]]:
    """Id and name of each attribute in a part of a plan given as JSON."""
    if isinstance(tree, dict):
        if tree.get("class", "").endswith(".AttributeReference"):
            yield tree["exprId"]["id"], tree["name"]
        for value in tree.values():
            yield from _attributes(value)
    elif isinstance(tree, list):
        for value in tree:
            yield from _attributes(value)
