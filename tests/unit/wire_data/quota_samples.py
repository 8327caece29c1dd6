"""Requests and replies about client quotas, as in `data_samples`."""

from __future__ import annotations

from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages import quotas as q
from tests.unit.wire_data.data_samples import NAME, Sample

ENTITY = (("user", NAME), ("client-id", None))
ENTITY_FIELDS = (
    {"entity_type": "user", "entity_name": NAME},
    {"entity_type": "client-id", "entity_name": None},
)


def describe_client_quotas(_: int) -> Sample:
    message = q.DescribeClientQuotasRequest(
        (q.QuotaFilter("user", q.MATCH_EXACT, NAME), q.QuotaFilter("client-id", q.MATCH_ANY)),
        strict=True,
    )
    components = (
        {"entity_type": "user", "match_type": 0, "match": NAME},
        {"entity_type": "client-id", "match_type": 2, "match": None},
    )
    return message, {"components": components, "strict": True}


def describe_client_quotas_reply(_: int) -> Sample:
    values = (("producer_byte_rate", 1e9), ("request_percentage", 0.1))
    message = q.DescribeClientQuotasReply(entries=(q.DescribedQuota(ENTITY, values),))
    entry = {
        "entity": ENTITY_FIELDS,
        "values": tuple({"key": key, "value": value} for key, value in values),
    }
    return message, {
        "throttle_time_ms": 0,
        "error_code": 0,
        "error_message": None,
        "entries": (entry,),
    }


def describe_client_quotas_refused(_: int) -> Sample:
    message = q.DescribeClientQuotasReply(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "not yöu")
    return message, {
        "throttle_time_ms": 0,
        "error_code": 31,
        "error_message": "not yöu",
        "entries": None,
    }


def alter_client_quotas(_: int) -> Sample:
    operations = (
        q.QuotaOperation("request_percentage", 0.5),
        q.QuotaOperation("producer_byte_rate", remove=True),
    )
    message = q.AlterClientQuotasRequest(
        (q.QuotaAlteration(ENTITY, operations),), validate_only=True
    )
    ops = (
        {"key": "request_percentage", "value": 0.5, "remove": False},
        {"key": "producer_byte_rate", "value": 0.0, "remove": True},
    )
    return message, {"entries": ({"entity": ENTITY_FIELDS, "ops": ops},), "validate_only": True}


def alter_client_quotas_reply(_: int) -> Sample:
    message = q.AlterClientQuotasReply(
        (q.AlteredQuota(ENTITY, ErrorCode.INVALID_REQUEST, "no"), q.AlteredQuota(()))
    )
    entries = (
        {"error_code": 42, "error_message": "no", "entity": ENTITY_FIELDS},
        {"error_code": 0, "error_message": None, "entity": ()},
    )
    return message, {"throttle_time_ms": 0, "entries": entries}
