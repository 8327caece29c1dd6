"""The jobs by name: every module of `pipeline.jobs` that defines `JOB`."""

from __future__ import annotations

import pkgutil
from collections.abc import Iterable
from importlib import import_module
from typing import Any

from groupd.pipeline import jobs
from groupd.pipeline.errors import PipelineError
from groupd.pipeline.job import Job

_TRUE, _FALSE = ("true", "yes", "on", "1"), ("false", "no", "off", "0")


def all_jobs() -> dict[str, Job]:
    found: dict[str, Job] = {}
    for module in pkgutil.iter_modules(jobs.__path__):
        job = getattr(import_module(f"{jobs.__name__}.{module.name}"), "JOB", None)
        if isinstance(job, Job):
            found[job.name] = job
    return dict(sorted(found.items()))


def job_named(name: str) -> Job:
    """The job of this name. Raises PipelineError if there is none."""
    known = all_jobs()
    if name not in known:
        raise PipelineError(f"there is no job {name}: there are {', '.join(known)}")
    return known[name]


def job_options(job: Job, settings: Iterable[str]) -> dict[str, Any]:
    """The job's options, with `NAME=VALUE` settings over the defaults and converted to their types.
    Raises PipelineError."""
    options = dict(job.options)
    for setting in settings:
        name, equals, text = setting.partition("=")
        if not equals:
            raise PipelineError(f"--set {setting}: must be NAME=VALUE")
        if name not in options:
            known = f"there are {', '.join(options)}" if options else "it has none"
            raise PipelineError(f"--set {name}: job {job.name} has no such option: {known}")
        options[name] = _typed(name, text, options[name])
    return options


def _typed(name: str, text: str, default: Any) -> Any:
    try:
        if isinstance(default, bool):
            return {**dict.fromkeys(_TRUE, True), **dict.fromkeys(_FALSE, False)}[text.lower()]
        if isinstance(default, int | float):
            return type(default)(text)
    except (ValueError, KeyError):
        kind = {bool: "true or false", int: "a whole number", float: "a number"}[type(default)]
        raise PipelineError(f"--set {name}={text}: must be {kind}") from None
    return text
