package groupd.clients;

import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.ArrayList;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.TopicPartition;

/** Writes JSON objects to stdout, one a line, whichever thread writes. */
final class Events {
    static final ObjectMapper JSON = new ObjectMapper();

    private Events() {}

    static void emit(Map<String, ?> event) {
        try {
            String line = JSON.writeValueAsString(event);
            synchronized (Events.class) {
                System.out.println(line);
                System.out.flush();
            }
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }

    static void emit(int member, String event, String field, Object value) {
        Map<String, Object> line = new LinkedHashMap<>();
        line.put("event", event);
        line.put("member", member);
        line.put("at", System.nanoTime() / 1e9); // The system's monotonic clock, as in the other drivers.
        if (field != null) {
            line.put(field, value);
        }
        emit(line);
    }

    static List<List<Object>> places(Collection<TopicPartition> partitions) {
        List<List<Object>> places = new ArrayList<>();
        partitions.stream()
                .sorted((a, b) -> a.topic().equals(b.topic())
                        ? Integer.compare(a.partition(), b.partition())
                        : a.topic().compareTo(b.topic()))
                .forEach(at -> places.add(List.of(at.topic(), at.partition())));
        return places;
    }
}
