"""A shard of consumer groups whose requests can be told apart and whose deadlines are real."""

from __future__ import annotations

from typing import Any

from groupd.coordinator.core.metadata_image import TopicImage
from groupd.coordinator.core.shard import GroupCoordinatorShard
from groupd.coordinator.core.slices import run_through
from groupd.coordinator.core.types import Outcome, RequestContext, Task
from tests.unit.consumer_group.harness import Shard


class CountedShard(Shard):
    """A shard in which each request has a token of its own, the last one being `tokens`; tasks wait
    in `tasks` for their `turn`."""

    def __init__(self, *topics: TopicImage, **settings: Any) -> None:
        super().__init__(*topics, **settings)
        self.shard = GroupCoordinatorShard(self.state)
        self.tokens = 0
        self.tasks: list[Task] = []

    def context(self, api_version: int = 1, client_id: str = "client") -> RequestContext:
        self.tokens += 1
        return RequestContext(self.tokens, api_version, client_id)

    def apply(self, outcome: Outcome) -> None:
        super().apply(outcome)
        self.tasks += outcome.tasks

    def reload(self) -> None:
        self.tasks.clear()
        super().reload()
        self.shard = GroupCoordinatorShard(self.state)

    def turn(self) -> None:
        task = self.tasks.pop(0)
        self.apply(self.shard.task_done(task, run_through(task.steps()), self.now))
