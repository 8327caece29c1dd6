// Apache Kafka's own client; the group protocol is "consumer" (KIP-848) or "classic".
import java.time.Duration;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

public class Example {
    public static void main(String[] args) {
        String bootstrap = args.length > 0 ? args[0] : "127.0.0.1:9092";
        String protocol = args.length > 1 ? args[1] : "consumer";
        try (var producer = new KafkaProducer<>(
                Map.<String, Object>of("bootstrap.servers", bootstrap),
                new StringSerializer(), new StringSerializer())) {
            for (int number = 0; number < 10; number++)
                producer.send(new ProducerRecord<>("orders", "order " + number));
        }
        Map<String, Object> config = Map.of(
                "bootstrap.servers", bootstrap,
                "group.id", "billing-java-" + protocol,
                "group.protocol", protocol,
                "auto.offset.reset", "earliest",
                "enable.auto.commit", false);
        try (var consumer = new KafkaConsumer<>(
                config, new StringDeserializer(), new StringDeserializer())) {
            consumer.subscribe(List.of("orders"));
            for (int seen = 0; seen < 10; )
                for (var record : consumer.poll(Duration.ofSeconds(1))) {
                    System.out.println(record.partition() + " " + record.offset() + " " + record.value());
                    seen++;
                }
            consumer.commitSync();
        }
    }
}
