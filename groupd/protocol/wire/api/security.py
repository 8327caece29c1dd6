"""Logins and permissions: SASL, ACLs, users and delegation tokens."""

from __future__ import annotations

from typing import TypeVar

from msgspec.structs import replace

from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages.acls import (
    AclBinding,
    AclFilter,
    AclResult,
    CreateAclsReply,
    CreateAclsRequest,
    DeleteAclsReply,
    DeleteAclsRequest,
    DeletedAcls,
    DescribeAclsReply,
    DescribeAclsRequest,
    DescribedAcls,
)
from groupd.protocol.messages.delegation_tokens import (
    CreateDelegationTokenReply,
    CreateDelegationTokenRequest,
    DelegationTokenExpiryReply,
    DescribeDelegationTokenReply,
    DescribeDelegationTokenRequest,
    ExpireDelegationTokenRequest,
    RenewDelegationTokenRequest,
)
from groupd.protocol.messages.lazily import mapped
from groupd.protocol.messages.sasl import (
    SaslAuthenticateReply,
    SaslAuthenticateRequest,
    SaslHandshakeReply,
    SaslHandshakeRequest,
)
from groupd.protocol.messages.users import (
    AlteredUser,
    AlterUserScramCredentialsReply,
    AlterUserScramCredentialsRequest,
    DescribedUser,
    DescribeUserScramCredentialsReply,
    DescribeUserScramCredentialsRequest,
    ScramDeletion,
    ScramUpsertion,
)
from groupd.protocol.reader import BadBytes
from groupd.protocol.schema import absent, array, converted, struct
from groupd.protocol.wire.registry import api, code_and_message, code_only, on_each

A = TypeVar("A", AclBinding, AclFilter)

_RESOURCE_TYPES = range(1, 8)
_PATTERNS = range(1, 5)
_OPERATIONS = range(1, 16)
_PERMISSIONS = range(1, 4)

# Never flexible. The versions only differ in what the client sends next: bare tokens after v0,
# SaslAuthenticate after v1 (`docs/spec/security.md#2.1`).
SASL_HANDSHAKE = api(
    17,
    "0-1",
    "none",
    struct(SaslHandshakeRequest, "mechanism:string"),
    struct(SaslHandshakeReply, "error:error mechanisms:[]string"),
    code_only(SaslHandshakeReply),
)

# v1 adds the lifetime of the session (KIP-368), v2 is flexible.
SASL_AUTHENTICATE = api(
    36,
    "0-2",
    "2+",
    struct(SaslAuthenticateRequest, "auth_bytes:secret"),
    struct(
        SaslAuthenticateReply,
        "error:error error_message:string? auth_bytes:secret session_lifetime_ms:int64@1+",
    ),
    code_and_message(SaslAuthenticateReply),
    secrets=True,
)


def _check_codes(item: A) -> A:
    """Returns the item. Raises BadBytes if a code is 0 or not known: Kafka cannot read such a
    request either."""
    if not (
        item.resource_type in _RESOURCE_TYPES
        and item.pattern in _PATTERNS
        and item.operation in _OPERATIONS
        and item.permission in _PERMISSIONS
    ):
        raise BadBytes("a code in an ACL is not known")
    return item


def _check_all(items: tuple[A, ...]) -> tuple[A, ...]:
    for item in items:
        _check_codes(item)
    return items


_FILTER = struct(
    AclFilter,
    "resource_type:int8 name:string? pattern:int8 principal:string? host:string? operation:int8 "
    "permission:int8",
)
_BINDING = struct(
    AclBinding,
    "resource_type:int8 name:string pattern:int8 principal:string host:string operation:int8 "
    "permission:int8",
)


def _with_resource(described: DescribedAcls) -> DescribedAcls:
    """Adds the resource to each ACL: on the wire it is only given once for all of them."""
    of_it = [
        replace(
            acl,
            resource_type=described.resource_type,
            name=described.name,
            pattern=described.pattern,
        )
        for acl in described.acls
    ]
    return replace(described, acls=tuple(of_it))


# v2 is flexible, v3 adds a type of resource.
DESCRIBE_ACLS = api(
    29,
    "1-3",
    "2+",
    struct(
        DescribeAclsRequest,
        "filter:filter",
        filter=converted(_FILTER.codec(ends=False), read=_check_codes),
    ),
    struct(
        DescribeAclsReply,
        "throttle error:error error_message:string? resources:[]resource",
        resource=converted(
            struct(
                DescribedAcls,
                "resource_type:int8 name:string pattern:int8 acls:[]acl",
                acl=struct(
                    AclBinding,
                    "resource_type:number name:text pattern:number principal:string host:string "
                    "operation:int8 permission:int8",
                    number=absent(0),
                    text=absent(""),
                ),
            ),
            read=_with_resource,
        ),
    ),
    code_and_message(DescribeAclsReply),
)

# v2 is flexible, v3 adds a type of resource.
CREATE_ACLS = api(
    30,
    "1-3",
    "2+",
    struct(
        CreateAclsRequest,
        "creations:creations",
        creations=converted(array(_BINDING), read=_check_all),
    ),
    struct(
        CreateAclsReply,
        "throttle results:[]result",
        result=struct(AclResult, "error:error error_message:string?"),
    ),
    on_each(CreateAclsReply, "creations", lambda _, code, message: AclResult(code, message)),
)


