package groupd.spring;

import java.io.IOException;
import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.springframework.kafka.config.ShareKafkaListenerContainerFactory;
import org.springframework.kafka.core.DefaultShareConsumerFactory;
import org.springframework.kafka.listener.AcknowledgingShareConsumerAwareMessageListener;
import org.springframework.kafka.listener.ShareKafkaMessageListenerContainer;
import org.springframework.kafka.support.ShareAcknowledgment;

/**
 * {@code Listener BOOTSTRAP GROUP TOPIC}: a listener container with two consumers, until the end of stdin. A record
 * whose value begins with "release" is released when it comes for the first time; for "throw" the listener throws,
 * which rejects the record; the others are accepted. Each delivery is a line: offset, delivery count, value.
 */
public final class Listener {
    private Listener() {}

    public static void main(String[] args) throws IOException {
        ShareKafkaListenerContainerFactory<String, String> factory =
                new ShareKafkaListenerContainerFactory<>(new DefaultShareConsumerFactory<>(
                        Map.of("bootstrap.servers", args[0]), new StringDeserializer(), new StringDeserializer(), true));
        factory.setConcurrency(2);
        ShareKafkaMessageListenerContainer<String, String> container = factory.createContainer(args[2]);
        container.getContainerProperties().setGroupId(args[1]);
        container.getContainerProperties().setExplicitShareAcknowledgment(true);
        container.setupMessageListener(
                (AcknowledgingShareConsumerAwareMessageListener<String, String>) (record, acknowledgment, consumer) ->
                        handle(record, acknowledgment));
        container.start();
        while (System.in.read() >= 0) {
            continue;
        }
        container.stop();
    }

    private static void handle(ConsumerRecord<String, String> record, ShareAcknowledgment acknowledgment) {
        int count = record.deliveryCount().orElseThrow();
        synchronized (Listener.class) {
            System.out.println(record.offset() + " " + count + " " + record.value());
        }
        if (record.value().startsWith("throw")) {
            throw new IllegalStateException(record.value());
        }
        if (record.value().startsWith("release") && count == 1) {
            acknowledgment.release();
        } else {
            acknowledgment.acknowledge();
        }
    }
}
