package groupd.clients;

import com.fasterxml.jackson.core.type.TypeReference;
import com.fasterxml.jackson.databind.JsonNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ClassicGroupDescription;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.ConsumerGroupDescription;
import org.apache.kafka.clients.admin.GroupListing;
import org.apache.kafka.clients.admin.ListConsumerGroupOffsetsSpec;
import org.apache.kafka.clients.admin.ListOffsetsResult;
import org.apache.kafka.clients.admin.ListTopicsOptions;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.admin.RemoveMembersFromConsumerGroupOptions;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.ApiException;
import org.apache.kafka.common.protocol.Errors;

/**
 * Answers one JSON command a line: {@code {"op": NAME, ...}} with {@code {"result": ...}} or
 * {@code {"error": "TOPIC_ALREADY_EXISTS", "message": ...}}.
 */
final class AdminCommand {
    private final Admin admin;

    private AdminCommand(Admin admin) {
        this.admin = admin;
    }

    static void run(Map<String, String> options) throws Exception {
        Properties config = new Properties();
        config.put("bootstrap.servers", options.get("bootstrap"));
        config.put("default.api.timeout.ms", "15000");
        config.put("request.timeout.ms", "10000");
        try (Admin admin = Admin.create(config);
                BufferedReader in = new BufferedReader(new InputStreamReader(System.in))) {
            AdminCommand command = new AdminCommand(admin);
            for (String line = in.readLine(); line != null; line = in.readLine()) {
                Events.emit(command.answer(Events.JSON.readTree(line)));
            }
        }
    }

    private Map<String, Object> answer(JsonNode request) {
        Map<String, Object> answer = new HashMap<>();
        try {
            answer.put("result", perform(request));
        } catch (ExecutionException error) {
            answer.put("error", name(error.getCause()));
            answer.put("message", String.valueOf(error.getCause().getMessage()));
        } catch (InterruptedException | RuntimeException error) {
            answer.put("error", name(error));
            answer.put("message", String.valueOf(error.getMessage()));
        }
        return answer;
    }

    private static String name(Throwable error) {
        return error instanceof ApiException ? Errors.forException(error).name() : error.getClass().getSimpleName();
    }

    private Object perform(JsonNode request) throws ExecutionException, InterruptedException {
        return switch (request.get("op").asText()) {
            case "create_topics" -> createTopics(request);
            case "list_topics" -> new ArrayList<>(
                    admin.listTopics(new ListTopicsOptions().listInternal(true)).names().get());
            case "describe_topic" -> describeTopic(request.get("topic").asText());
            case "grow_topic" -> growTopic(request);
            case "delete_topics" -> admin.deleteTopics(strings(request.get("topics"))).all().get();
            case "describe_cluster" -> describeCluster();
            case "list_groups" -> listGroups();
            case "describe_group" -> describeGroup(request.get("group").asText());
            case "describe_classic_group" -> describeClassicGroup(request.get("group").asText());
            case "delete_group" -> admin.deleteConsumerGroups(List.of(request.get("group").asText())).all().get();
            case "remove_members" -> admin.removeMembersFromConsumerGroup(
                    request.get("group").asText(), new RemoveMembersFromConsumerGroupOptions()).all().get();
            case "list_offsets" -> listOffsets(request);
            case "alter_offsets" -> alterOffsets(request);
            case "delete_offsets" -> admin.deleteConsumerGroupOffsets(
                    request.get("group").asText(), new HashSet<>(partitions(request.get("partitions")))).all().get();
            case "end_offsets" -> endOffsets(request);
            case "delete_records" -> deleteRecords(request);
            case "describe_config" -> describeConfig(resource(request));
            case "alter_config" -> alterConfig(request);
            default -> throw new IllegalArgumentException("unknown op " + request.get("op"));
        };
    }

    private Object createTopics(JsonNode request) throws ExecutionException, InterruptedException {
        List<NewTopic> topics = new ArrayList<>();
        Map<String, String> configs = request.has("configs")
                ? Events.JSON.convertValue(request.get("configs"), new TypeReference<Map<String, String>>() {})
                : Map.of();
        for (Map.Entry<String, JsonNode> entry : request.get("topics").properties()) {
            topics.add(new NewTopic(entry.getKey(), entry.getValue().asInt(), (short) 1).configs(configs));
        }
        var created = admin.createTopics(topics);
        Map<String, Object> shown = new TreeMap<>();
        for (NewTopic topic : topics) {
            shown.put(topic.name(), Map.of(
                    "id", created.topicId(topic.name()).get().toString(),
                    "partitions", created.numPartitions(topic.name()).get(),
                    "configs", created.config(topic.name()).get().entries().size()));
        }
        return shown;
    }

    private Object describeTopic(String topic) throws ExecutionException, InterruptedException {
        TopicDescription found = admin.describeTopics(List.of(topic)).allTopicNames().get().get(topic);
        return Map.of(
                "id", found.topicId().toString(),
                "internal", found.isInternal(),
                "partitions", found.partitions().size());
    }

    private Object growTopic(JsonNode request) throws ExecutionException, InterruptedException {
        return admin.createPartitions(Map.of(
                        request.get("topic").asText(),
                        NewPartitions.increaseTo(request.get("partitions").asInt())))
                .all()
                .get();
    }

    private Object describeCluster() throws ExecutionException, InterruptedException {
        var found = admin.describeCluster();
        List<String> nodes = new ArrayList<>();
        for (Node node : found.nodes().get()) {
            nodes.add(node.host() + ":" + node.port());
        }
        return Map.of("id", found.clusterId().get(), "nodes", nodes);
    }

