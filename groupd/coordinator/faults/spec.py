"""The description of a fault: which requests it matches, which of those it hits, and what happens
to them.

Everything here is plain data that is checked once, so that a fault means the same in Python and
over HTTP. Unknown names and values are refused: a test with a fault that silently matches nothing
would pass for the wrong reason.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Any

from msgspec import Struct
from msgspec.structs import asdict, fields

from groupd.coordinator.faults.errors import HarnessError, WrongType
from groupd.coordinator.suggest import did_you_mean
from groupd.protocol.errors import ErrorCode
from groupd.protocol.wire.apis import API_BY_KEY

ERROR = "error"
DELAY = "delay"
DROP = "drop"
CLOSE = "close"
TWICE = "twice"
HOLD = "hold"
REDIRECT = "redirect"
ACTIONS = (ERROR, DELAY, DROP, CLOSE, TWICE, HOLD, REDIRECT)

MEMBER_APIS = frozenset({8, 11, 12, 13, 14, 28, 68}) & API_BY_KEY.keys()
"""The API keys of the requests that members of a group send."""
GROUP_APIS = MEMBER_APIS | (frozenset({9, 15, 42, 47, 69}) & API_BY_KEY.keys())
"""The API keys of the requests that a group's coordinator answers."""
FIND_COORDINATOR = 10
ALIASES: Mapping[str, frozenset[int]] = {
    "group": GROUP_APIS,
    "member": MEMBER_APIS,
    "heartbeat": frozenset({12, 68}),
}
COUNT_MAX = 1_000_000
DELAY_MAX_MS = 30 * 24 * 3_600_000
TEXT_MAX = 1024


class FaultSpec(Struct, frozen=True, dict=True):
    """One fault, checked (`make_spec`).

    Which requests it matches: `api` (None = all), `group`, `member` (its id or its
    group.instance.id), `client_id`, `transactional_id`; None = any, `*` stands for any characters.
    Which of those it hits: not the first `skip`, then `count` of them (None = all), each with
    `probability`, drawn from a generator that is seeded with `seed`; and only after the fault with
    the number `after` has hit a request.

    What happens: `action`. `applied`: the broker carries the request out, and only its reply is
    affected. `code`, `message`: for `error`. `ms`: for `delay`, on the coordinator's clock. `node`:
    for `redirect`, (id, host, port).
    """

    action: str
    api: tuple[int, ...] | None = None
    group: str | None = None
    member: str | None = None
    client_id: str | None = None
    transactional_id: str | None = None
    count: int | None = None
    skip: int = 0
    probability: float = 1.0
    seed: int = 0
    after: int | None = None
    applied: bool = False
    code: ErrorCode = ErrorCode.NONE
    message: str | None = None
    ms: int = 0
    node: tuple[int, str, int] | None = None

    @cached_property
    def api_keys(self) -> frozenset[int] | None:
        return None if self.api is None else frozenset(self.api)

    @cached_property
    def patterns(self) -> tuple[tuple[str, re.Pattern[str]], ...]:
        """A pair (name, pattern) for each of the four names that was given."""
        names = ("group", "member", "client_id", "transactional_id")
        given = ((name, getattr(self, name)) for name in names)
        return tuple((name, _pattern(text)) for name, text in given if text is not None)

    def shown(self) -> dict[str, Any]:
        """The fault as JSON: without the options that were not given; APIs and errors by name."""
        found = {
            name: value
            for name, value in asdict(self).items()
            if value != _DEFAULTS.get(name, ...) and not isinstance(value, ErrorCode)
        }
        if self.api is not None:
            found["api"] = [API_BY_KEY[key].name for key in self.api]
        if self.action == ERROR:
            found["code"] = self.code.name
        return found


_MATCHES = frozenset(entry.name for entry in fields(FaultSpec)) - {"action"}
_DEFAULTS = {entry.name: entry.default for entry in fields(FaultSpec)}
_NEEDS = {ERROR: ("code",), DELAY: ("ms",), REDIRECT: ("node",)}
_ONLY = {"code": ERROR, "message": ERROR, "ms": DELAY, "node": REDIRECT}


