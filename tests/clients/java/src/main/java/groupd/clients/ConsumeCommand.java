package groupd.clients;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.Reader;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import java.util.regex.Pattern;
import org.apache.kafka.clients.consumer.CloseOptions;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.consumer.SubscriptionPattern;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.WakeupException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * Runs members of a group, one thread each, and tells what happens to them. The command line, the events
 * and the commands on stdin are those of {@code tests/clients/drivers/driver.py}.
 */
final class ConsumeCommand {
    private static final Duration POLL = Duration.ofMillis(100);
    static final Map<String, String> ASSIGNORS = Map.of(
            "range", "org.apache.kafka.clients.consumer.RangeAssignor",
            "roundrobin", "org.apache.kafka.clients.consumer.RoundRobinAssignor",
            "sticky", "org.apache.kafka.clients.consumer.StickyAssignor",
            "cooperative-sticky", "org.apache.kafka.clients.consumer.CooperativeStickyAssignor");

    private ConsumeCommand() {}

    static void run(Map<String, String> options) throws Exception {
        int first = Integer.parseInt(options.getOrDefault("first", "0"));
        int count = Integer.parseInt(options.getOrDefault("members", "1"));
        Map<Integer, Member> members = new TreeMap<>();
        for (int number = first; number < first + count; number++) {
            members.put(number, new Member(number, options));
        }
        Thread commands = new Thread(() -> readCommands(members));
        commands.setDaemon(true);
        commands.start();
        Runtime.getRuntime().addShutdownHook(new Thread(() -> stopAll(members.values())));
        for (Member member : members.values()) {
            member.start();
        }
        for (Member member : members.values()) {
            member.join();
        }
    }

    private static void readCommands(Map<Integer, Member> members) {
        try (BufferedReader in = new BufferedReader(new InputStreamReader(System.in))) {
            for (String line = in.readLine(); line != null && !line.equals("stop"); line = in.readLine()) {
                String[] words = line.trim().split(" ");
                Member member = members.get(Integer.parseInt(words[1]));
                switch (words[0]) {
                    case "close" -> member.finish();
                    case "restart" -> member.restart(words);
                    case "subscribe" -> member.topics = List.of(words[2].split(","));
                    default -> System.err.println("unknown command: " + line);
                }
            }
        } catch (IOException error) {
            System.err.println("stdin: " + error);
        }
        members.values().forEach(Member::finish);
    }

    private static void stopAll(Collection<Member> members) {
        members.forEach(Member::finish);
        for (Member member : members) {
            try {
                member.join();
            } catch (InterruptedException error) {
                Thread.currentThread().interrupt();
            }
        }
    }

    private static final class Member extends Thread implements ConsumerRebalanceListener {
        private final int number;
        private final Map<String, String> options;
        private volatile KafkaConsumer<byte[], byte[]> consumer;
        private final Map<TopicPartition, OffsetAndMetadata> uncommitted = new LinkedHashMap<>();
        private volatile boolean finishing;
        private volatile List<String> topics;
        private volatile boolean restarting;

        Member(int number, Map<String, String> options) {
            super("member-" + number);
            this.number = number;
            this.options = new ConcurrentHashMap<>(options);
            this.consumer = new KafkaConsumer<>(config(), new ByteArrayDeserializer(), new ByteArrayDeserializer());
        }

        private Properties config() {
            Properties config = new Properties();
            config.put("bootstrap.servers", options.get("bootstrap"));
            config.put("group.id", options.get("group"));
            config.put("client.id", "java-" + number);
            config.put("auto.offset.reset", "earliest");
            config.put("enable.auto.commit", String.valueOf("auto".equals(options.get("commit"))));
            config.put("auto.commit.interval.ms", "500");
            config.put("metadata.max.age.ms", "1000");
            config.put("reconnect.backoff.max.ms", "500");
            config.put("allow.auto.create.topics", "false");
            config.put("max.poll.interval.ms", options.getOrDefault("max-poll-interval-ms", "300000"));
            String protocol = options.getOrDefault("protocol", "classic");
            config.put("group.protocol", protocol);
            String assignor = options.getOrDefault("assignor", "");
            if (protocol.equals("consumer")) {
                if (!assignor.isEmpty()) {
                    config.put("group.remote.assignor", assignor);
                }
            } else {
                config.put("partition.assignment.strategy", ASSIGNORS.get(assignor.isEmpty() ? "range" : assignor));
                config.put("session.timeout.ms", options.getOrDefault("session-timeout-ms", "6000"));
                config.put("heartbeat.interval.ms", "300");
            }
            String prefix = options.getOrDefault("instance-prefix", "");
            if (!prefix.isEmpty()) {
                config.put("group.instance.id", prefix + number);
            }
            if (options.containsKey("login")) {
                logIn(config, Path.of(options.get("login")));
            }
            return config;
        }

