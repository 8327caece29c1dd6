"""The description of a fault: which requests it matches, which of those it hits, and what happens
to them.

All of it is plain data that is checked once, so that a fault means the same in Python and over
HTTP. Unknown names and values are refused: a test with a fault that silently matches nothing would
pass for the wrong reason.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Annotated, Any, Literal, TypeAlias, get_args

from msgspec import Meta, Struct, ValidationError, convert
from msgspec.structs import asdict, fields

from groupd.coordinator.faults.errors import HarnessError, WrongType
from groupd.coordinator.suggest import did_you_mean, misfit
from groupd.protocol.errors import ErrorCode
from groupd.protocol.wire.apis import API_BY_KEY

ERROR = "error"
DELAY = "delay"
DROP = "drop"
CLOSE = "close"
TWICE = "twice"
HOLD = "hold"
REDIRECT = "redirect"
Action: TypeAlias = Literal["error", "delay", "drop", "close", "twice", "hold", "redirect"]
ACTIONS: tuple[str, ...] = get_args(Action)

_MEMBERS_OF_THE_COORDINATOR = frozenset({8, 11, 12, 13, 14, 28, 68, 76}) & API_BY_KEY.keys()
SHARE_APIS = frozenset({78, 79}) & API_BY_KEY.keys()
"""The API keys of the requests that members of share groups send to leaders of partitions."""
MEMBER_APIS = _MEMBERS_OF_THE_COORDINATOR | SHARE_APIS
"""The API keys of the requests that members of a group send."""
GROUP_APIS = _MEMBERS_OF_THE_COORDINATOR | (
    frozenset({9, 15, 42, 47, 69, 77, 90, 91, 92}) & API_BY_KEY.keys()
)
"""The API keys of the requests that a group's coordinator answers."""
FIND_COORDINATOR = 10
ALIASES: Mapping[str, frozenset[int]] = {
    "group": GROUP_APIS,
    "member": MEMBER_APIS,
    "heartbeat": frozenset({12, 68, 76}) & API_BY_KEY.keys(),
    "share": SHARE_APIS,
}
COUNT_MAX = 1_000_000
DELAY_MAX_MS = 30 * 24 * 3_600_000
TEXT_MAX = 1024

Number: TypeAlias = Annotated[int, Meta(ge=0, le=2**63 - 1)]
Text: TypeAlias = Annotated[str, Meta(max_length=TEXT_MAX)]
DelayMs: TypeAlias = Annotated[int, Meta(ge=0, le=DELAY_MAX_MS)]
NodeNumber: TypeAlias = Annotated[
    tuple[Annotated[int, Meta(ge=0, le=2**31 - 1)], Text, Annotated[int, Meta(ge=1, le=65535)]],
    Meta(description="[id, host, port]"),
]


class FaultFields(Struct, frozen=True, forbid_unknown_fields=True):
    """The options of a fault. An option that is null counts as not given.

    A fault matches requests by `api`, `group`, `member` (a member id or a group.instance.id),
    `client_id`, `transactional_id` and `topic`. In these names `*` stands for any characters. A
    Fetch or ShareFetch of a session is about all topics that the session reads. `acknowledges`:
    whether a member of a share group acknowledges records with the request. An option that is not
    given matches every request.

    Of the requests that match, a fault skips the first `skip` and then hits the next `count`, or
    all if there is no `count`. With `probability` it hits each of them only with that probability;
    `seed` makes the choice repeatable. With `after` it does nothing until the fault with that
    number has hit a request.

    `action` says what happens to a request that is hit. With `applied` the broker carries the
    request out, and only its reply is affected. `error` takes `code` and `message`. `delay` takes
    `ms`, which pass on the coordinator's clock. `redirect` takes `node`: (id, host, port).
    """

    action: Action
    api: Annotated[
        str | int | Sequence[str | int] | None,
        Meta(description="names, keys, or one of " + ", ".join(ALIASES)),
    ] = None
    group: Text | None = None
    member: Text | None = None
    client_id: Text | None = None
    transactional_id: Text | None = None
    topic: Text | None = None
    acknowledges: bool | None = None
    count: Annotated[int, Meta(ge=1, le=COUNT_MAX)] | None = None
    skip: Annotated[int, Meta(ge=0, le=COUNT_MAX)] | None = None
    probability: Annotated[float, Meta(gt=0, le=1)] | None = None
    seed: Number | None = None
    after: Number | None = None
    applied: bool | None = None
    code: str | int | None = None
    message: Text | None = None
    ms: DelayMs | None = None
    node: NodeNumber | None = None