def make_spec(action: str, given: Mapping[str, Any]) -> FaultSpec:
    """The checked fault. An option that is None counts as not given. Raises HarnessError, which
    says what is wrong."""
    options = {name: value for name, value in given.items() if value is not None}
    if action not in ACTIONS:
        hint = did_you_mean(action, ACTIONS)
        raise HarnessError(f"fault {action!r}{hint}: must be one of {', '.join(ACTIONS)}")
    unknown = options.keys() - _DEFAULTS.keys()
    if unknown:
        name = min(unknown)
        hint = did_you_mean(name, _MATCHES) or f"; it has {', '.join(sorted(_MATCHES))}"
        raise HarnessError(f"a fault has no {name}{hint}")
    for name in _NEEDS.get(action, ()):
        if name not in options:
            raise HarnessError(f"fault {action!r} needs {name}")
    for name, owner in _ONLY.items():
        if name in options and owner != action:
            raise HarnessError(f"{name} is for {owner!r}, not for {action!r}")
    made = {name: _CHECKS[name](name, value) for name, value in options.items()}
    if action == REDIRECT:
        made["api"] = (FIND_COORDINATOR,)
    # By default the broker carries the request out before its reply is dropped or sent twice.
    made.setdefault("applied", action in (DROP, TWICE))
    if action == TWICE and not made["applied"]:
        raise HarnessError("fault 'twice': what is not carried out has no reply to repeat")
    return FaultSpec(action, **made)


def error_code(name: str, value: Any) -> ErrorCode:
    """The error with that name or number in Kafka."""
    try:
        if isinstance(value, str):
            return ErrorCode[value]
        if isinstance(value, int) and not isinstance(value, bool):
            return ErrorCode(value)
    except (KeyError, ValueError):
        pass
    hint = did_you_mean(value, ErrorCode.__members__)
    raise HarnessError(f"{name} {value!r}: no error of Kafka's{hint}")


def _apis(name: str, value: Any) -> tuple[int, ...]:
    """API keys, from one value or several: keys, names (in any case), or one of `ALIASES`."""
    several = not isinstance(value, str) and isinstance(value, Iterable)
    keys: set[int] = set()
    for one in value if several else (value,):
        keys |= _api(name, one)
    if not keys:
        raise HarnessError(f"{name} must name an API")
    return tuple(sorted(keys))


def _api(name: str, value: Any) -> frozenset[int]:
    if isinstance(value, str):
        alias = ALIASES.get(value.lower())
        if alias is not None:
            return alias
        for key, api in API_BY_KEY.items():
            if api.name.lower() == value.lower():
                return frozenset({key})
    elif isinstance(value, int) and not isinstance(value, bool) and value in API_BY_KEY:
        return frozenset({value})
    hint = did_you_mean(value, [*(api.name for api in API_BY_KEY.values()), *ALIASES])
    raise HarnessError(
        f"{name} {value!r}: neither an API that is served nor {', '.join(ALIASES)}{hint}"
    )


def _text(name: str, value: Any) -> str:
    if not isinstance(value, str):
        raise WrongType(f"{name} must be text, not {type(value).__name__}")
    if len(value) > TEXT_MAX:
        raise HarnessError(f"{name} must be text of up to {TEXT_MAX} characters")
    return value


def whole(name: str, value: Any, low: int, high: int) -> int:
    """The value, if it is an int within the bounds. Raises HarnessError."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise WrongType(f"{name} must be a whole number, not {type(value).__name__}")
    if not low <= value <= high:
        raise HarnessError(f"{name} must be a whole number from {low} to {high}")
    return value


def _probability(name: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= 1:
        raise HarnessError(f"{name} must be above 0 and at most 1")
    return float(value)


def _flag(name: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise WrongType(f"{name} must be true or false, not {type(value).__name__}")
    return value


def _node(name: str, value: Any) -> tuple[int, str, int]:
    if not isinstance(value, tuple | list) or len(value) != 3:
        raise HarnessError(f"{name} must be (id, host, port)")
    node_id, host, port = value
    return (
        whole("node id", node_id, 0, 2**31 - 1),
        _text("host", host),
        whole("port", port, 1, 65535),
    )


_CHECKS: Mapping[str, Any] = {
    "api": _apis,
    **dict.fromkeys(("group", "member", "client_id", "transactional_id", "message"), _text),
    "count": lambda name, value: whole(name, value, 1, COUNT_MAX),
    "skip": lambda name, value: whole(name, value, 0, COUNT_MAX),
    "probability": _probability,
    "seed": lambda name, value: whole(name, value, 0, 2**63 - 1),
    "after": lambda name, value: whole(name, value, 1, 2**63 - 1),
    "applied": _flag,
    "code": error_code,
    "ms": lambda name, value: whole(name, value, 0, DELAY_MAX_MS),
    "node": _node,
    "action": _text,
}


def _pattern(text: str) -> re.Pattern[str]:
    return re.compile(".*".join(re.escape(part) for part in text.split("*")), re.DOTALL)
