"""The routes of the admin port: health, readiness, metrics, configuration, and `/telemetry`: every
client that has sent telemetry requests, and what it pushed.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Mapping
from operator import itemgetter
from typing import Any

from groupd.coordinator.admin.http_messages import (
    Answer,
    HttpReply,
    HttpRequest,
    as_json,
    refusal,
    text,
    wants_page,
)
from groupd.coordinator.admin.pages import json_steps, paged, window
from groupd.coordinator.admin.scrapes import Scrapes
from groupd.coordinator.config.coordinator_config import FIELDS_BY_KEY, CoordinatorConfig, secret
from groupd.coordinator.core.slices import smallest
from groupd.coordinator.runtime.long_work import LongWork
from groupd.coordinator.topics.telemetry import Telemetry, read_id

AdminRoute = Callable[[HttpRequest], Answer | Awaitable[Answer]]


class AdminRoutes:
    """Routes by the first path segment. `readiness()` returns None when the daemon is ready, else
    the reason why not."""

    def __init__(
        self,
        config: CoordinatorConfig,
        options: Mapping[str, Any],
        scrapes: Scrapes,
        readiness: Callable[[], str | None],
    ) -> None:
        self.page: AdminRoute | None = None
        """Answers browsers that ask for `/`; None: they get the list of routes."""
        self._config = config
        self._options = options
        self._readiness = readiness
        self._routes: dict[str, AdminRoute] = {
            "healthz": lambda _: text("ok"),
            "readyz": self._ready,
            "metrics": scrapes.page,
            "config": self._show_config,
        }

    def __call__(self, request: HttpRequest) -> Answer | Awaitable[Answer]:
        if not request.path:
            if self.page is not None and wants_page(request):
                return self.page(request)
            return text("\n".join(f"/{name}" for name in sorted(self._routes)))
        route = self._routes.get(request.path[0])
        return text("not found", 404) if route is None else route(request)

    def add(self, name: str, route: AdminRoute) -> None:
        """Serves `/name` and everything below it with `route`, instead of an earlier route of that
        name."""
        self._routes[name] = route

    def _ready(self, _: HttpRequest) -> HttpReply:
        reason = self._readiness()
        return text("ready") if reason is None else text(reason, 503)

    def _show_config(self, _: HttpRequest) -> HttpReply:
        settings: dict[str, Any] = {}
        for key, entry in FIELDS_BY_KEY.items():
            value = getattr(self._config, entry.name)
            shown = ",".join(value) if isinstance(value, tuple) else value
            settings[key] = {
                "value": None if secret(key) else shown,
                "default": value == entry.default,
            }
        for key, override in self._config.listener_overrides:
            settings[key] = {"value": None if secret(key) else override, "default": False}
        return as_json({"options": dict(self._options), "config": settings})


# Telemetry ----------------------------------------------------------------------------------


def telemetry_route(telemetry: Telemetry, work: LongWork) -> AdminRoute:
    """The route `/telemetry`."""

    def steps(request: HttpRequest) -> Generator[None, None, HttpReply]:
        wanted = window(request)
        after = _instance(wanted.after)
        instances = yield from smallest(
            telemetry.instances(), wanted.limit + 1, lambda instance: instance > after
        )
        page = yield from json_steps(map(telemetry.shown, instances), wanted.limit)
        return paged(request, wanted, page, "", itemgetter("client_instance_id"))

    async def page(request: HttpRequest) -> HttpReply:
        return await work.run(steps(request))

    return page


def _instance(shown: str | None) -> bytes:
    """The id that the text shows; None: before all ids. Raises Refusal."""
    try:
        return b"" if shown is None else read_id(shown)
    except ValueError:
        raise refusal("after must be a client_instance_id") from None
