package billing;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import groupd.Groupd;
import java.io.IOException;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

/** On good days and on bad ones. The coordinator's time stands still unless a test moves it. */
@Timeout(60)
class ProcessorTest {
    private static final int PARTITIONS = 6;
    private static final Duration SESSION = Duration.ofSeconds(45);
    private static final Duration SOON = Duration.ofMillis(100);
    private static final Duration NEVER = Duration.ofHours(1);

    private final Deque<AutoCloseable> opened = new ArrayDeque<>();
    private Groupd groupd;

    @BeforeEach
    void start() {
        groupd = Groupd.start("orders:" + PARTITIONS, "invoices:1", "orders-rejected:1");
        opened.push(groupd);
        groupd.freeze();
    }

    @AfterEach
    void closeAll() throws Exception {
        while (!opened.isEmpty()) {
            opened.pop().close();
        }
    }

    /** A processor on a thread. {@code charged}: how often each order was. */
    private final class Worker implements AutoCloseable {
        final Map<String, Integer> charged = new ConcurrentHashMap<>();
        final Processor processor;
        private final CompletableFuture<Void> running;

        Worker(Duration commitInterval, Runnable onCharge) {
            processor = new Processor(
                    groupd.servers(),
                    order -> {
                        charged.merge(order.id(), 1, Integer::sum);
                        onCharge.run();
                    },
                    commitInterval);
            running = CompletableFuture.runAsync(processor, task -> new Thread(task, "worker").start());
            opened.push(this);
        }

        Worker() {
            this(SOON, () -> {});
        }

        @Override
        public void close() {
            processor.stop();
            running.join(); // what went wrong there goes wrong here
        }
    }

    /** The program as a process of its own. */
    private Process startProcess() throws IOException {
        String java = ProcessHandle.current().info().command().orElse("java");
        Process process = new ProcessBuilder(
                        java, "-cp", System.getProperty("java.class.path"), "billing.Main", groupd.servers())
                .redirectOutput(ProcessBuilder.Redirect.DISCARD)
                .redirectError(ProcessBuilder.Redirect.DISCARD)
                .start();
        opened.push(() -> kill(process));
        return process;
    }

    private static void kill(Process process) throws InterruptedException {
        process.destroyForcibly().waitFor();
    }

    private void produce(int from, int to) {
        List<Groupd.Record> records = new ArrayList<>();
        for (int number = from; number < to; number++) {
            String value = "{\"id\": \"order-" + number + "\", \"cents\": 100}";
            records.add(new Groupd.Record(value, number % PARTITIONS));
        }
        groupd.produce("orders", records);
    }

    /** Until so many orders of each partition are committed. */
    private void awaitCommitted(int each) {
        for (int partition = 0; partition < PARTITIONS; partition++) {
            groupd.awaitCommitted("billing", "orders", partition, each);
        }
    }

    /** How often each order was. */
    private Map<String, Integer> billed() {
        Map<String, Integer> found = new TreeMap<>();
        groupd.records("invoices").forEach(invoice -> found.merge(invoice.key(), 1, Integer::sum));
        return found;
    }

    private static void assertOnce(int orders, Map<String, Integer> found) {
        assertEquals(orders, found.size());
        assertEquals(Set.of(1), Set.copyOf(found.values()));
    }

    @Test
    void ordersAreBilledAndCommitted() {
        produce(0, 60);
        new Worker();
        awaitCommitted(10);
        assertOnce(60, billed());
    }

    @Test
    void aBadOrderDoesNotHoldUpTheOthers() {
        groupd.produce("orders", List.of(
                new Groupd.Record("{\"id\": \"order-7\"}", 0),
                new Groupd.Record("{\"id\": \"order-8\", \"cents\": 100}", 0)));
        new Worker();
        groupd.awaitCommitted("billing", "orders", 0, 2);
        assertOnce(1, billed());
        assertEquals(
                List.of(new Groupd.Record("no positive number of cents", "orders-0@0", 0)),
                groupd.records("orders-rejected"));
    }

