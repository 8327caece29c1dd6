"""Configs of topics, brokers, groups and client metrics, and the quotas of clients."""

from __future__ import annotations

from groupd.protocol.messages.quotas import (
    AlterClientQuotasReply,
    AlterClientQuotasRequest,
    AlteredQuota,
    DescribeClientQuotasReply,
    DescribeClientQuotasRequest,
    DescribedQuota,
    QuotaAlteration,
    QuotaFilter,
    QuotaOperation,
)
from groupd.protocol.messages.topics import (
    RESOURCE_CLIENT_METRICS,
    AlterConfig,
    AlterConfigsReply,
    AlterConfigsRequest,
    AlteredResource,
    AlterResource,
    ConfigResource,
    ConfigSynonym,
    ConfigValue,
    DescribeConfigsReply,
    DescribeConfigsRequest,
    DescribedConfigs,
    IncrementalAlterConfigsRequest,
    ListConfigResourcesReply,
    ListConfigResourcesRequest,
)
from groupd.protocol.schema import absent, struct
from groupd.protocol.wire.registry import api, code_and_message, code_only, on_each

_SET = 0

# v1 replaces the default flag by the source of a value and adds synonyms, v3 adds type and
# documentation, v4 is flexible. The handler decides whether the reply has synonyms.
DESCRIBE_CONFIGS = api(
    32,
    "1-4",
    "4+",
    struct(
        DescribeConfigsRequest,
        "resources:[]resource include_synonyms:bool include_documentation:bool@3+",
        resource=struct(ConfigResource, "resource_type:int8 name:string keys:[]string?"),
    ),
    struct(
        DescribeConfigsReply,
        "throttle results:[]result",
        result=struct(
            DescribedConfigs,
            "error:error error_message:string? resource_type:int8 name:string configs:[]config",
            config=struct(
                ConfigValue,
                "name:string value:string? read_only:bool source:int8 sensitive:bool "
                "synonyms:[]synonym config_type:int8@3+ documentation:string?@3+",
                synonym=struct(ConfigSynonym, "name:string value:string? source:int8"),
            ),
        ),
    ),
    on_each(
        DescribeConfigsReply,
        "resources",
        lambda asked, code, message: DescribedConfigs(
            asked.resource_type, asked.name, code, message
        ),
    ),
)

_ALTERED = struct(
    AlterConfigsReply,
    "throttle results:[]result",
    result=struct(
        AlteredResource, "error:error error_message:string? resource_type:int8 name:string"
    ),
)
_ALTER_FAILURE = on_each(
    AlterConfigsReply,
    "resources",
    lambda asked, code, message: AlteredResource(asked.resource_type, asked.name, code, message),
)

# v1 only changes throttling, v2 is flexible. A resource is replaced: keys that are not named are
# reset to their defaults.
ALTER_CONFIGS = api(
    33,
    "0-2",
    "2+",
    struct(
        AlterConfigsRequest,
        "resources:[]resource validate_only:bool",
        resource=struct(
            AlterResource,
            "resource_type:int8 name:string configs:[]config replace:true",
            config=struct(AlterConfig, "name:string operation:set value:string?", set=absent(_SET)),
            true=absent(True),
        ),
    ),
    _ALTERED,
    _ALTER_FAILURE,
)

# v1 is flexible.
INCREMENTAL_ALTER_CONFIGS = api(
    44,
    "0-1",
    "1+",
    struct(
        IncrementalAlterConfigsRequest,
        "resources:[]resource validate_only:bool",
        resource=struct(
            AlterResource,
            "resource_type:int8 name:string configs:[]config",
            config=struct(AlterConfig, "name:string operation:int8 value:string?"),
        ),
    ),
    _ALTERED,
    _ALTER_FAILURE,
)

# Always flexible. v0 lists client metrics only; v1 (KIP-1142) says which types to list (none = all)
# and gives the type of each resource.
LIST_CONFIG_RESOURCES = api(
    74,
    "0-1",
    "0+",
    struct(
        ListConfigResourcesRequest,
        "resource_types:metrics@0 resource_types:[]int8@1+",
        metrics=absent((RESOURCE_CLIENT_METRICS,)),
    ),
    struct(
        ListConfigResourcesReply,
        "throttle error:error resources:[]resource",
        resource=struct(
            tuple, "1:string 0:metrics@0 0:int8@1+", metrics=absent(RESOURCE_CLIENT_METRICS)
        ),
    ),
    code_only(ListConfigResourcesReply),
)

_ENTITY_PART = struct(tuple, "0:string 1:string?")

# v1 is flexible (KIP-546).
DESCRIBE_CLIENT_QUOTAS = api(
    48,
    "0-1",
    "1+",
    struct(
        DescribeClientQuotasRequest,
        "components:[]component strict:bool",
        component=struct(QuotaFilter, "entity_type:string match_type:int8 match:string?"),
    ),
    struct(
        DescribeClientQuotasReply,
        "throttle error:error error_message:string? entries:[]entry?",
        entry=struct(
            DescribedQuota,
            "entity:[]part values:[]value",
            part=_ENTITY_PART,
            value=struct(tuple, "0:string 1:float64"),
        ),
    ),
    code_and_message(DescribeClientQuotasReply),
)

# v1 is flexible (KIP-546).
ALTER_CLIENT_QUOTAS = api(
    49,
    "0-1",
    "1+",
    struct(
        AlterClientQuotasRequest,
        "entries:[]entry validate_only:bool",
        entry=struct(
            QuotaAlteration,
            "entity:[]part operations:[]operation",
            part=_ENTITY_PART,
            operation=struct(QuotaOperation, "key:string value:float64 remove:bool"),
        ),
    ),
    struct(
        AlterClientQuotasReply,
        "throttle entries:[]entry",
        entry=struct(
            AlteredQuota, "error:error error_message:string? entity:[]part", part=_ENTITY_PART
        ),
    ),
    on_each(
        AlterClientQuotasReply,
        "entries",
        lambda entry, code, message: AlteredQuota(entry.entity, code, message),
    ),
)
