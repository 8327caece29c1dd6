"""Requests and replies of InitProducerId, as in `data_samples`."""

from __future__ import annotations

from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages import data as m
from tests.unit.wire_data.data_samples import (
    INT32_MAX,
    INT32_MIN,
    INT64_MAX,
    NAME,
    Sample,
    since,
)


def init_producer_id(version: int) -> Sample:
    message = m.InitProducerIdRequest(
        transactional_id=NAME,
        transaction_timeout_ms=INT32_MAX,
        producer_id=since(version, 3, INT64_MAX, -1),
        producer_epoch=since(version, 3, 32767, -1),
    )
    return message, {
        "transactional_id": NAME,
        "transaction_timeout_ms": INT32_MAX,
        "producer_id": INT64_MAX,
        "producer_epoch": 32767,
    }


def init_producer_id_idempotent(_: int) -> Sample:
    return m.InitProducerIdRequest(None, INT32_MIN), {
        "transactional_id": None,
        "transaction_timeout_ms": INT32_MIN,
        "producer_id": -1,
        "producer_epoch": -1,
    }


def init_producer_id_reply(_: int) -> Sample:
    return m.InitProducerIdReply(ErrorCode.NONE, INT64_MAX, 32767), {
        "throttle_time_ms": 0,
        "error_code": 0,
        "producer_id": INT64_MAX,
        "producer_epoch": 32767,
    }
