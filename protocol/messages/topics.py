"""Topic administration: CreateTopics (19), DeleteTopics (20), CreatePartitions (37),
DescribeConfigs (32), AlterConfigs (33), IncrementalAlterConfigs (44), ListConfigResources (74)."""

from __future__ import annotations

from groupd.protocol.errors import ErrorCode
from groupd.protocol.frozen import dataclass
from groupd.protocol.messages import NO_TOPIC_ID, TopicId

RESOURCE_TOPIC = 2
RESOURCE_BROKER = 4
RESOURCE_BROKER_LOGGER = 8
RESOURCE_CLIENT_METRICS = 16
RESOURCE_GROUP = 32


@dataclass(frozen=True, slots=True)
class NewTopic:
    """`partitions` and `replication_factor` -1 = the broker's default.

    `assignments`: partition -> node ids, as given by hand; empty otherwise.
    """

    name: str
    partitions: int = -1
    replication_factor: int = -1
    assignments: tuple[tuple[int, tuple[int, ...]], ...] = ()
    configs: tuple[tuple[str, str | None], ...] = ()


@dataclass(frozen=True, slots=True)
class CreateTopicsRequest:
    topics: tuple[NewTopic, ...]
    timeout_ms: int = 60000
    validate_only: bool = False


@dataclass(frozen=True, slots=True)
class ConfigSynonym:
    """A place where a value comes from, or would come from; `source` as of `ConfigValue`."""

    name: str
    value: str | None
    source: int


@dataclass(frozen=True, slots=True)
class ConfigValue:
    """`source` as in DescribeConfigs: 1 topic, 2/3 dynamic broker, 4 static broker, 5 default,
    8 group. `config_type`: 1 boolean, 2 string, 3 int, 5 long, 7 list, 8 class. `synonyms`: the
    one that counts first."""

    name: str
    value: str | None
    read_only: bool = False
    is_default: bool = True
    source: int = 5
    sensitive: bool = False
    config_type: int = 0
    documentation: str | None = None
    synonyms: tuple[ConfigSynonym, ...] = ()


@dataclass(frozen=True, slots=True)
class CreatedTopic:
    name: str
    topic_id: TopicId = NO_TOPIC_ID
    error: ErrorCode = ErrorCode.NONE
    error_message: str | None = None
    partitions: int = -1
    replication_factor: int = -1
    configs: tuple[ConfigValue, ...] = ()
    config_error: ErrorCode = ErrorCode.NONE
    """Why `configs` are not given although the topic was created."""


@dataclass(frozen=True, slots=True)
class CreateTopicsReply:
    topics: tuple[CreatedTopic, ...]


@dataclass(frozen=True, slots=True)
class DeleteTopicsRequest:
    """A topic is given by name, or from v6 by id with name None."""

    topics: tuple[tuple[str | None, TopicId], ...]
    timeout_ms: int = 60000


@dataclass(frozen=True, slots=True)
class DeletedTopic:
    name: str | None
    topic_id: TopicId = NO_TOPIC_ID
    error: ErrorCode = ErrorCode.NONE
    error_message: str | None = None


@dataclass(frozen=True, slots=True)
class DeleteTopicsReply:
    topics: tuple[DeletedTopic, ...]


@dataclass(frozen=True, slots=True)
class GrownTopic:
    """`assignments`: replica node ids for each added partition; None = broker decides."""

    name: str
    count: int
    assignments: tuple[tuple[int, ...], ...] | None = None


@dataclass(frozen=True, slots=True)
class CreatePartitionsRequest:
    topics: tuple[GrownTopic, ...]
    timeout_ms: int = 60000
    validate_only: bool = False


@dataclass(frozen=True, slots=True)
class CreatePartitionsResult:
    name: str
    error: ErrorCode = ErrorCode.NONE
    error_message: str | None = None


@dataclass(frozen=True, slots=True)
class CreatePartitionsReply:
    results: tuple[CreatePartitionsResult, ...]


@dataclass(frozen=True, slots=True)
class ConfigResource:
    """`keys` None = all."""

    resource_type: int
    name: str
    keys: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class DescribeConfigsRequest:
    resources: tuple[ConfigResource, ...]
    include_synonyms: bool = False
    include_documentation: bool = False


@dataclass(frozen=True, slots=True)
class DescribedConfigs:
    resource_type: int
    name: str
    error: ErrorCode = ErrorCode.NONE
    error_message: str | None = None
    configs: tuple[ConfigValue, ...] = ()


@dataclass(frozen=True, slots=True)
class DescribeConfigsReply:
    results: tuple[DescribedConfigs, ...]


@dataclass(frozen=True, slots=True)
class AlterConfig:
    """`operation`: 0 set, 1 delete, 2 append, 3 subtract."""

    name: str
    operation: int
    value: str | None


@dataclass(frozen=True, slots=True)
class AlterResource:
    """`replace`: what is not named goes back to its default (AlterConfigs)."""

    resource_type: int
    name: str
    configs: tuple[AlterConfig, ...]
    replace: bool = False


@dataclass(frozen=True, slots=True)
class IncrementalAlterConfigsRequest:
    resources: tuple[AlterResource, ...]
    validate_only: bool = False


@dataclass(frozen=True, slots=True)
class AlterConfigsRequest:
    """Sets are all there is, and every resource is replaced."""

    resources: tuple[AlterResource, ...]
    validate_only: bool = False


@dataclass(frozen=True, slots=True)
class AlteredResource:
    resource_type: int
    name: str
    error: ErrorCode = ErrorCode.NONE
    error_message: str | None = None


@dataclass(frozen=True, slots=True)
class AlterConfigsReply:
    """Of both APIs."""

    results: tuple[AlteredResource, ...]


@dataclass(frozen=True, slots=True)
class ListConfigResourcesRequest:
    """No `resource_types` = all."""

    resource_types: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class ListConfigResourcesReply:
    """`resources`: (type, name)."""

    error: ErrorCode = ErrorCode.NONE
    resources: tuple[tuple[int, str], ...] = ()
