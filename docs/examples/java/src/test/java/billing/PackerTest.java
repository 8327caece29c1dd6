package billing;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import groupd.Groupd;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Semaphore;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Workers of a share group. Time stands still unless a test moves it, and so do the locks of orders. */
@Timeout(60)
class PackerTest {
    private static final String GROUP = "packers";
    private static final Duration LOCK = Duration.ofSeconds(30);

    private final Deque<AutoCloseable> opened = new ArrayDeque<>();
    private final Map<String, Integer> packed = new ConcurrentHashMap<>();
    private Groupd groupd;

    @BeforeEach
    void start() {
        groupd = Groupd.start("orders:1");
        opened.push(groupd);
        groupd.freeze();
        // A share group begins at the end of its topics unless it is told otherwise.
        groupd.configureShare(GROUP, Map.of("share.auto.offset.reset", "earliest"));
    }

    @AfterEach
    void closeAll() throws Exception {
        while (!opened.isEmpty()) {
            opened.pop().close();
        }
    }

    /** A worker on a thread. */
    private Packer work(Packer.Pack pack) {
        Packer packer = new Packer(groupd.servers(), pack);
        CompletableFuture<Void> running =
                CompletableFuture.runAsync(packer, task -> new Thread(task, "packer").start());
        opened.push(() -> {
            packer.stop();
            running.join(); // what went wrong there goes wrong here
        });
        return packer;
    }

    private boolean pack(Order order) {
        packed.merge(order.id(), 1, Integer::sum);
        return true;
    }

    private void produce(int count) {
        List<Groupd.Record> records = new ArrayList<>();
        for (int number = 0; number < count; number++) {
            records.add(new Groupd.Record("{\"id\": \"order-" + number + "\", \"cents\": 100}", 0));
        }
        groupd.produce("orders", records);
    }

    private JsonNode first() {
        return groupd.shareRecord(GROUP, "orders", 0, 0);
    }

    @Test
    void twoWorkersShareOnePartition() {
        work(this::pack);
        work(this::pack);
        groupd.awaitMembers(GROUP, 2);
        for (int batch = 0; batch < 10; batch++) {
            produce(10);
        }
        groupd.awaitShare(GROUP, "acknowledged", 100);
        packed.forEach((order, times) -> assertEquals(10, times, order));
        assertEquals(10, packed.size());
    }

    @Test
    void whatIsNoOrderIsRejected() {
        groupd.produce("orders", List.of(new Groupd.Record("not JSON", 0)));
        work(this::pack);
        assertEquals("rejected", groupd.awaitShare(GROUP, "archived", 1).path(0).path("why").asText());
    }

    @Test
    void anOrderThatFailsIsGivenUp() {
        groupd.configureShare(GROUP, Map.of("share.delivery.count.limit", "3"));
        produce(2);
        work(order -> {
            if (order.id().equals("order-0")) {
                throw new IllegalStateException("no box is large enough");
            }
            return pack(order);
        });
        JsonNode given = groupd.awaitShare(GROUP, "archived", 1).path(0);
        assertEquals("delivery limit", given.path("why").asText());
        assertEquals(3, given.path("delivery_count").asInt());
        groupd.awaitShare(GROUP, "acknowledged", 1);
        assertEquals(Map.of("order-1", 1), packed);
    }

    @Test
    void aSlowWorkerLosesItsOrder() throws InterruptedException {
        CountDownLatch slow = new CountDownLatch(1);
        Semaphore begun = new Semaphore(0);
        produce(1);
        Packer late = work(order -> {
            begun.release();
            await(slow);
            return pack(order);
        });
        begun.acquire();
        groupd.recipe("slow_worker", Map.of("group", GROUP));
        assertEquals("available", first().path("state").asText());
        slow.countDown();
        groupd.awaitShare(GROUP, "acknowledged", 1);
        assertEquals(1, late.refused());
        assertEquals(2, first().path("delivery_count").asInt());
        assertEquals(Map.of("order-0", 2), packed);
    }

    @Test
    void anOrderThatTakesLongIsRenewed() throws InterruptedException {
        Semaphore asked = new Semaphore(0);
        CountDownLatch ready = new CountDownLatch(1);
        produce(1);
        Packer patient = work(order -> {
            asked.release();
            return ready.getCount() == 0;
        });
        for (int times = 0; times < 5; times++) {
            asked.drainPermits();
            asked.acquire(2); // the first one may have begun before, so the second one has renewed
            groupd.advance(LOCK.minusSeconds(1));
        }
        ready.countDown();
        groupd.awaitShare(GROUP, "acknowledged", 1);
        assertEquals(1, first().path("delivery_count").asInt());
        assertEquals(0, patient.refused());
    }

    @Test
    void aConnectionIsCutInAnAcknowledgement() {
        Groupd.Fault fault = groupd.fault(
                Map.of("action", "close", "api", "share", "acknowledges", true, "topic", "orders", "count", 1));
        produce(1);
        work(this::pack);
        fault.await(1);
        groupd.awaitShare(GROUP, "acknowledged", 1);
        assertEquals(2, first().path("delivery_count").asInt());
        assertEquals(Map.of("order-0", 2), packed);
    }

    @ParameterizedTest
    @ValueSource(booleans = {true, false})
    void theShareCoordinatorFailsInAnAcknowledgement(boolean applied) throws InterruptedException {
        Semaphore begun = new Semaphore(0);
        CountDownLatch failing = new CountDownLatch(1);
        produce(1);
        Packer packer = work(order -> {
            begun.release();
            await(failing);
            return pack(order);
        });
        begun.acquire();
        groupd.recipe("share_coordinator_failover", Map.of("applied", applied));
        groupd.post("/control/clock", Map.of("mode", 10)); // the broker tries again after a second
        failing.countDown();
        groupd.awaitShare(GROUP, "acknowledged", 1);
        assertEquals(Map.of("order-0", 1), packed);
        assertEquals(0, packer.refused());
    }

    @Test
    void theLeaderFailsBeforeAnAcknowledgement() throws InterruptedException {
        Semaphore begun = new Semaphore(0);
        CountDownLatch failing = new CountDownLatch(1);
        produce(1);
        Packer packer = work(order -> {
            begun.release();
            await(failing);
            return pack(order);
        });
        begun.acquire();
        groupd.recipe("share_leader_failover", Map.of("group", GROUP));
        failing.countDown();
        groupd.awaitShare(GROUP, "acknowledged", 1);
        assertTrue(packer.refused() > 0);
        assertEquals(Map.of("order-0", 2), packed);
    }

    private static void await(CountDownLatch latch) {
        try {
            latch.await();
        } catch (InterruptedException error) {
            throw new IllegalStateException(error);
        }
    }
}
