package groupd.clients;

import java.io.IOException;
import java.time.Duration;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.consumer.CloseOptions;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * A worker that reads, processes and writes exactly once. The command line and the events are those of
 * {@code tests/clients/drivers/confluent_processor.py}.
 */
final class ProcessCommand {
    private static final Duration POLL = Duration.ofMillis(100);
    private static final Duration CLOSE = Duration.ofSeconds(5);

    private final Map<String, String> options;
    private final KafkaConsumer<byte[], byte[]> consumer;
    private final KafkaProducer<byte[], byte[]> producer;
    private static volatile boolean stopping;

    private ProcessCommand(Map<String, String> options) {
        this.options = options;
        this.consumer =
                new KafkaConsumer<>(consumerConfig(), new ByteArrayDeserializer(), new ByteArrayDeserializer());
        this.producer = new KafkaProducer<>(producerConfig(), new ByteArraySerializer(), new ByteArraySerializer());
    }

    static void run(Map<String, String> options) throws InterruptedException {
        Thread working = Thread.currentThread();
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            stopping = true;
            try {
                working.join();
            } catch (InterruptedException error) {
                Thread.currentThread().interrupt();
            }
        }));
        Thread parent = new Thread(ProcessCommand::waitForTheEnd);
        parent.setDaemon(true);
        parent.start();
        while (!stopping) {
            try {
                new ProcessCommand(options).live();
            } catch (RuntimeException error) {
                Events.emit(Map.of("event", "anew", "error", error.toString()));
                Thread.sleep(200);
            }
        }
        Events.emit(Map.of("event", "closed"));
    }

    private static void waitForTheEnd() {
        try {
            while (System.in.read() >= 0) {
                continue;
            }
        } catch (IOException error) {
            System.err.println("stdin: " + error);
        }
        stopping = true;
    }

    private Properties consumerConfig() {
        Properties config = new Properties();
        config.put("bootstrap.servers", options.get("bootstrap"));
        config.put("group.id", options.get("group"));
        config.put("isolation.level", "read_committed");
        config.put("auto.offset.reset", "earliest");
        config.put("enable.auto.commit", "false");
        config.put("max.poll.records", options.get("records"));
        config.put("reconnect.backoff.max.ms", "500");
        config.put("group.protocol", options.get("protocol"));
        if ("classic".equals(options.get("protocol"))) {
            String assignor = options.getOrDefault("assignor", "");
            config.put(
                    "partition.assignment.strategy",
                    ConsumeCommand.ASSIGNORS.get(assignor.isEmpty() ? "range" : assignor));
            config.put("session.timeout.ms", options.get("session-timeout-ms"));
            config.put("heartbeat.interval.ms", "300");
        }
        return config;
    }

    private Properties producerConfig() {
        Properties config = new Properties();
        config.put("bootstrap.servers", options.get("bootstrap"));
        config.put("transactional.id", options.get("transactional-id"));
        config.put("transaction.timeout.ms", options.get("transaction-timeout-ms"));
        config.put("reconnect.backoff.max.ms", "500");
        return config;
    }

    /** Until told to stop, or until something happens that neither side recovers from. */
    private void live() throws InterruptedException {
        try {
            producer.initTransactions();
            consumer.subscribe(List.of(options.get("source")), new Telling());
            while (!stopping) {
                ConsumerRecords<byte[], byte[]> records = consumer.poll(POLL);
                if (!records.isEmpty()) {
                    process(records);
                }
            }
        } finally {
            producer.close(CLOSE);
            consumer.close(CloseOptions.timeout(CLOSE));
        }
    }

    private void process(ConsumerRecords<byte[], byte[]> records) throws InterruptedException {
        long workMs = Long.parseLong(options.get("work-ms"));
        Map<TopicPartition, OffsetAndMetadata> next = new HashMap<>();
        producer.beginTransaction();
        try {
            for (ConsumerRecord<byte[], byte[]> record : records) {
                producer.send(new ProducerRecord<>(options.get("target"), record.partition(), null, record.value()));
                next.put(
                        new TopicPartition(record.topic(), record.partition()),
                        new OffsetAndMetadata(record.offset() + 1));
            }
            Thread.sleep(workMs);
            producer.sendOffsetsToTransaction(next, consumer.groupMetadata());
            Events.emit(Map.of("event", "offsets"));
            Thread.sleep(workMs);
            producer.commitTransaction();
            Events.emit(Map.of("event", "committed", "records", records.count()));
        } catch (KafkaException error) {
            Events.emit(Map.of("event", "aborted", "records", records.count(), "error", error.toString()));
            producer.abortTransaction(); // Throws what is fatal.
            rewind();
        }
    }

    /** Back to what is committed. */
    private void rewind() {
        consumer.committed(consumer.assignment()).forEach((at, offset) -> {
            if (offset == null) {
                consumer.seekToBeginning(List.of(at));
            } else {
                consumer.seek(at, offset);
            }
        });
    }

    private final class Telling implements ConsumerRebalanceListener {
        @Override
        public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
            List<Integer> owned = consumer.assignment().stream().map(TopicPartition::partition).sorted().toList();
            Events.emit(Map.of("event", "assignment", "owned", owned));
        }

        @Override
        public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
            // No transaction is open during a poll.
        }
    }
}