        /** {@code --login FILE}: here, the properties that a client logs in with. */
        private static void logIn(Properties config, Path file) {
            try (Reader reader = Files.newBufferedReader(file)) {
                config.load(reader);
            } catch (IOException error) {
                throw new UncheckedIOException(error);
            }
            String tokens = config.getProperty("sasl.oauthbearer.token.endpoint.url");
            if (tokens != null) {
                System.setProperty("org.apache.kafka.sasl.oauthbearer.allowed.urls", tokens);
            }
        }

        void finish() {
            finishing = true;
            consumer.wakeup();
        }

        /** {@code restart N [PROTOCOL ASSIGNOR]}: leaves and comes again, perhaps as another kind of member. */
        void restart(String[] words) {
            if (words.length == 4) {
                options.put("protocol", words[2]);
                options.put("assignor", words[3]);
            }
            restarting = true; // Seen after the poll under way: a wakeup could swallow a callback.
        }

        private void subscribe() {
            String pattern = options.getOrDefault("pattern", "");
            if (pattern.isEmpty()) {
                consumer.subscribe(List.of(options.get("topics").split(",")), this);
            } else if ("consumer".equals(options.get("protocol"))) {
                consumer.subscribe(new SubscriptionPattern(pattern), this);
            } else {
                consumer.subscribe(Pattern.compile(pattern), this);
            }
        }

        @Override
        public void run() {
            live();
            while (restarting && !finishing) {
                restarting = false;
                uncommitted.clear();
                consumer = new KafkaConsumer<>(config(), new ByteArrayDeserializer(), new ByteArrayDeserializer());
                live();
            }
        }

        /** From joining to having left. */
        private void live() {
            Set<TopicPartition> owned = null;
            try {
                subscribe();
                while (!finishing && !restarting) {
                    List<String> changed = topics;
                    if (changed != null) {
                        topics = null;
                        consumer.subscribe(changed, this);
                    }
                    ConsumerRecords<byte[], byte[]> records = consumer.poll(POLL);
                    Set<TopicPartition> now = new HashSet<>(consumer.assignment());
                    if (!now.equals(owned)) {
                        owned = now;
                        Events.emit(number, "assignment", "owned", Events.places(now));
                    }
                    if (!records.isEmpty()) {
                        tell(records);
                    }
                    uncommitted.keySet().retainAll(now);
                    if ("each".equals(options.get("commit")) && !uncommitted.isEmpty()) {
                        commit();
                    }
                }
            } catch (WakeupException woken) {
                // finish() was called.
            } catch (RuntimeException error) {
                Events.emit(number, "error", "error", error.toString());
            }
            try {
                consumer.close(CloseOptions.timeout(Duration.ofSeconds(5)));
            } catch (RuntimeException error) {
                Events.emit(number, "error", "error", error.toString());
            }
            Events.emit(number, "closed", null, null);
        }

        private void tell(ConsumerRecords<byte[], byte[]> records) {
            List<List<Object>> places = new ArrayList<>();
            for (ConsumerRecord<byte[], byte[]> record : records) {
                places.add(List.of(record.topic(), record.partition(), record.offset()));
                uncommitted.put(
                        new TopicPartition(record.topic(), record.partition()),
                        new OffsetAndMetadata(record.offset() + 1));
            }
            Events.emit(number, "records", "records", places);
        }

        /** Commits what was polled; what fails is tried again after the next poll, if still owned. */
        private void commit() {
            List<List<Object>> shown = new ArrayList<>();
            uncommitted.forEach((at, offset) -> shown.add(List.of(at.topic(), at.partition(), offset.offset())));
            try {
                consumer.commitSync(uncommitted);
                uncommitted.clear();
                Events.emit(number, "committed", "offsets", shown);
            } catch (WakeupException woken) {
                throw woken;
            } catch (RuntimeException error) {
                Events.emit(Map.of(
                        "event", "commit-failed", "member", number, "offsets", shown, "error", error.toString()));
            }
        }

        @Override
        public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
            Events.emit(number, "assigned", "partitions", Events.places(partitions));
        }

        @Override
        public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
            try {
                Thread.sleep(Long.parseLong(options.getOrDefault("revoke-block-ms", "0")));
            } catch (InterruptedException error) {
                Thread.currentThread().interrupt();
            }
            Events.emit(number, "revoked", "partitions", Events.places(partitions));
        }

        @Override
        public void onPartitionsLost(Collection<TopicPartition> partitions) {
            Events.emit(number, "lost", "partitions", Events.places(partitions));
        }
    }
}
