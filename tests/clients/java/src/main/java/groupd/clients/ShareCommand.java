package groupd.clients;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Objects;
import java.util.Properties;
import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * One member of a share group that does what stdin says. The command line, the commands and the answers are
 * those of {@code tests/clients/drivers/confluent_share_driver.py}.
 */
final class ShareCommand {
    private final KafkaShareConsumer<byte[], byte[]> consumer;
    private final Map<List<Object>, ConsumerRecord<byte[], byte[]>> polled = new HashMap<>();

    private ShareCommand(Map<String, String> options) {
        Properties config = new Properties();
        config.put("bootstrap.servers", options.get("bootstrap"));
        config.put("group.id", options.get("group"));
        config.put("client.id", options.get("client-id"));
        config.put("share.acknowledgement.mode", options.get("ack"));
        config.put("share.acquire.mode", options.get("acquire"));
        config.put("max.poll.records", options.get("max-records"));
        config.put("metadata.max.age.ms", "1000");
        config.put("reconnect.backoff.max.ms", "500");
        this.consumer = new KafkaShareConsumer<>(config, new ByteArrayDeserializer(), new ByteArrayDeserializer());
        consumer.subscribe(Arrays.asList(options.get("topics").split(",")));
    }

    static void run(Map<String, String> options) throws IOException {
        ShareCommand member = new ShareCommand(options);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            Map<String, ?> answer;
            try {
                answer = member.carryOut(Events.JSON.readTree(line));
            } catch (RuntimeException error) {
                answer = Map.of("event", "error", "error", error.toString());
            }
            Events.emit(answer);
            if ("closed".equals(answer.get("event"))) {
                return;
            }
        }
        Runtime.getRuntime().halt(1); // The test is gone: no goodbye.
    }

    private Map<String, ?> carryOut(JsonNode command) {
        switch (command.get("do").textValue()) {
            case "poll" -> {
                return Map.of("event", "records", "records", poll(command.get("seconds").doubleValue()));
            }
            case "acknowledge" -> {
                AcknowledgeType type = AcknowledgeType.valueOf(
                        command.get("as").textValue().toUpperCase(Locale.ROOT));
                for (JsonNode at : command.get("records")) {
                    consumer.acknowledge(polled(at), type);
                }
                return Map.of("event", "acknowledged");
            }
            case "commit" -> {
                return Map.of("event", "committed", "results", commit());
            }
            case "subscribe" -> {
                List<String> topics = new ArrayList<>();
                command.get("topics").forEach(topic -> topics.add(topic.textValue()));
                consumer.subscribe(topics);
                return Map.of("event", "subscribed");
            }
            case "close" -> {
                consumer.close(Duration.ofSeconds(10));
                return Map.of("event", "closed");
            }
            default -> throw new IllegalArgumentException(command.toString());
        }
    }

    private List<List<Object>> poll(double seconds) {
        List<List<Object>> found = new ArrayList<>();
        ConsumerRecords<byte[], byte[]> records = consumer.poll(Duration.ofMillis((long) (seconds * 1000)));
        polled.clear();
        for (ConsumerRecord<byte[], byte[]> record : records) {
            polled.put(List.of(record.topic(), record.partition(), record.offset()), record);
            found.add(List.of(
                    record.topic(),
                    record.partition(),
                    record.offset(),
                    record.deliveryCount().orElseThrow()));
        }
        return found;
    }

    /** The record of the last poll at this place. */
    private ConsumerRecord<byte[], byte[]> polled(JsonNode at) {
        return Objects.requireNonNull(
                polled.get(List.of(at.get(0).textValue(), at.get(1).intValue(), at.get(2).longValue())),
                () -> "not polled: " + at);
    }

    private List<List<Object>> commit() {
        List<List<Object>> results = new ArrayList<>();
        consumer.commitSync(Duration.ofSeconds(20)).forEach((at, error) -> results.add(Arrays.asList(
                at.topic(), at.partition(), error.map(Throwable::toString).orElse(null))));
        return results;
    }
}
