package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// With ServerSideBalancer the balancer names the server-side assignor: range is "range", sticky is "uniform".
var franzBalancers = map[string]func() kgo.GroupBalancer{
	"":                   kgo.RangeBalancer,
	"range":              kgo.RangeBalancer,
	"roundrobin":         kgo.RoundRobinBalancer,
	"sticky":             kgo.StickyBalancer,
	"cooperative-sticky": kgo.CooperativeStickyBalancer,
	"uniform":            kgo.StickyBalancer,
}

// franz is one franz-go client; its rebalances wait while records are between poll and release.
type franz struct {
	client *kgo.Client
	emit   emitter
	lock   sync.Mutex
	owned  map[Partition]bool
}

func newFranz(options options, emit emitter) (member, error) {
	made := &franz{emit: emit, owned: map[Partition]bool{}}
	settings := []kgo.Opt{
		kgo.SeedBrokers(strings.Split(options.bootstrap, ",")...),
		kgo.ClientID(fmt.Sprintf("franz-%d", options.member)),
		kgo.ConsumerGroup(options.group),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.Balancers(franzBalancers[options.assignor]()),
		kgo.MetadataMaxAge(time.Second),
		kgo.MetadataMinAge(100 * time.Millisecond),
		kgo.FetchMaxWait(500 * time.Millisecond),
		kgo.RetryBackoffFn(func(int) time.Duration { return 100 * time.Millisecond }),
		kgo.BlockRebalanceOnPoll(),
		// Else a connection that a killed broker closes before its first answer ends the client for good.
		kgo.AlwaysRetryEOF(),
		kgo.OnPartitionsAssigned(made.change("assigned", true)),
		kgo.OnPartitionsRevoked(made.change("revoked", false)),
		kgo.OnPartitionsLost(made.change("lost", false)),
	}
	if options.login != nil {
		settings = append(settings, options.login.franz()...)
	}
	if options.protocol == "consumer" {
		settings = append(settings, kgo.ServerSideBalancer())
	} else {
		settings = append(
			settings, kgo.SessionTimeout(options.sessionTimeout), kgo.HeartbeatInterval(300*time.Millisecond))
	}
	if options.pattern != "" {
		settings = append(settings, kgo.ConsumeRegex(), kgo.ConsumeTopics(options.pattern))
	} else {
		settings = append(settings, kgo.ConsumeTopics(options.topics...))
	}
	if options.commit == "auto" {
		settings = append(settings, kgo.AutoCommitInterval(500*time.Millisecond))
	} else {
		settings = append(settings, kgo.DisableAutoCommit())
	}
	if instance := options.instanceID(); instance != "" {
		settings = append(settings, kgo.InstanceID(instance))
	}
	client, err := kgo.NewClient(settings...)
	made.client = client
	return made, err
}

// change is a rebalance callback that keeps `owned` and tells `event`.
func (f *franz) change(event string, owns bool) func(context.Context, *kgo.Client, map[string][]int32) {
	return func(_ context.Context, _ *kgo.Client, partitions map[string][]int32) {
		f.lock.Lock()
		for _, at := range flat(partitions) {
			if owns {
				f.owned[at] = true
			} else {
				delete(f.owned, at)
			}
		}
		f.lock.Unlock()
		f.emit.partitions(event, partitions)
	}
}

func (f *franz) poll() ([]Place, error) {
	deadline, cancel := context.WithTimeout(context.Background(), pollTime)
	defer cancel()
	fetches := f.client.PollRecords(deadline, pollMax)
	var found []Place
	fetches.EachRecord(func(record *kgo.Record) {
		found = append(found, Place{Partition{record.Topic, record.Partition}, record.Offset})
	})
	var failures []error
	fetches.EachError(func(_ string, _ int32, err error) {
		if !errors.Is(err, context.DeadlineExceeded) {
			failures = append(failures, err)
		}
	})
	return found, errors.Join(failures...)
}

func (f *franz) commit(offsets map[Partition]int64) error {
	asked := map[string]map[int32]kgo.EpochOffset{}
	for at, offset := range offsets {
		if asked[at.Topic] == nil {
			asked[at.Topic] = map[int32]kgo.EpochOffset{}
		}
		asked[at.Topic][at.Number] = kgo.EpochOffset{Epoch: -1, Offset: offset}
	}
	var failures []error
	deadline, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	f.client.CommitOffsetsSync(deadline, asked, func(
		_ *kgo.Client, _ *kmsg.OffsetCommitRequest, response *kmsg.OffsetCommitResponse, err error,
	) {
		if err != nil {
			failures = append(failures, err)
			return
		}
		for _, topic := range response.Topics {
			for _, partition := range topic.Partitions {
				if err := kerr.ErrorForCode(partition.ErrorCode); err != nil {
					failures = append(failures, err)
				}
			}
		}
	})
	return errors.Join(failures...)
}

func (f *franz) assignment() []Partition {
	f.lock.Lock()
	defer f.lock.Unlock()
	found := []Partition{}
	for at := range f.owned {
		found = append(found, at)
	}
	return found
}

func (f *franz) release() { f.client.AllowRebalance() }

func (f *franz) close() error {
	f.client.CloseAllowingRebalance()
	return nil
}
