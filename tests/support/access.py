"""Rights by a function, for tests that are not about ACLs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from groupd.coordinator.core.types import Access, Operation, Resource

Rule = Callable[[Operation, Resource, str], bool]


def allow_all(operation: Operation, resource: Resource, name: str) -> bool:
    return True


class ByRule(Access):
    """Allows what `rule` says, whether it is logged or not. For "any resource at all" it asks the
    rule about one that is named "*"."""

    restricted = True

    def __init__(self, rule: Any) -> None:
        self._rule: Rule = rule

    def allows(
        self, operation: Operation, resource: Resource, name: str, request: type | None = None
    ) -> bool:
        return self._rule(operation, resource, name)

    def sees(self, operation: Operation, resource: Resource, name: str) -> bool:
        return self._rule(operation, resource, name)

    def allows_any(self, operation: Operation, resource: Resource) -> bool:
        return self._rule(operation, resource, "*")
