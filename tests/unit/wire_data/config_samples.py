"""Requests and replies of the configuration APIs, as in `data_samples`."""

from __future__ import annotations

from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages import topics as m
from tests.unit.wire_data.data_samples import NAME, Sample, since

SYNONYMS = (m.ConfigSynonym("retention.ms", "1", 1), m.ConfigSynonym("log.retention.ms", None, 4))
VALUES = (
    m.ConfigValue("retention.ms", "1", False, False, 1, False, 5, "how løng", SYNONYMS),
    m.ConfigValue("secret", None, True, True, 5, True, 2, None),
)


def config_fields() -> list[dict[str, object]]:
    return [
        {
            "name": value.name,
            "value": value.value,
            "read_only": value.read_only,
            "config_source": value.source,
            "is_sensitive": value.sensitive,
            "synonyms": [
                {"name": synonym.name, "value": synonym.value, "source": synonym.source}
                for synonym in value.synonyms
            ],
            "config_type": value.config_type,
            "documentation": value.documentation,
        }
        for value in VALUES
    ]


def describe_configs(version: int) -> Sample:
    message = m.DescribeConfigsRequest(
        (
            m.ConfigResource(m.RESOURCE_TOPIC, NAME, ("a", "b")),
            m.ConfigResource(-128, "", None),
            m.ConfigResource(127, "1", ()),
        ),
        include_synonyms=True,
        include_documentation=since(version, 3, True, False),
    )
    resources = [
        {"resource_type": 2, "resource_name": NAME, "configuration_keys": ("a", "b")},
        {"resource_type": -128, "resource_name": "", "configuration_keys": None},
        {"resource_type": 127, "resource_name": "1", "configuration_keys": ()},
    ]
    return message, {
        "resources": resources,
        "include_synonyms": True,
        "include_documentation": True,
    }


def describe_configs_reply(_: int) -> Sample:
    message = m.DescribeConfigsReply(
        (
            m.DescribedConfigs(m.RESOURCE_TOPIC, NAME, configs=VALUES),
            m.DescribedConfigs(32, "g", ErrorCode.INVALID_REQUEST, "why"),
        )
    )
    first = {"resource_type": 2, "resource_name": NAME, "configs": config_fields()}
    second = {"resource_type": 32, "resource_name": "g", "configs": []}
    return message, {
        "throttle_time_ms": 0,
        "results": [
            first | {"error_code": 0, "error_message": None},
            second | {"error_code": 42, "error_message": "why"},
        ],
    }


def incremental_alter_configs(_: int) -> Sample:
    configs = (m.AlterConfig("a", 0, "v"), m.AlterConfig("b", 1, None))
    message = m.IncrementalAlterConfigsRequest(
        (m.AlterResource(m.RESOURCE_GROUP, NAME, configs), m.AlterResource(2, "t", ())), True
    )
    changes = [
        {"name": "a", "config_operation": 0, "value": "v"},
        {"name": "b", "config_operation": 1, "value": None},
    ]
    resources = [
        {"resource_type": 32, "resource_name": NAME, "configs": changes},
        {"resource_type": 2, "resource_name": "t", "configs": []},
    ]
    return message, {"resources": resources, "validate_only": True}


def incremental_alter_configs_reply(_: int) -> Sample:
    message = m.AlterConfigsReply(
        (
            m.AlteredResource(32, NAME),
            m.AlteredResource(2, "t", ErrorCode.INVALID_CONFIG, "bad"),
        )
    )
    responses = [
        {"error_code": 0, "error_message": None, "resource_type": 32, "resource_name": NAME},
        {"error_code": 40, "error_message": "bad", "resource_type": 2, "resource_name": "t"},
    ]
    return message, {"throttle_time_ms": 0, "responses": responses}


def alter_configs(_: int) -> Sample:
    configs = (m.AlterConfig("a", 0, "v"), m.AlterConfig("b", 0, None))
    message = m.AlterConfigsRequest(
        (
            m.AlterResource(m.RESOURCE_BROKER, NAME, configs, replace=True),
            m.AlterResource(2, "t", (), replace=True),
        ),
        True,
    )
    values = [{"name": "a", "value": "v"}, {"name": "b", "value": None}]
    resources = [
        {"resource_type": 4, "resource_name": NAME, "configs": values},
        {"resource_type": 2, "resource_name": "t", "configs": []},
    ]
    return message, {"resources": resources, "validate_only": True}
