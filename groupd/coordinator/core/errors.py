"""Failures of groups that are not plain error codes of the protocol."""

from __future__ import annotations

from groupd.protocol.errors import ApiError, ErrorCode


class ReplayError(Exception):
    """The log contradicts the state that was built from it (docs/spec/offsets-and-log.md#5.2
    "Fatal"): the shard must fail."""


class TrialRefused(Exception):
    """No assignor can be tried on the group as it is now; `str()` is one sentence that says why."""


class AssignorFailed(ApiError):
    """The assignor raised, gave an invalid target or is no longer configured.

    Clients see UNKNOWN_SERVER_ERROR without a message; `fault` is shown to the operator.
    """

    def __init__(self, assignor: str, fault: str) -> None:
        super().__init__(ErrorCode.UNKNOWN_SERVER_ERROR, None)
        self.assignor = assignor
        self.fault = fault
