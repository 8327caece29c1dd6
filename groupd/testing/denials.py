"""What the ACLs have refused to clients, for the text of a wait that ran out of time."""

from __future__ import annotations

import re
from collections import OrderedDict

from groupd.coordinator.security.audit import AuditedDecision

DENIALS_MAX = 100
SHOWN_MAX = 5
_WORD = re.compile(r"(?<=[a-z])(?=[A-Z])")


class Denials:
    """How often each of the last `DENIALS_MAX` different denials was seen, the latest last."""

    def __init__(self) -> None:
        self._seen: OrderedDict[tuple[str, str], int] = OrderedDict()

    def note(self, decision: AuditedDecision) -> None:
        key = (_right(decision), decision.api or "a request")
        self._seen[key] = self._seen.get(key, 0) + 1
        self._seen.move_to_end(key)
        if len(self._seen) > DENIALS_MAX:
            self._seen.popitem(last=False)

    def lines(self) -> list[str]:
        """The latest denials; none if there were none."""
        latest = list(reversed(self._seen.items()))[:SHOWN_MAX]
        shown = [f"  {api}: {right} ({count} times)" for (right, api), count in latest]
        return ["refused by the ACLs:", *shown] if shown else []


def _right(decision: AuditedDecision) -> str:
    """The denied right, written like a rule of `add_acls`."""
    kind, _, name = decision.resource.split(":", 2)
    operation = _WORD.sub("_", decision.operation).upper()
    who = decision.principal.removeprefix("User:")
    return f"{who} may not {operation} {_WORD.sub('-', kind).lower()} {name}"
