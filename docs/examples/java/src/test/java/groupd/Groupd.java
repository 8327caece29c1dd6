package groupd;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.URI;
import java.net.URLEncoder;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.TimeUnit;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * A broker for one test, in memory, on ports of its own: starts groupd, and moves its time, its groups and its
 * faults over its control API (docs/testing.md of groupd, "Any language"). Copy it as it is.
 */
public final class Groupd implements AutoCloseable {
    private static final Pattern READY = Pattern.compile("groupd ready kafka=(\\S+) admin=(\\S+)");
    private static final int PATIENCE_S = 30;
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final HttpClient HTTP = HttpClient.newHttpClient();

    private final Process process;
    private final Path errors;
    private final String url;
    private final String servers;

    private Groupd(Process process, Path errors, Matcher ready) {
        this.process = process;
        this.errors = errors;
        this.servers = ready.group(1);
        this.url = "http://" + ready.group(2);
    }

    /** Needs groupd on PATH. Topics are given as "orders:6". It ends with this process, however that ends. */
    public static Groupd start(String... topics) {
        List<String> command = new ArrayList<>(List.of(
                "groupd", "serve", "--control", "--profile", "test", "--until-stdin-ends",
                "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--log-level", "error"));
        for (String topic : topics) {
            command.addAll(List.of("--topic", topic));
        }
        try {
            Path errors = Files.createTempFile("groupd", ".log");
            Process process = launch(command, errors);
            BufferedReader output = process.inputReader();
            Thread watchdog = watchdog(process);
            String line = output.readLine();
            watchdog.interrupt();
            Matcher ready = READY.matcher(line == null ? "" : line);
            if (!ready.matches()) {
                end(process);
                throw new IllegalStateException("groupd did not start: " + Files.readString(errors));
            }
            return new Groupd(process, errors, ready);
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }

    private static Process launch(List<String> command, Path errors) throws IOException {
        try {
            return new ProcessBuilder(command).redirectError(errors.toFile()).start();
        } catch (IOException error) {
            Files.delete(errors);
            throw new IllegalStateException(
                    "groupd is not on PATH: install it (pip install) and put its environment's bin directory there",
                    error);
        }
    }

    private static Thread watchdog(Process process) {
        Thread thread = new Thread(() -> {
            try {
                TimeUnit.SECONDS.sleep(PATIENCE_S);
                process.destroyForcibly();
            } catch (InterruptedException started) {
                // It is up.
            }
        });
        thread.setDaemon(true);
        thread.start();
        return thread;
    }

    private static void end(Process process) {
        try {
            process.getOutputStream().close(); // its stdin
            if (!process.waitFor(PATIENCE_S, TimeUnit.SECONDS)) {
                process.destroyForcibly();
            }
        } catch (IOException | InterruptedException error) {
            process.destroyForcibly();
        }
    }

    /** Stops it. Throws AssertionError if the coordinator broke one of its invariants. */
    @Override
    public void close() throws IOException {
        try {
            JsonNode verdict = get("/control/check");
            if (!verdict.path("ok").asBoolean()) {
                throw new AssertionError("broken invariants: " + verdict.path("violations").asText());
            }
        } finally {
            end(process);
            Files.delete(errors);
        }
    }

    public String servers() {
        return servers;
    }

    /** One of a topic; what does not matter is null. */
    public record Record(String value, String key, Integer partition) {
        public Record(String value, int partition) {
            this(value, null, partition);
        }
    }

    public void produce(String topic, List<Record> records) {
        List<Map<String, Object>> given = new ArrayList<>();
        for (Record record : records) {
            Map<String, Object> one = new HashMap<>();
            one.put("value", record.value());
            one.put("key", record.key());
            if (record.partition() != null) {
                one.put("partition", record.partition());
            }
            given.add(one);
        }
        post("/control/topics/" + encoded(topic) + "/records", Map.of("records", given));
    }

    /** What a consumer with read_committed gets of a topic: at most 10,000; isolation=read_uncommitted gives all. */
    public List<Record> records(String topic) {
        List<Record> found = new ArrayList<>();
        for (JsonNode one : get("/control/topics/" + encoded(topic) + "/records?limit=10000").path("records")) {
            found.add(new Record(
                    one.path("value").textValue(), one.path("key").textValue(), one.path("partition").asInt()));
        }
        return found;
    }

    /** Stops the coordinator's time; from then on only {@link #advance} moves it. */
    public void freeze() {
        post("/control/clock", Map.of("mode", "frozen"));
    }

    /** Lets time pass at once. */
    public void advance(Duration by) {
        post("/control/clock/advance", Map.of("ms", by.toMillis()));
    }

    /** Until "stable", "members", "owned", "released", "committed", "lag" and so on; {@code given}: what that needs. */
    public JsonNode await(String group, String until, Map<String, Object> given) {
        Map<String, Object> body = new HashMap<>(given);
        body.put("until", until);
        body.put("timeout", PATIENCE_S);
        return post("/control/groups/" + encoded(group) + "/wait", body).path("result");
    }

    /** The members' ids, once there are so many. */
    public List<String> awaitMembers(String group, int count) {
        List<String> members = new ArrayList<>();
        await(group, "members", Map.of("count", count)).forEach(one -> members.add(one.asText()));
        return members;
    }

    /** How many partitions each member owns, once there are so many and everybody has what it is to have. */
    public Map<String, Integer> awaitStable(String group, int members) {
        Map<String, Integer> owned = new HashMap<>();
        for (JsonNode member : await(group, "stable", Map.of("members", members)).path("members")) {
            int partitions = 0;
            for (JsonNode topic : member.path("owned")) {
                partitions += topic.size();
            }
            owned.put(member.path("member_id").asText(), partitions);
        }
        return owned;
    }

    /** Until the partition's offset is there or beyond. */
    public void awaitCommitted(String group, String topic, int partition, long offset) {
        await(group, "committed", Map.of("topic", topic, "partition", partition, "offset", offset));
    }

    /** The group's offsets by "topic-partition". */
    public Map<String, Long> committed(String group) {
        Map<String, Long> offsets = new TreeMap<>();
        for (JsonNode one : get("/control/groups/" + encoded(group) + "/offsets")) {
            offsets.put(one.path("topic").asText() + "-" + one.path("partition").asInt(), one.path("offset").asLong());
        }
        return offsets;
    }

    /** Sets configs of a share group, which need not exist yet. */
    public void configureShare(String group, Map<String, String> config) {
        post(share(group) + "/configs", Map.of("config", config));
    }

    /** Until "acquired", "acknowledged", "released" or "archived" is true of so many records of a share group. */
    public JsonNode awaitShare(String group, String until, int count) {
        Map<String, Object> body = Map.of("until", until, "count", count, "timeout", PATIENCE_S);
        return post(share(group) + "/wait", body).path("result");
    }

    /** What became of one record of a share group: its state, delivery_count, and why. */
    public JsonNode shareRecord(String group, String topic, int partition, long offset) {
        return get(share(group) + "/records/" + encoded(topic) + "/" + partition + "/" + offset);
    }

    private static String share(String group) {
        return "/control/share-groups/" + encoded(group);
    }

    /** Makes the coordinator misbehave: {@code Map.of("action", "error", "api", "OffsetCommit", "code", ...)}. */
    public Fault fault(Map<String, Object> given) {
        return new Fault(post("/control/faults", given).path("id").asInt());
    }

    /** Sets an incident up: "zombie_member", "coordinator_failover" and so on. */
    public List<Fault> recipe(String name, Map<String, Object> given) {
        return faults(post("/control/recipes/" + name, given));
    }

    /**
     * So many requests of the group are answered with NOT_COORDINATOR, and as many searches for the coordinator
     * with COORDINATOR_NOT_AVAILABLE.
     */
    public List<Fault> moveCoordinator(String group, int count) {
        return faults(post("/control/coordinator/move", Map.of("group", group, "count", count)));
    }

    private List<Fault> faults(JsonNode incident) {
        List<Fault> faults = new ArrayList<>();
        incident.path("faults").forEach(number -> faults.add(new Fault(number.asInt())));
        return faults;
    }

    /** A fault that was added. */
    public final class Fault {
        private final String path;

        private Fault(int number) {
            path = "/control/faults/" + number;
        }

        /** Until it was hit so often. */
        public void await(int hits) {
            post(path + "/wait", Map.of("hits", hits, "timeout", PATIENCE_S));
        }

        /** How many requests it took. */
        public int hits() {
            return get(path).path("hits").asInt();
        }

        /** Lets go what it holds, and ends it. */
        public void release() {
            post(path + "/release", Map.of());
        }
    }

    /** Asks for a path of the control API. */
    public JsonNode get(String path) {
        return ask(HttpRequest.newBuilder(URI.create(url + path)).GET());
    }

    /** Calls a path of the control API. */
    public JsonNode post(String path, Map<String, ?> body) {
        try {
            return ask(HttpRequest.newBuilder(URI.create(url + path))
                    .header("Content-Type", "application/json")
                    .POST(HttpRequest.BodyPublishers.ofString(JSON.writeValueAsString(body))));
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }

    private JsonNode ask(HttpRequest.Builder request) {
        try {
            HttpResponse<String> reply = HTTP.send(
                    request.timeout(Duration.ofSeconds(2 * PATIENCE_S)).build(), HttpResponse.BodyHandlers.ofString());
            if (reply.statusCode() != 200) {
                throw new AssertionError(reply.uri().getPath() + ": " + reply.body());
            }
            return JSON.readTree(reply.body());
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
            throw new IllegalStateException(error);
        }
    }

    private static String encoded(String text) {
        return URLEncoder.encode(text, StandardCharsets.UTF_8).replace("+", "%20");
    }
}
