"""Requests and replies about ACLs, as in `data_samples`."""

from __future__ import annotations

from typing import Any

from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages import acls as m
from tests.unit.wire_data.data_samples import NAME, Sample, since

BINDING = m.AclBinding(2, NAME, 4, "User:ålice", "*", 3, 2)
OTHER = m.AclBinding(4, "kafka-cluster", 3, "User:*", "::1", 15, 3)


def resource_fields(acl: m.AclBinding) -> dict[str, Any]:
    return {
        "resource_type": acl.resource_type,
        "resource_name": acl.name,
        "pattern_type": acl.pattern,
    }


def entry_fields(acl: m.AclBinding) -> dict[str, Any]:
    return {
        "principal": acl.principal,
        "host": acl.host,
        "operation": acl.operation,
        "permission_type": acl.permission,
    }


def filter_fields(wanted: m.AclFilter) -> dict[str, Any]:
    return {
        "resource_type_filter": wanted.resource_type,
        "resource_name_filter": wanted.name,
        "pattern_type_filter": wanted.pattern,
        "principal_filter": wanted.principal,
        "host_filter": wanted.host,
        "operation": wanted.operation,
        "permission_type": wanted.permission,
    }


def a_filter(version: int) -> m.AclFilter:
    resource_type = since(version, 3, 7, 2)
    return m.AclFilter(resource_type, NAME, 4, "User:ålice", "127.0.0.0/8", 15, 3)


def describe_acls(version: int) -> Sample:
    wanted = a_filter(version)
    return m.DescribeAclsRequest(wanted), filter_fields(wanted)


def describe_acls_all(_: int) -> Sample:
    return m.DescribeAclsRequest(m.AclFilter()), filter_fields(m.AclFilter())


def describe_acls_reply(_: int) -> Sample:
    message = m.DescribeAclsReply(
        resources=(
            m.DescribedAcls(2, NAME, 4, (BINDING, BINDING)),
            m.DescribedAcls(7, "u", 3, ()),
        )
    )
    first = {**resource_fields(BINDING), "acls": [entry_fields(BINDING)] * 2}
    second = {"resource_type": 7, "resource_name": "u", "pattern_type": 3, "acls": []}
    return message, {
        "throttle_time_ms": 0,
        "error_code": 0,
        "error_message": None,
        "resources": [first, second],
    }


def describe_acls_reply_error(_: int) -> Sample:
    return m.DescribeAclsReply(ErrorCode.SECURITY_DISABLED, "nø"), {
        "throttle_time_ms": 0,
        "error_code": 54,
        "error_message": "nø",
        "resources": [],
    }


def create_acls(_: int) -> Sample:
    fields = [
        {
            "resource_type": acl.resource_type,
            "resource_name": acl.name,
            "resource_pattern_type": acl.pattern,
            **entry_fields(acl),
        }
        for acl in (BINDING, OTHER)
    ]
    return m.CreateAclsRequest((BINDING, OTHER)), {"creations": fields}


def create_acls_reply(_: int) -> Sample:
    message = m.CreateAclsReply((m.AclResult(), m.AclResult(ErrorCode.INVALID_REQUEST, "why nøt")))
    return message, {
        "throttle_time_ms": 0,
        "results": [
            {"error_code": 0, "error_message": None},
            {"error_code": 42, "error_message": "why nøt"},
        ],
    }


def delete_acls(version: int) -> Sample:
    wanted = (a_filter(version), m.AclFilter())
    return m.DeleteAclsRequest(wanted), {"filters": [filter_fields(one) for one in wanted]}


def delete_acls_reply(_: int) -> Sample:
    message = m.DeleteAclsReply(
        (
            m.DeletedAcls(matching=(BINDING, OTHER)),
            m.DeletedAcls(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "nø"),
        )
    )
    matching = [
        {"error_code": 0, "error_message": None, **resource_fields(acl), **entry_fields(acl)}
        for acl in (BINDING, OTHER)
    ]
    return message, {
        "throttle_time_ms": 0,
        "filter_results": [
            {"error_code": 0, "error_message": None, "matching_acls": matching},
            {"error_code": 31, "error_message": "nø", "matching_acls": []},
        ],
    }