    private Object listGroups() throws ExecutionException, InterruptedException {
        Map<String, Object> shown = new TreeMap<>();
        for (GroupListing group : admin.listGroups().all().get()) {
            shown.put(group.groupId(), Map.of(
                    "type", group.type().map(Object::toString).orElse(""),
                    "state", group.groupState().map(Object::toString).orElse(""),
                    "protocol", group.protocol()));
        }
        return shown;
    }

    private Object describeGroup(String group) throws ExecutionException, InterruptedException {
        ConsumerGroupDescription found =
                admin.describeConsumerGroups(List.of(group)).all().get().get(group);
        List<Object> members = new ArrayList<>();
        found.members().forEach(member -> members.add(Map.of(
                "client", member.clientId(),
                "instance", member.groupInstanceId().orElse(""),
                "owned", Events.places(member.assignment().topicPartitions()))));
        Map<String, Object> shown = new LinkedHashMap<>();
        shown.put("type", found.type().toString());
        shown.put("state", found.groupState().toString());
        shown.put("assignor", found.partitionAssignor());
        shown.put("members", members);
        found.groupEpoch().ifPresent(epoch -> shown.put("group_epoch", epoch));
        return shown;
    }

    private Object describeClassicGroup(String group) throws ExecutionException, InterruptedException {
        ClassicGroupDescription found = admin.describeClassicGroups(List.of(group)).all().get().get(group);
        return Map.of("state", found.state().toString(), "protocol", found.protocol());
    }

    private Object listOffsets(JsonNode request) throws ExecutionException, InterruptedException {
        String group = request.get("group").asText();
        ListConsumerGroupOffsetsSpec spec = new ListConsumerGroupOffsetsSpec();
        if (request.has("partitions")) {
            spec.topicPartitions(partitions(request.get("partitions")));
        }
        var found = admin.listConsumerGroupOffsets(Map.of(group, spec)).partitionsToOffsetAndMetadata(group).get();
        List<Object> shown = new ArrayList<>();
        found.forEach((at, offset) ->
                shown.add(List.of(at.topic(), at.partition(), offset == null ? -1L : offset.offset())));
        return shown;
    }

    private Object alterOffsets(JsonNode request) throws ExecutionException, InterruptedException {
        Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
        for (JsonNode at : request.get("offsets")) {
            offsets.put(
                    new TopicPartition(at.get(0).asText(), at.get(1).asInt()),
                    new OffsetAndMetadata(at.get(2).asLong()));
        }
        return admin.alterConsumerGroupOffsets(request.get("group").asText(), offsets).all().get();
    }

    private Object endOffsets(JsonNode request) throws ExecutionException, InterruptedException {
        OffsetSpec spec = switch (request.path("spec").asText("latest")) {
            case "earliest" -> OffsetSpec.earliest();
            case "max-timestamp" -> OffsetSpec.maxTimestamp();
            case "latest" -> OffsetSpec.latest();
            default -> OffsetSpec.forTimestamp(request.get("spec").asLong());
        };
        Map<TopicPartition, OffsetSpec> asked = new HashMap<>();
        partitions(request.get("partitions")).forEach(at -> asked.put(at, spec));
        List<Object> shown = new ArrayList<>();
        for (Map.Entry<TopicPartition, ListOffsetsResult.ListOffsetsResultInfo> entry :
                admin.listOffsets(asked).all().get().entrySet()) {
            shown.add(List.of(
                    entry.getKey().topic(), entry.getKey().partition(), entry.getValue().offset()));
        }
        return shown;
    }

    private Object deleteRecords(JsonNode request) throws ExecutionException, InterruptedException {
        Map<TopicPartition, RecordsToDelete> asked = new HashMap<>();
        for (JsonNode at : request.get("offsets")) {
            asked.put(
                    new TopicPartition(at.get(0).asText(), at.get(1).asInt()),
                    RecordsToDelete.beforeOffset(at.get(2).asLong()));
        }
        return admin.deleteRecords(asked).all().get();
    }

    private Object describeConfig(ConfigResource resource) throws ExecutionException, InterruptedException {
        Map<String, String> shown = new TreeMap<>();
        for (ConfigEntry entry : admin.describeConfigs(List.of(resource)).all().get().get(resource).entries()) {
            shown.put(entry.name(), entry.value());
        }
        return shown;
    }

    private Object alterConfig(JsonNode request) throws ExecutionException, InterruptedException {
        Collection<AlterConfigOp> changes = new ArrayList<>();
        for (Map.Entry<String, JsonNode> entry : request.get("configs").properties()) {
            boolean unset = entry.getValue().isNull();
            changes.add(new AlterConfigOp(
                    new ConfigEntry(entry.getKey(), unset ? "" : entry.getValue().asText()),
                    unset ? AlterConfigOp.OpType.DELETE : AlterConfigOp.OpType.SET));
        }
        return admin.incrementalAlterConfigs(Map.of(resource(request), changes)).all().get();
    }

    private static ConfigResource resource(JsonNode request) {
        ConfigResource.Type type = ConfigResource.Type.valueOf(request.path("kind").asText("TOPIC"));
        return new ConfigResource(type, request.get("name").asText());
    }

    private static Set<String> strings(JsonNode array) {
        Set<String> values = new HashSet<>();
        array.forEach(value -> values.add(value.asText()));
        return values;
    }

    private static List<TopicPartition> partitions(JsonNode array) {
        List<TopicPartition> found = new ArrayList<>();
        array.forEach(at -> found.add(new TopicPartition(at.get(0).asText(), at.get(1).asInt())));
        return found;
    }
}
