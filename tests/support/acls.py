"""ACLs in words."""

from __future__ import annotations

from groupd.coordinator.core.types import Operation, Resource
from groupd.coordinator.security.acls import PatternType, Permission
from groupd.protocol.messages.acls import AclBinding


def acl(
    words: str,
    pattern: PatternType = PatternType.LITERAL,
    *,
    principal: str | None = None,
    host: str = "*",
    name: str | None = None,
) -> AclBinding:
    """An ACL from words such as `ALLOW alice READ topic foo`. What is given besides takes the place
    of the word."""
    permission, user, operation, resource, asked = words.split()
    return AclBinding(
        Resource[resource.upper()],
        asked if name is None else name,
        pattern,
        f"User:{user}" if principal is None else principal,
        host,
        Operation[operation],
        Permission[permission],
    )
