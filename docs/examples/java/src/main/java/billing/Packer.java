package billing;

import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicIdPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Packs orders, as one of many workers of a share group. Each order is locked for one worker at a time:
 *
 * <ul>
 *   <li>An order that is packed is accepted, and does not come again.
 *   <li>One that nobody can ever pack is rejected.
 *   <li>One that could not be packed this time is released: it comes again, to any worker, until it was delivered
 *       as often as the group allows.
 *   <li>One that takes longer is renewed: it stays locked, and is asked for again.
 * </ul>
 */
public final class Packer implements Runnable {
    private static final Logger LOG = LoggerFactory.getLogger(Packer.class);
    private static final Duration POLL = Duration.ofMillis(100);
    private static final String GROUP = "packers";
    private static final String ORDERS = "orders";

    /** Packs an order. */
    public interface Pack {
        /** Whether it is done. If not, this is called again. If it throws, the order is released. */
        boolean isDone(Order order);
    }

    private final KafkaShareConsumer<String, String> consumer;
    private final Pack pack;
    private volatile boolean stopping;
    private volatile int refused;

    public Packer(String servers, Pack pack) {
        this.pack = pack;
        this.consumer = new KafkaShareConsumer<>(
                Map.of(
                        "bootstrap.servers", servers,
                        "group.id", GROUP,
                        "share.acknowledgement.mode", "explicit"),
                new StringDeserializer(),
                new StringDeserializer());
    }

    /** How many acknowledgements, by partition, came too late. */
    public int refused() {
        return refused;
    }

    /** From any thread: {@link #run} leaves the group and returns. */
    public void stop() {
        stopping = true;
    }

    @Override
    public void run() {
        try (consumer) {
            consumer.subscribe(List.of(ORDERS));
            while (!stopping) {
                ConsumerRecords<String, String> records = consumer.poll(POLL);
                for (ConsumerRecord<String, String> record : records) {
                    consumer.acknowledge(record, outcome(record));
                }
                if (!records.isEmpty()) {
                    commit();
                }
            }
        }
    }

    private AcknowledgeType outcome(ConsumerRecord<String, String> record) {
        try {
            return pack.isDone(Order.parse(record.value())) ? AcknowledgeType.ACCEPT : AcknowledgeType.RENEW;
        } catch (Order.BadOrderException bad) {
            LOG.warn("rejected {}: {}", record.offset(), bad.getMessage());
            return AcknowledgeType.REJECT;
        } catch (RuntimeException failed) {
            LOG.warn("not packed this time: {}", record.offset(), failed);
            return AcknowledgeType.RELEASE;
        }
    }

    /** What is refused was delivered to somebody else meanwhile, or will be. */
    private void commit() {
        for (Map.Entry<TopicIdPartition, Optional<KafkaException>> one : consumer.commitSync().entrySet()) {
            if (one.getValue().isPresent()) {
                refused++;
                LOG.warn("not acknowledged: {}", one.getKey(), one.getValue().get());
            }
        }
    }
}
