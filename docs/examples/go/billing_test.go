package billing

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"

	"example.com/billing/groupdtest"
)

const (
	partitions = 6
	session    = 45 * time.Second
)

type given = groupdtest.JSON

// TestMain makes the test program the billing program when a test starts it as such, to kill it.
func TestMain(m *testing.M) {
	if servers := os.Getenv("BILLING_SERVERS"); servers != "" {
		processor, err := New(servers, func(context.Context, Order) error { return nil })
		if err == nil {
			err = processor.Run(context.Background())
		}
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// start starts a broker whose time stands still.
func start(t *testing.T) *groupdtest.Groupd {
	g := groupdtest.Start(t, fmt.Sprintf("orders:%d", partitions), "invoices:1", "orders-rejected:1")
	g.Freeze()
	return g
}

// worker is a processor on a goroutine. charged: how often each order was.
type worker struct {
	*Processor
	lock    sync.Mutex
	charged map[string]int
	stop    func()
}

func work(t *testing.T, g *groupdtest.Groupd, charge func()) *worker {
	t.Helper()
	made := &worker{charged: map[string]int{}}
	processor, err := New(g.Servers, func(_ context.Context, order Order) error {
		made.lock.Lock()
		made.charged[order.ID]++
		made.lock.Unlock()
		charge()
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	made.Processor = processor
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- processor.Run(ctx) }()
	made.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(made.stop)
	return made
}

func (w *worker) orders() map[string]int {
	w.lock.Lock()
	defer w.lock.Unlock()
	found := map[string]int{}
	for order, times := range w.charged {
		found[order] = times
	}
	return found
}

func nothing() {}

// startProcess starts the program as a process of its own.
func startProcess(t *testing.T, g *groupdtest.Groupd) *exec.Cmd {
	t.Helper()
	command := exec.Command(os.Args[0])
	command.Env = append(os.Environ(), "BILLING_SERVERS="+g.Servers)
	command.Stderr = os.Stderr
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { kill(command) })
	return command
}

func kill(command *exec.Cmd) {
	_ = command.Process.Kill()
	_ = command.Wait()
}

func produce(g *groupdtest.Groupd, from, to int) {
	var records []groupdtest.Record
	for number := from; number < to; number++ {
		partition := int32(number % partitions)
		value := fmt.Sprintf(`{"id": "order-%d", "cents": 100}`, number)
		records = append(records, groupdtest.Record{Value: value, Partition: &partition})
	}
	g.Produce("orders", records...)
}

// waitCommitted waits until so many orders of each partition are committed.
func waitCommitted(g *groupdtest.Groupd, each int) {
	for partition := range partitions {
		g.WaitCommitted("billing", "orders", partition, each)
	}
}

// billed is how often each order was.
func billed(g *groupdtest.Groupd) map[string]int {
	found := map[string]int{}
	for _, invoice := range g.Records("invoices") {
		found[invoice.Key]++
	}
	return found
}

func wantOnce(t *testing.T, found map[string]int, orders int) {
	t.Helper()
	if len(found) != orders {
		t.Errorf("%d orders instead of %d", len(found), orders)
	}
	for order, times := range found {
		if times != 1 {
			t.Errorf("%s %d times", order, times)
		}
	}
}

func TestOrdersAreBilledAndCommitted(t *testing.T) {
	g := start(t)
	produce(g, 0, 60)
	work(t, g, nothing)
	waitCommitted(g, 10)
	wantOnce(t, billed(g), 60)
}

func TestABadOrderDoesNotHoldUpTheOthers(t *testing.T) {
	g := start(t)
	first := int32(0)
	g.Produce("orders",
		groupdtest.Record{Value: `{"id": "order-7"}`, Partition: &first},
		groupdtest.Record{Value: `{"id": "order-8", "cents": 100}`, Partition: &first})
	work(t, g, nothing)
	g.WaitCommitted("billing", "orders", 0, 2)
	wantOnce(t, billed(g), 1)
	rejected := g.Records("orders-rejected")
	if len(rejected) != 1 || rejected[0].Key != "orders-0@0" || rejected[0].Value != "no positive number of cents" {
		t.Errorf("rejected: %v", rejected)
	}
}

func TestACrashBeforeTheCommitLosesNoOrder(t *testing.T) {
	g := start(t)
	produce(g, 0, 60)
	commit := g.Fault(given{"action": "hold", "api": "OffsetCommit", "group": "billing", "count": 1})
	victim := startProcess(t, g)
	commit.Wait(1) // billed; the commit dies with it
	kill(victim)
	if offsets := g.Committed("billing"); len(offsets) != 0 {
		t.Fatalf("committed: %v", offsets)
	}
	before := billed(g)
	work(t, g, nothing)
	g.WaitMembers("billing", 2)
	g.Advance(session) // the session of the dead one ends
	waitCommitted(g, 10)
	after := billed(g)
	if len(before) == 0 || len(after) != 60 {
		t.Errorf("%d orders before the crash, %d after it", len(before), len(after))
	}
	for order, times := range after {
		if times != 1+before[order] {
			t.Errorf("%s was billed %d times, %d of them before the crash", order, times, before[order])
		}
	}
}

func TestPartitionsOfAKilledProcessMove(t *testing.T) {
	g := start(t)
	survivor := work(t, g, nothing)
	stays := g.WaitMembers("billing", 1)[0]
	victim := startProcess(t, g)
	g.WaitStable("billing", 2)
	kill(victim)
	g.Advance(session)
	if owned := g.WaitStable("billing", 1)[stays]["orders"]; len(owned) != partitions {
		t.Fatalf("the survivor owns %v", owned)
	}
	produce(g, 0, 12)
	waitCommitted(g, 2)
	wantOnce(t, survivor.orders(), 12)
}

func TestNoOrderIsDoneTwiceInARebalance(t *testing.T) {
	g := start(t)
	produce(g, 0, 60)
	busy, goOn := make(chan struct{}), make(chan struct{})
	tell := sync.OnceFunc(func() { close(busy) })
	release := sync.OnceFunc(func() { close(goOn) })
	first := work(t, g, func() { tell(); <-goOn })
	t.Cleanup(release)
	<-busy
	second := work(t, g, nothing)
	g.WaitMembers("billing", 2)
	heartbeats := g.Fault(given{"action": "delay", "api": "heartbeat", "ms": 0}) // to count them
	heartbeats.Wait(20)                                                          // it has long been asked for partitions
	if len(g.Committed("billing")) != 0 || len(second.orders()) != 0 {
		t.Error("all partitions should be with the first one still")
	}
	release()
	g.WaitStable("billing", 2)
	produce(g, 60, 120)
	waitCommitted(g, 20)
	if len(first.orders()) == 0 || len(second.orders()) == 0 {
		t.Errorf("one has done nothing: %d and %d", len(first.orders()), len(second.orders()))
	}
	wantOnce(t, billed(g), 120)
}

func TestAZombieCommitsNothing(t *testing.T) {
	g := start(t)
	zombie := work(t, g, nothing)
	member := g.WaitMembers("billing", 1)[0]
	work(t, g, nothing)
	g.WaitStable("billing", 2)
	produce(g, 0, 6)
	waitCommitted(g, 1) // both are at work
	// It hung for longer than its session, and still believes to have its partitions.
	incident := g.Recipe("zombie_member", given{"group": "billing", "member": member})
	g.WaitStable("billing", 1)
	produce(g, 6, 60)
	waitCommitted(g, 10)  // by the other one: nothing of the zombie gets through
	incident[0].Wait(2)   // its heartbeat and its commit
	incident[0].Release() // they come too late
	g.WaitStable("billing", 2)
	if zombie.Refused() == 0 {
		t.Error("its commit was not refused")
	}
	if found := billed(g); len(found) != 60 {
		t.Errorf("%d orders were billed", len(found))
	}
}

func TestTheCoordinatorDiesInTheMiddleOfACommit(t *testing.T) {
	for _, applied := range []bool{true, false} {
		t.Run(fmt.Sprintf("applied=%t", applied), func(t *testing.T) {
			g := start(t)
			incident := g.Recipe("coordinator_failover", given{"group": "billing", "applied": applied})
			produce(g, 0, 60)
			work(t, g, nothing)
			waitCommitted(g, 10)
			if hits := incident[0].Hits(); hits != 1 {
				t.Errorf("%d commits met the failure", hits)
			}
			if found := billed(g); len(found) != 60 {
				t.Errorf("%d orders were billed", len(found))
			}
		})
	}
}

// What franz-go does about single faults.
func TestFaultsThatTheClientGetsOver(t *testing.T) {
	faults := map[string]given{
		"an error code":          {"action": "error", "api": "OffsetCommit", "code": "COORDINATOR_LOAD_IN_PROGRESS", "count": 2},
		"a closed connection":    {"action": "close", "api": "OffsetCommit", "count": 2},
		"lost heartbeats":        {"action": "close", "api": "heartbeat", "skip": 1, "count": 2},
		"an unknown coordinator": {"action": "error", "api": "FindCoordinator", "code": "COORDINATOR_NOT_AVAILABLE", "count": 2},
	}
	for name, fault := range faults {
		t.Run(name, func(t *testing.T) {
			g := start(t)
			added := g.Fault(fault)
			produce(g, 0, 60)
			work(t, g, nothing)
			waitCommitted(g, 10)
			added.Wait(2)
			wantOnce(t, billed(g), 60)
		})
	}
}

func TestTheCoordinatorMoves(t *testing.T) {
	g := start(t)
	work(t, g, nothing)
	g.WaitStable("billing", 1)
	moves := g.MoveCoordinator("billing", 2)
	produce(g, 0, 60)
	waitCommitted(g, 10)
	moves[0].Wait(2)
	wantOnce(t, billed(g), 60)
}

func TestParse(t *testing.T) {
	for data, want := range map[string]string{
		"":                        "not an order in JSON",
		"[]":                      "not an order in JSON",
		`{"cents": 5}`:            "no id",
		`{"id": "a", "cents": 0}`: "no positive number of cents",
	} {
		if _, err := Parse([]byte(data)); err == nil || err.Error() != want {
			t.Errorf("%q: %v instead of %s", data, err, want)
		}
	}
	if order, err := Parse([]byte(`{"id": "a", "cents": 5}`)); err != nil || order != (Order{"a", 5}) {
		t.Errorf("%v, %v", order, err)
	}
}
