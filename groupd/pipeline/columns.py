"""Collects rows of `schema.ENTRIES` column by column, as Arrow takes them.

Nearly every row is an offset commit, and neighbouring rows are much alike. So each column is kept
in the form that costs least for such rows:

- *dense*: one value for each row (offsets, times, what was committed);
- *places*: a place (group, topic, partition, key) is stored once, and rows refer to it by number;
- *runs*: what a batch says about its records (log partition, producer) is stored once per batch;
- *sparse*: the column has a default, the value of a usual commit, and only rows that differ are
  stored.

The `dense` lists are public because the decoder's loop appends to them directly. They are never
replaced by other lists.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from groupd.coordinator.logtools.entries import TYPE_NAMES
from groupd.pipeline.schema import VALUE_COLUMNS

CommitKey = tuple[str | None, str | None, int | None, bytes | None]
"""Group, topic, partition, key."""

ProducerRun = tuple[int, bool | None, int | None, int | None, int | None]
"""Log partition, transactional, producer id, producer epoch, sequence."""

COMMIT = TYPE_NAMES[1]
COMMIT_COLUMN = VALUE_COLUMNS[1]
PLACE_COLUMNS = ("group", "topic", "partition", "key")
RUN_COLUMNS = ("log_partition", "transactional", "producer_id", "producer_epoch", "sequence")
SPARSE: Mapping[str, Any] = {
    "record_type": COMMIT,
    "record_type_id": 1,
    "value_version": 4,
    "member": None,
    "tombstone": False,
    "marker": None,
    "coordinator_epoch": None,
    "error": None,
}
"""The sparse columns, each with the value that a commit in today's format has there."""

_PLACES_MAX = 8192


