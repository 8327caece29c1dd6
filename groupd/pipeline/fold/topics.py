"""Topic names and ids, as far as the topics table and the log's commits tell them."""

from __future__ import annotations

from collections.abc import Mapping

from groupd.pipeline.fold.state import CLASSIC, Place


class Topics:
    """Ids are UUID text. A name has several ids if its topic was deleted and created again."""

    __slots__ = ("_ids", "_names")

    def __init__(self, names: Mapping[str, str]) -> None:
        self._names = dict(names)
        self._ids: dict[str, set[str]] = {}
        for topic_id, name in names.items():
            self._ids.setdefault(name, set()).add(topic_id)

    def learn(self, topic_id: str | None, name: str) -> None:
        if topic_id and topic_id not in self._names:
            self._names[topic_id] = name
            self._ids.setdefault(name, set()).add(topic_id)

    def name(self, topic_id: str) -> str | None:
        return self._names.get(topic_id)

    def id_of(self, name: str) -> str | None:
        """The id of a topic; None if none is known, or if several are."""
        ids = self._ids.get(name, set())
        return next(iter(ids)) if len(ids) == 1 else None

    def columns(self, place: Place, protocol: str) -> dict[str, str | int | None]:
        """The columns `topic`, `topic_id` and `partition` of a row."""
        topic, partition = place
        if protocol == CLASSIC:
            return {"topic": topic, "topic_id": self.id_of(topic), "partition": partition}
        return {"topic": self.name(topic), "topic_id": topic, "partition": partition}