class FaultSpec(FaultFields, frozen=True, dict=True):
    """A fault that `make_spec` has checked. `api`: API keys."""

    api: tuple[int, ...] | None = None
    skip: int = 0
    probability: float = 1.0
    seed: int = 0
    applied: bool = False
    code: ErrorCode = ErrorCode.NONE
    ms: int = 0

    @cached_property
    def api_keys(self) -> frozenset[int] | None:
        return None if self.api is None else frozenset(self.api)

    @cached_property
    def patterns(self) -> tuple[tuple[str, re.Pattern[str]], ...]:
        """A pair (name, pattern) for each of the five names that was given."""
        names = ("group", "member", "client_id", "transactional_id", "topic")
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
    """The checked fault. An option that is None counts as not given. Raises HarnessError, whose
    text says what is wrong."""
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
    made = asdict(_fields({"action": action, **options}))
    made = {name: made[name] for name in ("action", *options)}
    if "api" in made:
        made["api"] = _apis(made["api"])
    if "code" in made:
        made["code"] = _error_code(made["code"])
    if action == REDIRECT:
        made["api"] = (FIND_COORDINATOR,)
    # By default the broker carries the request out before its reply is dropped or sent twice.
    made.setdefault("applied", action in (DROP, TWICE))
    if action == TWICE and not made["applied"]:
        raise HarnessError("fault 'twice': what is not carried out has no reply to repeat")
    return FaultSpec(**made)


def _fields(given: Mapping[str, Any]) -> FaultFields:
    try:
        return convert(given, FaultFields)
    except ValidationError as error:
        kind = WrongType if ", got `" in str(error) else HarnessError
        raise kind(misfit(error, FaultFields, "")) from None


def _error_code(value: str | int) -> ErrorCode:
    """The error with that name or number in Kafka. Raises HarnessError."""
    try:
        return ErrorCode[value] if isinstance(value, str) else ErrorCode(value)
    except (KeyError, ValueError):
        hint = did_you_mean(value, ErrorCode.__members__)
        raise HarnessError(f"code {value!r}: no error of Kafka's{hint}") from None


def _apis(given: str | int | Sequence[str | int]) -> tuple[int, ...]:
    """The API keys of one value or several. A value is a key, a name (in any case), or one of
    `ALIASES`. Raises HarnessError."""
    several = (given,) if isinstance(given, str | int) else given
    keys = frozenset().union(*map(_api, several))
    if not keys:
        raise HarnessError("api must name an API")
    return tuple(sorted(keys))


def _api(value: str | int) -> frozenset[int]:
    if isinstance(value, str):
        by_name = {api.name.lower(): frozenset({key}) for key, api in API_BY_KEY.items()}
        found = ALIASES.get(value.lower()) or by_name.get(value.lower())
    else:
        found = frozenset({value} & API_BY_KEY.keys())
    if found:
        return found
    hint = did_you_mean(value, [*(api.name for api in API_BY_KEY.values()), *ALIASES])
    raise HarnessError(
        f"api {value!r}: neither an API that is served nor {', '.join(ALIASES)}{hint}"
    )


def _pattern(text: str) -> re.Pattern[str]:
    return re.compile(".*".join(re.escape(part) for part in text.split("*")), re.DOTALL)