class EntryColumns:
    """The columns of one Arrow batch. `offsets`, `times_ms`, `places` and `values` have one item
    for each row. With `with_commits` the `commit_` lists do too, with None where the row is no
    commit."""

    def __init__(self, schema: pa.Schema, *, with_commits: bool) -> None:
        self.schema = schema
        self.offsets: list[int] = []
        self.times_ms: list[int | None] = []
        self.places: list[int] = []
        self.values: list[bytes | None] = []
        self.commit_offsets: list[int | None] = []
        self.commit_epochs: list[int | None] = []
        self.commit_times_ms: list[int | None] = []
        self.commit_topics: list[str | None] = []
        self._with_commits = with_commits
        self._commit_sparse: dict[str, dict[int, Any]] = {"metadata": {}, "expire_time": {}}
        self._no_commits: list[int] = []
        self._places: list[CommitKey] = []
        self.known_places: dict[bytes | None, int] = {}
        self._runs: list[ProducerRun] = []
        self._run_ends: list[int] = []
        self._sequences: dict[int, int] = {}
        self._sparse: dict[str, dict[int, Any]] = {name: {} for name in SPARSE}
        self._structs: dict[str, dict[int, Mapping[str, Any]]] = {
            name: {} for name in VALUE_COLUMNS.values() if name in schema.names
        }

    def __len__(self) -> int:
        return len(self.offsets)

    def place(self, place: CommitKey, *, keep: bool = False) -> int:
        """Stores a new place and returns its number. With `keep` it is also put into
        `known_places`."""
        number = len(self._places)
        self._places.append(place)
        if keep:
            self.known_places[place[3]] = number
        return number

    def group(self, place: int) -> str | None:
        return self._places[place][0]

    def run(self, run: ProducerRun) -> None:
        """Sets the run of all rows since the previous run."""
        count = len(self.offsets)
        if self._runs and self._runs[-1] == run:
            self._run_ends[-1] = count
        elif count > (self._run_ends[-1] if self._run_ends else 0):
            self._runs.append(run)
            self._run_ends.append(count)

    def sequence(self, row: int, sequence: int) -> None:
        """Sets the sequence of a row that differs from the others of its run."""
        self._sequences[row] = sequence

    def set_sparse(self, row: int, name: str, value: Any) -> None:
        """Sets the value of a row in the sparse column `name`."""
        if value != SPARSE[name]:
            self._sparse[name][row] = value

    def commit_metadata(self, metadata: str) -> None:
        """Sets the commit metadata of the next row."""
        self._commit_sparse["metadata"][len(self.offsets)] = metadata

    def struct(self, name: str | None, value: Mapping[str, Any] | None) -> None:
        """Sets the struct column `name` of the next row; with None the row has no struct."""
        row = len(self.offsets)
        if name is not None and name != COMMIT_COLUMN and value is not None:
            self._structs[name][row] = value
        if not self._with_commits:
            return
        if name != COMMIT_COLUMN or value is None:
            self._no_commits.append(row)
            value = _NO_COMMIT
        time_us = value["commit_time"]
        self.commit_offsets.append(value["offset"])
        self.commit_epochs.append(value["leader_epoch"])
        self.commit_times_ms.append(None if time_us is None else time_us // 1000)
        self.commit_topics.append(value["topic_id"])
        for field, differing in self._commit_sparse.items():
            if value[field] != _COMMIT_USUAL[field]:
                differing[row] = value[field]

    def take(self) -> pa.RecordBatch:
        """Returns the collected rows and forgets them."""
        arrays = [self._array(field.name, field.type) for field in self.schema]
        batch = pa.RecordBatch.from_arrays(arrays, schema=self.schema)
        self._clear()
        return batch

    def _array(self, name: str, kind: pa.DataType) -> pa.Array:
        if name in PLACE_COLUMNS:
            number = PLACE_COLUMNS.index(name)
            found = pa.array([place[number] for place in self._places], kind)
            return found.take(pa.array(self.places, pa.int32()))
        if name in RUN_COLUMNS:
            return self._run_column(RUN_COLUMNS.index(name), kind)
        if name in SPARSE:
            return _sparse(len(self), SPARSE[name], self._sparse[name], kind)
        if name == COMMIT_COLUMN:
            return self._commit_column(kind)
        if name in self._structs:
            return _structs(len(self), self._structs[name], kind)
        if name == "timestamp":
            return _times(self.times_ms, kind)
        return pa.array(self.offsets if name == "log_offset" else self.values, kind)

    def _run_column(self, number: int, kind: pa.DataType) -> pa.Array:
        values = [run[number] for run in self._runs]
        exceptions = self._sequences if RUN_COLUMNS[number] == "sequence" else {}
        if len(set(values)) < 2 and not exceptions:
            return _sparse(len(self), values[0] if values else None, {}, kind)
        counts = np.diff(self._run_ends, prepend=0)
        found = pa.array(values, kind).take(pa.array(np.repeat(np.arange(len(counts)), counts)))
        if not exceptions:
            return found
        items = found.to_pylist()
        for row, value in exceptions.items():
            items[row] = value
        return pa.array(items, kind)

    def _commit_column(self, kind: pa.StructType) -> pa.Array:
        count = len(self)
        if len(self._no_commits) == count:
            return pa.nulls(count, kind)
        fields = [kind.field(number) for number in range(kind.num_fields)]
        types = {field.name: field.type for field in fields}
        arrays = {
            "offset": pa.array(self.commit_offsets, types["offset"]),
            "leader_epoch": pa.array(self.commit_epochs, types["leader_epoch"]),
            "commit_time": _times(self.commit_times_ms, types["commit_time"]),
            "topic_id": pa.array(self.commit_topics, types["topic_id"]),
        }
        for name, differing in self._commit_sparse.items():
            arrays[name] = _sparse(count, _COMMIT_USUAL[name], differing, types[name])
        mask = None
        if self._no_commits:
            nulls = np.zeros(count, dtype=bool)
            nulls[self._no_commits] = True
            mask = pa.array(nulls)
        columns = [arrays[field.name] for field in fields]
        return pa.StructArray.from_arrays(columns, fields=fields, mask=mask)

    def _clear(self) -> None:
        for dense in (
            self.offsets,
            self.times_ms,
            self.places,
            self.values,
            self.commit_offsets,
            self.commit_epochs,
            self.commit_times_ms,
            self.commit_topics,
            self._no_commits,
            self._runs,
            self._run_ends,
        ):
            dense.clear()
        self._sequences.clear()
        for differing in (*self._sparse.values(), *self._structs.values()):
            differing.clear()
        for differing in self._commit_sparse.values():
            differing.clear()
        if len(self._places) > _PLACES_MAX:
            self._places.clear()
            self.known_places.clear()


_COMMIT_USUAL: Mapping[str, Any] = {"metadata": "", "expire_time": None}
_NO_COMMIT: Mapping[str, Any] = {
    "offset": None,
    "leader_epoch": None,
    "commit_time": None,
    "topic_id": None,
    **_COMMIT_USUAL,
}


def _times(times_ms: Sequence[int | None], kind: pa.DataType) -> pa.Array:
    return pc.multiply(pa.array(times_ms, pa.int64()), 1000).cast(kind)


def _sparse(count: int, usual: Any, differing: Mapping[int, Any], kind: pa.DataType) -> pa.Array:
    if not differing:
        if usual is None:
            return pa.nulls(count, kind)
        return pa.repeat(pa.scalar(usual, kind), count)
    items = [usual] * count
    for row, value in differing.items():
        items[row] = value
    return pa.array(items, kind)


def _structs(count: int, differing: Mapping[int, Mapping[str, Any]], kind: pa.DataType) -> pa.Array:
    if not differing:
        return pa.nulls(count, kind)
    places: list[int | None] = [None] * count
    for number, row in enumerate(differing):
        places[row] = number
    return pa.array(list(differing.values()), kind).take(pa.array(places, pa.int32()))
