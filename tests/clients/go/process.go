package main

import (
	"context"
	"errors"
	"flag"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// processor is a worker that reads, processes and writes exactly once, with franz-go's GroupTransactSession.
// The command line and the events are those of tests/clients/drivers/confluent_processor.py.
type processor struct {
	bootstrap, group, source, target, protocol, assignor, transactionalID string
	sessionTimeoutMs, transactionTimeoutMs, records, workMs               int

	lock  sync.Mutex
	owned map[int32]bool
}

// say writes an event; a processor has no member number.
func say(event string, fields map[string]any) {
	line := map[string]any{"event": event}
	for name, value := range fields {
		line[name] = value
	}
	writeLine(line)
}

func runProcessor(arguments []string) {
	made := &processor{}
	flags := flag.NewFlagSet("franz-process", flag.ExitOnError)
	flags.StringVar(&made.bootstrap, "bootstrap", "", "HOST:PORT,...")
	flags.StringVar(&made.group, "group", "", "group id")
	flags.StringVar(&made.source, "source", "", "topic to read")
	flags.StringVar(&made.target, "target", "", "topic to write")
	flags.StringVar(&made.protocol, "protocol", "consumer", "classic or consumer")
	flags.StringVar(&made.transactionalID, "transactional-id", "", "transactional id")
	flags.IntVar(&made.sessionTimeoutMs, "session-timeout-ms", 6000, "classic only")
	flags.IntVar(&made.transactionTimeoutMs, "transaction-timeout-ms", 60000, "of the transactional id")
	flags.IntVar(&made.records, "records", 25, "most of a transaction")
	flags.IntVar(&made.workMs, "work-ms", 0, "twice of it between producing and the end of a transaction")
	flags.StringVar(&made.assignor, "assignor", "", "classic only; range if empty")
	_ = flags.Parse(arguments) // ExitOnError
	stop, stopping := context.WithCancel(context.Background())
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM)
	go func() {
		<-signals
		stopping()
	}()
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		stopping()
	}()
	for stop.Err() == nil {
		if err := made.live(stop); err != nil {
			say("anew", map[string]any{"error": err.Error()})
			time.Sleep(200 * time.Millisecond)
		}
	}
	say("closed", nil)
}

func (p *processor) settings() []kgo.Opt {
	settings := []kgo.Opt{
		kgo.SeedBrokers(strings.Split(p.bootstrap, ",")...),
		kgo.ConsumerGroup(p.group),
		kgo.ConsumeTopics(p.source),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.FetchMaxWait(500 * time.Millisecond),
		kgo.RetryBackoffFn(func(int) time.Duration { return 100 * time.Millisecond }),
		kgo.TransactionalID(p.transactionalID),
		kgo.TransactionTimeout(time.Duration(p.transactionTimeoutMs) * time.Millisecond),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.OnPartitionsAssigned(p.change(true)),
		kgo.OnPartitionsRevoked(p.change(false)),
		kgo.OnPartitionsLost(p.change(false)),
	}
	if p.protocol == "consumer" {
		return append(settings, kgo.ServerSideBalancer())
	}
	return append(
		settings,
		kgo.Balancers(franzBalancers[p.assignor]()),
		kgo.SessionTimeout(time.Duration(p.sessionTimeoutMs)*time.Millisecond),
		kgo.HeartbeatInterval(300*time.Millisecond))
}

func (p *processor) change(owns bool) func(context.Context, *kgo.Client, map[string][]int32) {
	return func(_ context.Context, _ *kgo.Client, partitions map[string][]int32) {
		p.lock.Lock()
		defer p.lock.Unlock()
		for _, number := range partitions[p.source] {
			if owns {
				p.owned[number] = true
			} else {
				delete(p.owned, number)
			}
		}
		owned := []int32{}
		for number := range p.owned {
			owned = append(owned, number)
		}
		slices.Sort(owned)
		say("assignment", map[string]any{"owned": owned})
	}
}

// live is one session, until told to stop or until something happens that it does not recover from.
func (p *processor) live(stop context.Context) error {
	p.owned = map[int32]bool{}
	session, err := kgo.NewGroupTransactSession(p.settings()...)
	if err != nil {
		return err
	}
	defer session.Close()
	for stop.Err() == nil {
		deadline, cancel := context.WithTimeout(stop, pollTime)
		fetches := session.PollRecords(deadline, p.records)
		cancel()
		fetches.EachError(func(_ string, _ int32, err error) {
			if !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, context.Canceled) {
				say("error", map[string]any{"error": err.Error()})
			}
		})
		if fetches.NumRecords() > 0 {
			if err := p.process(session, fetches); err != nil {
				return err
			}
		}
	}
	return nil
}

func (p *processor) process(session *kgo.GroupTransactSession, fetches kgo.Fetches) error {
	if err := session.Begin(); err != nil {
		return err
	}
	background := context.Background()
	promise := kgo.AbortingFirstErrPromise(session.Client())
	fetches.EachRecord(func(record *kgo.Record) {
		copied := &kgo.Record{Topic: p.target, Partition: record.Partition, Value: record.Value}
		session.Produce(background, copied, promise.Promise())
	})
	failed := promise.Err()
	say("offsets", nil) // nearly: End sends them
	time.Sleep(2 * time.Duration(p.workMs) * time.Millisecond)
	committed, err := session.End(background, kgo.TransactionEndTry(failed == nil))
	if err != nil {
		return err
	}
	if committed {
		say("committed", map[string]any{"records": fetches.NumRecords()})
		return nil
	}
	reason := "the group has changed"
	if failed != nil {
		reason = failed.Error()
	}
	say("aborted", map[string]any{"records": fetches.NumRecords(), "error": reason})
	return nil
}
