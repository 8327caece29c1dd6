package groupd.clients;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.Future;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Sends {@code count} records round-robin over {@code partitions} of {@code topic} and tells their places.
 * Record n has the value "v" + n padded to {@code size}, the header n, and a null key when n is even.
 */
final class ProduceCommand {
    private ProduceCommand() {}

    static void run(Map<String, String> options) throws Exception {
        Properties config = new Properties();
        config.put("bootstrap.servers", options.get("bootstrap"));
        config.put("enable.idempotence", options.getOrDefault("idempotence", "true"));
        config.put("compression.type", options.getOrDefault("compression", "none"));
        config.put("acks", options.getOrDefault("acks", "all"));
        config.put("linger.ms", "5");
        String topic = options.get("topic");
        int partitions = Integer.parseInt(options.getOrDefault("partitions", "1"));
        int count = Integer.parseInt(options.getOrDefault("count", "1"));
        int size = Integer.parseInt(options.getOrDefault("size", "0"));
        List<List<Object>> places = new ArrayList<>();
        try (KafkaProducer<byte[], byte[]> producer =
                new KafkaProducer<>(config, new ByteArraySerializer(), new ByteArraySerializer())) {
            List<Future<RecordMetadata>> sent = new ArrayList<>();
            for (int n = 0; n < count; n++) {
                byte[] key = n % 2 == 0 ? null : bytes("k" + n);
                ProducerRecord<byte[], byte[]> record =
                        new ProducerRecord<>(topic, n % partitions, key, padded("v" + n, size));
                record.headers().add("n", bytes(String.valueOf(n)));
                sent.add(producer.send(record));
            }
            for (Future<RecordMetadata> future : sent) {
                RecordMetadata at = future.get();
                places.add(List.of(at.topic(), at.partition(), at.offset()));
            }
        } catch (Exception error) {
            Throwable cause = error.getCause() == null ? error : error.getCause();
            Events.emit(Map.of("event", "error", "error", cause.getClass().getSimpleName()));
            return;
        }
        Events.emit(Map.of("event", "produced", "records", places));
    }

    private static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    private static byte[] padded(String text, int size) {
        byte[] value = bytes(text);
        if (value.length >= size) {
            return value;
        }
        byte[] grown = Arrays.copyOf(value, size);
        Arrays.fill(grown, value.length, size, (byte) '.');
        return grown;
    }
}
