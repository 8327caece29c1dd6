"""What is raised when faults, or a broker in a test, are asked for something that cannot be.

Each carries one text, so that it survives the way between processes.
"""

from __future__ import annotations


class HarnessError(Exception):
    """The harness was used in a way that cannot work, or its broker is gone."""


class WrongType(HarnessError, TypeError):
    """An argument that is missing, too much, or of the wrong type; `str()` names it."""


class NotFound(HarnessError):
    """A topic, fault or the like that is not there."""


class RequestRefused(HarnessError):
    """The broker answered a request of the harness with an error; `str()` starts with its name."""
