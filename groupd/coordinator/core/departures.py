"""What events say of a member that joins or leaves: who it is, and why it left."""

from __future__ import annotations

from groupd.coordinator.core.types import RequestContext

SESSION_EXPIRED = "no heartbeat within the session timeout"


def identity(client_id: str, client_host: str, instance_id: str | None) -> dict[str, str]:
    """Details of the events of a member; `instance_id` only of a static one."""
    who = {"client_id": client_id, "client_host": client_host}
    return who if instance_id is None else {**who, "instance_id": instance_id}


def left_by_request(
    context: RequestContext, client_id: str, client_host: str, reason: str | None
) -> str:
    """The cause of a leave by LeaveGroup. Another client than the member's own is named: an
    administrator may remove members. `reason`: the client's own words (KIP-800)."""
    own = (context.client_id, context.client_host) == (client_id, client_host)
    asked = f"removed by client {context.client_id} at {context.client_host}"
    cause = "the member asked to leave" if own else asked
    return f"{cause}: {reason}" if reason else cause