    @Test
    void aCrashBeforeTheCommitLosesNoOrder() throws Exception {
        produce(0, 60);
        var commit = groupd.fault(Map.of("action", "hold", "api", "OffsetCommit", "group", "billing", "count", 1));
        Process victim = startProcess();
        commit.await(1); // billed; the commit dies with it
        kill(victim);
        assertEquals(Map.of(), groupd.committed("billing"));
        Map<String, Integer> before = billed();
        assertFalse(before.isEmpty());
        new Worker();
        groupd.awaitMembers("billing", 2);
        groupd.advance(SESSION); // the session of the dead one ends
        awaitCommitted(10);
        Map<String, Integer> after = billed();
        assertEquals(60, after.size());
        after.forEach((order, times) -> assertEquals(1 + before.getOrDefault(order, 0), times, order));
    }

    @Test
    void partitionsOfAKilledProcessMove() throws Exception {
        Worker survivor = new Worker();
        String stays = groupd.awaitMembers("billing", 1).get(0);
        Process victim = startProcess();
        groupd.awaitMembers("billing", 2);
        groupd.awaitStable("billing", 2);
        kill(victim);
        groupd.advance(SESSION);
        assertEquals(Map.of(stays, PARTITIONS), groupd.awaitStable("billing", 1));
        produce(0, 12);
        awaitCommitted(2);
        assertOnce(12, survivor.charged);
    }

    @Test
    void noOrderIsDoneTwiceInARebalance() throws Exception {
        produce(0, 60);
        CountDownLatch busy = new CountDownLatch(1);
        CountDownLatch goOn = new CountDownLatch(1);
        Worker first = new Worker(NEVER, () -> { // it commits only what it must give up
            busy.countDown();
            uninterrupted(goOn);
        });
        opened.push(goOn::countDown);
        busy.await();
        Worker second = new Worker(NEVER, () -> {});
        groupd.awaitMembers("billing", 2);
        assertEquals(Map.of(), groupd.committed("billing"));
        assertEquals(Map.of(), second.charged, "all partitions are still with the first");
        goOn.countDown();
        groupd.awaitStable("billing", 2);
        produce(60, 120);
        first.close();
        second.close();
        new Worker();
        awaitCommitted(20);
        assertOnce(120, billed());
    }

    private static void uninterrupted(CountDownLatch latch) {
        try {
            latch.await();
        } catch (InterruptedException error) {
            throw new IllegalStateException(error);
        }
    }

    @Test
    void aZombieCommitsNothing() {
        Worker zombie = new Worker();
        String member = groupd.awaitMembers("billing", 1).get(0);
        new Worker();
        groupd.awaitMembers("billing", 2);
        groupd.awaitStable("billing", 2);
        produce(0, 6);
        awaitCommitted(1); // both are at work
        // It hung for longer than its session, and still believes to have its partitions.
        var incident = groupd.recipe("zombie_member", Map.of("group", "billing", "member", member));
        groupd.awaitStable("billing", 1);
        produce(6, 60);
        awaitCommitted(10); // by the other one: nothing of the zombie gets through
        incident.get(0).await(2); // its heartbeat and its commit
        incident.get(0).release(); // they come too late
        groupd.awaitStable("billing", 2);
        assertTrue(zombie.processor.refused() >= 1);
        assertEquals(60, billed().size());
    }

    @ParameterizedTest
    @ValueSource(booleans = {true, false})
    void theCoordinatorDiesInTheMiddleOfACommit(boolean applied) {
        var incident = groupd.recipe("coordinator_failover", Map.of("group", "billing", "applied", applied));
        produce(0, 60);
        new Worker();
        awaitCommitted(10);
        assertEquals(1, incident.get(0).hits());
        assertEquals(60, billed().size());
    }

    @Test
    void theCoordinatorMoves() {
        new Worker();
        groupd.awaitStable("billing", 1);
        var moves = groupd.moveCoordinator("billing", 2);
        produce(0, 60);
        awaitCommitted(10);
        moves.get(0).await(2);
        assertOnce(60, billed());
    }

    /** What kafka-clients does about single faults. */
    @ParameterizedTest
    @CsvSource({
        "error, OffsetCommit, COORDINATOR_LOAD_IN_PROGRESS",
        "close, OffsetCommit,",
        "close, heartbeat,",
        "error, FindCoordinator, COORDINATOR_NOT_AVAILABLE",
    })
    void faultsThatTheClientGetsOver(String action, String api, String code) {
        Map<String, Object> given = new TreeMap<>(Map.of("action", action, "api", api, "count", 2));
        if (code != null) {
            given.put("code", code);
        }
        var fault = groupd.fault(given);
        produce(0, 60);
        new Worker();
        awaitCommitted(10);
        fault.await(2);
        assertOnce(60, billed());
    }
}
