"""Requests and replies about who asks, as in `data_samples`."""

from __future__ import annotations

from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages import delegation_tokens as tokens
from groupd.protocol.messages import sasl, users
from groupd.protocol.messages.secret import Secret
from tests.unit.wire_data.data_samples import INT32_MAX, INT64_MAX, NAME, Sample, since


def sasl_handshake(_: int) -> Sample:
    return sasl.SaslHandshakeRequest(NAME), {"mechanism": NAME}


def sasl_handshake_reply(_: int) -> Sample:
    message = sasl.SaslHandshakeReply(ErrorCode.UNSUPPORTED_SASL_MECHANISM, ("PLAIN", NAME))
    return message, {"error_code": 33, "mechanisms": ("PLAIN", NAME)}


def sasl_authenticate(_: int) -> Sample:
    return sasl.SaslAuthenticateRequest(Secret(b"\x00a\x00\xff")), {"auth_bytes": b"\x00a\x00\xff"}


def sasl_authenticate_reply(version: int) -> Sample:
    message = sasl.SaslAuthenticateReply(
        ErrorCode.SASL_AUTHENTICATION_FAILED,
        "not yöu",
        Secret(b"v=\xff"),
        since(version, 1, INT64_MAX // 2**30, 0),
    )
    return message, {
        "error_code": 58,
        "error_message": "not yöu",
        "auth_bytes": b"v=\xff",
        "session_lifetime_ms": INT64_MAX // 2**30,
    }


def describe_users(_: int) -> Sample:
    message = users.DescribeUserScramCredentialsRequest((NAME, ""))
    return message, {"users": [{"name": NAME}, {"name": ""}]}


def describe_users_all(_: int) -> Sample:
    return users.DescribeUserScramCredentialsRequest(None), {"users": None}


def describe_users_reply(_: int) -> Sample:
    message = users.DescribeUserScramCredentialsReply(
        results=(
            users.DescribedUser(NAME, credentials=((1, 4096), (2, INT32_MAX))),
            users.DescribedUser("x", ErrorCode.RESOURCE_NOT_FOUND, "nöbody"),
        )
    )
    infos = [{"mechanism": 1, "iterations": 4096}, {"mechanism": 2, "iterations": INT32_MAX}]
    known = {"user": NAME, "error_code": 0, "error_message": None, "credential_infos": infos}
    unknown = {"user": "x", "error_code": 91, "error_message": "nöbody", "credential_infos": []}
    return message, {
        "throttle_time_ms": 0,
        "error_code": 0,
        "error_message": None,
        "results": [known, unknown],
    }


def describe_users_reply_error(_: int) -> Sample:
    message = users.DescribeUserScramCredentialsReply(ErrorCode.INVALID_REQUEST, "nö")
    values = {"throttle_time_ms": 0, "error_code": 42, "error_message": "nö", "results": []}
    return message, values


def alter_users(_: int) -> Sample:
    message = users.AlterUserScramCredentialsRequest(
        (users.ScramDeletion(NAME, 2), users.ScramDeletion("", -1)),
        (users.ScramUpsertion("b", 1, 4096, Secret(b"salt"), Secret(bytes(range(32)))),),
    )
    deletions = [{"name": NAME, "mechanism": 2}, {"name": "", "mechanism": -1}]
    upsertion = {
        "name": "b",
        "mechanism": 1,
        "iterations": 4096,
        "salt": b"salt",
        "salted_password": bytes(range(32)),
    }
    return message, {"deletions": deletions, "upsertions": [upsertion]}


def alter_users_reply(_: int) -> Sample:
    message = users.AlterUserScramCredentialsReply(
        (
            users.AlteredUser(NAME),
            users.AlteredUser("", ErrorCode.UNACCEPTABLE_CREDENTIAL, "nö name"),
        )
    )
    results = [
        {"user": NAME, "error_code": 0, "error_message": None},
        {"user": "", "error_code": 93, "error_message": "nö name"},
    ]
    return message, {"throttle_time_ms": 0, "results": results}


def create_token(version: int) -> Sample:
    message = tokens.CreateDelegationTokenRequest(
        (("User", NAME), ("Group", "g")),
        5000,
        since(version, 3, "User", None),
        since(version, 3, NAME, None),
    )
    return message, {
        "owner_principal_type": "User",
        "owner_principal_name": NAME,
        "renewers": [
            {"principal_type": "User", "principal_name": NAME},
            {"principal_type": "Group", "principal_name": "g"},
        ],
        "max_lifetime_ms": 5000,
    }


def renew_token(_: int) -> Sample:
    values = {"hmac": b"h\xff", "renew_period_ms": -1}
    return tokens.RenewDelegationTokenRequest(Secret(b"h\xff"), -1), values


def expire_token(_: int) -> Sample:
    values = {"hmac": b"h\xff", "expiry_time_period_ms": 7000}
    return tokens.ExpireDelegationTokenRequest(Secret(b"h\xff"), 7000), values


def describe_tokens(_: int) -> Sample:
    message = tokens.DescribeDelegationTokenRequest((("User", NAME),))
    return message, {"owners": [{"principal_type": "User", "principal_name": NAME}]}


def describe_tokens_all(_: int) -> Sample:
    return tokens.DescribeDelegationTokenRequest(None), {"owners": None}


def describe_tokens_reply(_: int) -> Sample:
    message = tokens.DescribeDelegationTokenReply(ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED)
    return message, {"error_code": 64, "tokens": [], "throttle_time_ms": 0}