def _done(code: ErrorCode) -> ErrorCode:
    """Returns the code. Raises BadBytes if an ACL was not deleted: groupd deletes all or none, but
    a broker before Kafka 4.0 may keep one of several ACLs."""
    if code:
        raise BadBytes(f"an ACL was not deleted: {code.name}")
    return code


# v2 is flexible, v3 adds a type of resource.
DELETE_ACLS = api(
    31,
    "1-3",
    "2+",
    struct(
        DeleteAclsRequest, "filters:filters", filters=converted(array(_FILTER), read=_check_all)
    ),
    struct(
        DeleteAclsReply,
        "throttle results:[]result",
        result=struct(
            DeletedAcls,
            "error:error error_message:string? matching:[]acl",
            acl=struct(
                AclBinding,
                "-:done -:string? resource_type:int8 name:string pattern:int8 principal:string "
                "host:string operation:int8 permission:int8",
                done=converted("error", read=_done),
            ),
        ),
    ),
    on_each(DeleteAclsReply, "filters", lambda _, code, message: DeletedAcls(code, message)),
)

# Always flexible (KIP-554).
DESCRIBE_USER_SCRAM_CREDENTIALS = api(
    50,
    "0",
    "0+",
    struct(
        DescribeUserScramCredentialsRequest,
        "users:[]user?",
        user=struct(None, "name:string"),
    ),
    struct(
        DescribeUserScramCredentialsReply,
        "throttle error:error error_message:string? results:[]user",
        user=struct(
            DescribedUser,
            "user:string error:error error_message:string? credentials:[]credential",
            credential=struct(tuple, "0:int8 1:int32"),
        ),
    ),
    code_and_message(DescribeUserScramCredentialsReply),
)


def _alter_users_failure(
    request: AlterUserScramCredentialsRequest, code: ErrorCode, message: str | None
) -> AlterUserScramCredentialsReply:
    """The error is put on every user, once."""
    named = [*(one.user for one in request.deletions), *(one.user for one in request.upsertions)]
    return AlterUserScramCredentialsReply(
        mapped(lambda user: AlteredUser(user, code, message), tuple(dict.fromkeys(named)))
    )


# Always flexible (KIP-554).
ALTER_USER_SCRAM_CREDENTIALS = api(
    51,
    "0",
    "0+",
    struct(
        AlterUserScramCredentialsRequest,
        "deletions:[]deletion upsertions:[]upsertion",
        deletion=struct(ScramDeletion, "user:string mechanism:int8"),
        upsertion=struct(
            ScramUpsertion,
            "user:string mechanism:int8 iterations:int32 salt:secret salted_password:secret",
        ),
    ),
    struct(
        AlterUserScramCredentialsReply,
        "throttle results:[]user",
        user=struct(AlteredUser, "user:string error:error error_message:string?"),
    ),
    _alter_users_failure,
    secrets=True,
)

_PRINCIPAL = struct(tuple, "0:string 1:string")

# v2 is flexible, v3 adds the owner and the requester (KIP-373). A token that was not made has no
# times.
CREATE_DELEGATION_TOKEN = api(
    38,
    "1-3",
    "2+",
    struct(
        CreateDelegationTokenRequest,
        "owner_type:string?@3+ owner_name:string?@3+ renewers:[]principal max_lifetime_ms:int64",
        principal=_PRINCIPAL,
    ),
    struct(
        CreateDelegationTokenReply,
        "error:error owner:principal requester:principal@3+ -:int64=-1 -:int64=-1 -:int64=-1 "
        "-:string -:bytes throttle",
        principal=_PRINCIPAL.codec(ends=False),
    ),
    code_only(CreateDelegationTokenReply),
)

_EXPIRY = struct(DelegationTokenExpiryReply, "error:error -:int64=-1 throttle")

# v2 is flexible.
RENEW_DELEGATION_TOKEN = api(
    39,
    "1-2",
    "2+",
    struct(RenewDelegationTokenRequest, "hmac:secret renew_period_ms:int64"),
    _EXPIRY,
    code_only(DelegationTokenExpiryReply),
    secrets=True,
)

# v2 is flexible.
EXPIRE_DELEGATION_TOKEN = api(
    40,
    "1-2",
    "2+",
    struct(ExpireDelegationTokenRequest, "hmac:secret expiry_time_period_ms:int64"),
    _EXPIRY,
    code_only(DelegationTokenExpiryReply),
    secrets=True,
)

# v2 is flexible; v3 only adds fields of tokens (KIP-373), and groupd's replies never have tokens.
DESCRIBE_DELEGATION_TOKEN = api(
    41,
    "1-3",
    "2+",
    struct(DescribeDelegationTokenRequest, "owners:[]principal?", principal=_PRINCIPAL),
    struct(
        DescribeDelegationTokenReply, "error:error -:[]principal throttle", principal=_PRINCIPAL
    ),
    code_only(DescribeDelegationTokenReply),
)
