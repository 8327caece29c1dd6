package billing;

import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import org.apache.kafka.clients.consumer.CommitFailedException;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.RebalanceInProgressException;
import org.apache.kafka.common.errors.RetriableException;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Bills orders: reads them from Kafka, charges, and writes invoices to a topic. Every order is billed at least
 * once, and a second time does no harm:
 *
 * <ul>
 *   <li>An offset is committed only when the invoices before it are in the topic.
 *   <li>Before a partition goes to another member, what was done is written and committed, so that the other one
 *       starts where this one ended.
 *   <li>A partition that is lost already is not committed: somebody else has it.
 *   <li>An invoice has the order's id as its key and always the same content: whoever reads it knows an order
 *       that was billed again after a crash.
 * </ul>
 */
public final class Processor implements Runnable, ConsumerRebalanceListener {
    private static final Logger LOG = LoggerFactory.getLogger(Processor.class);
    private static final Duration POLL = Duration.ofMillis(100);
    private static final String GROUP = "billing";
    private static final String ORDERS = "orders";
    private static final String INVOICES = "invoices";
    private static final String REJECTED = "orders-rejected";

    /** Takes the money for an order. */
    public interface Charge {
        /** May be called again for an order whose charge succeeded just before a crash. */
        void accept(Order order);
    }

    private final KafkaConsumer<String, String> consumer;
    private final KafkaProducer<String, String> producer;
    private final Charge charge;
    private final long commitNanos;
    private final Map<TopicPartition, OffsetAndMetadata> done = new HashMap<>();
    private final List<Future<?>> written = new ArrayList<>();
    private long committedAt = System.nanoTime();
    private volatile boolean stopping;
    private volatile int refused;

    public Processor(String servers, Charge charge, Duration commitInterval) {
        this.charge = charge;
        this.commitNanos = commitInterval.toNanos();
        this.consumer = new KafkaConsumer<>(
                Map.of(
                        "bootstrap.servers", servers,
                        "group.id", GROUP,
                        "group.protocol", "consumer",
                        "auto.offset.reset", "earliest",
                        "enable.auto.commit", false),
                new StringDeserializer(),
                new StringDeserializer());
        this.producer = new KafkaProducer<>(
                Map.of("bootstrap.servers", servers), new StringSerializer(), new StringSerializer());
    }

    /** How many commits came too late. */
    public int refused() {
        return refused;
    }

    /** From any thread: {@link #run} commits, leaves the group and returns. */
    public void stop() {
        stopping = true;
    }

    @Override
    public void run() {
        try (producer; consumer) { // closed last to first; the consumer calls onPartitionsRevoked
            consumer.subscribe(List.of(ORDERS), this);
            while (!stopping) {
                for (ConsumerRecord<String, String> record : consumer.poll(POLL)) {
                    bill(record);
                }
                if (!done.isEmpty() && System.nanoTime() - committedAt >= commitNanos) {
                    commit();
                }
            }
        }
    }

    private void bill(ConsumerRecord<String, String> record) {
        String place = record.topic() + "-" + record.partition() + "@" + record.offset();
        ProducerRecord<String, String> result;
        try {
            Order order = Order.parse(record.value());
            charge.accept(order);
            result = new ProducerRecord<>(INVOICES, order.id(), order.invoice());
        } catch (Order.BadOrderException bad) {
            result = new ProducerRecord<>(REJECTED, place, bad.getMessage());
        }
        written.add(producer.send(result));
        done.put(new TopicPartition(record.topic(), record.partition()), new OffsetAndMetadata(record.offset() + 1));
    }

    /** What was done, if anything. If the broker does not take it now, it is tried again. */
    private void commit() {
        committedAt = System.nanoTime();
        flush();
        if (done.isEmpty()) {
            return;
        }
        try {
            consumer.commitSync(done);
            done.clear();
        } catch (CommitFailedException error) {
            refused++;
            done.clear();
            LOG.warn("somebody else has our partitions: {}", error.getMessage());
        } catch (RetriableException | RebalanceInProgressException error) {
            LOG.warn("not committed yet: {}", error.getMessage());
        }
    }

    private void flush() {
        producer.flush();
        try {
            for (Future<?> one : written) {
                one.get();
            }
        } catch (ExecutionException error) {
            throw new KafkaException("an invoice was not written", error.getCause());
        } catch (InterruptedException error) {
            throw new KafkaException("interrupted", error);
        }
        written.clear();
    }

    /** They are ours until this returns. */
    @Override
    public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
        commit();
        done.keySet().removeAll(partitions);
    }

    /** They are gone already. */
    @Override
    public void onPartitionsLost(Collection<TopicPartition> partitions) {
        done.keySet().removeAll(partitions);
    }

    @Override
    public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
        LOG.info("new: {}", partitions);
    }
}
