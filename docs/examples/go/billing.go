// Package billing bills orders: it reads them from Kafka, charges, and writes invoices to a topic.
//
// Every order is billed at least once, and a second time does no harm: a batch is committed only when its
// invoices are in the topic, and an invoice has the order's id as its key and always the same content, so that
// whoever reads it knows an order that was billed again after a crash.
package billing

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	group    = "billing"
	orders   = "orders"
	invoices = "invoices"
	rejected = "orders-rejected"
	batch    = 100
)

// Order is what a record of the topic orders says.
type Order struct {
	ID    string `json:"id"`
	Cents int    `json:"cents"`
}

// Parse returns an order, or why it cannot be billed, now or later.
func Parse(data []byte) (Order, error) {
	var order Order
	if err := json.Unmarshal(data, &order); err != nil {
		return order, errors.New("not an order in JSON")
	}
	if order.ID == "" {
		return order, errors.New("no id")
	}
	if order.Cents <= 0 {
		return order, errors.New("no positive number of cents")
	}
	return order, nil
}

// Processor is one instance of the program.
type Processor struct {
	client  *kgo.Client
	charge  func(context.Context, Order) error
	refused atomic.Int32
}

// New makes an instance. charge takes the money for one order; it may be called again for an order whose charge
// succeeded just before a crash, so it passes the order's id on as its idempotency key.
func New(servers string, charge func(context.Context, Order) error) (*Processor, error) {
	client, err := kgo.NewClient(
		kgo.SeedBrokers(servers),
		kgo.ConsumerGroup(group),
		kgo.ServerSideBalancer(), // the consumer protocol of KIP-848
		kgo.ConsumeTopics(orders),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.DisableAutoCommit(),
		kgo.BlockRebalanceOnPoll(), // nobody gets a partition before the batch in hand is committed
		// By default a connection that is closed before its first answer is an error for good: the settings are
		// taken to be wrong. It happens to right ones, too, while a broker is restarted.
		kgo.AlwaysRetryEOF(),
	)
	if err != nil {
		return nil, err
	}
	return &Processor{client: client, charge: charge}, nil
}

// Refused is how many commits came too late: somebody else had the partitions already.
func (p *Processor) Refused() int { return int(p.refused.Load()) }

// Run works until ctx ends, and then leaves the group; or until something fails for good.
func (p *Processor) Run(ctx context.Context) error {
	defer p.client.CloseAllowingRebalance()
	for {
		fetches := p.client.PollRecords(ctx, batch)
		if ctx.Err() != nil {
			return nil
		}
		fetches.EachError(func(topic string, partition int32, err error) {
			log.Printf("kafka: %s-%d: %v", topic, partition, err)
		})
		// A batch is finished also when ctx ends in the middle of it.
		if err := p.bill(context.WithoutCancel(ctx), fetches.Records()); err != nil {
			return err
		}
		p.client.AllowRebalance()
	}
}

func (p *Processor) bill(ctx context.Context, records []*kgo.Record) error {
	if len(records) == 0 {
		return nil
	}
	var written []*kgo.Record
	for _, record := range records {
		order, err := Parse(record.Value)
		if err != nil {
			place := fmt.Sprintf("%s-%d@%d", record.Topic, record.Partition, record.Offset)
			written = append(written, &kgo.Record{Topic: rejected, Key: []byte(place), Value: []byte(err.Error())})
			continue
		}
		if err := p.charge(ctx, order); err != nil {
			return fmt.Errorf("charging %s: %w", order.ID, err)
		}
		invoice, err := json.Marshal(order)
		if err != nil {
			return err
		}
		written = append(written, &kgo.Record{Topic: invoices, Key: []byte(order.ID), Value: invoice})
	}
	if err := p.client.ProduceSync(ctx, written...).FirstErr(); err != nil {
		return err
	}
	return p.commit(ctx, records)
}

// commit leaves retries to the client, which knows what can be tried again.
func (p *Processor) commit(ctx context.Context, records []*kgo.Record) error {
	err := p.client.CommitRecords(ctx, records...)
	for _, fenced := range []error{
		kerr.UnknownMemberID, kerr.IllegalGeneration, kerr.StaleMemberEpoch, kerr.FencedMemberEpoch, kerr.FencedInstanceID,
	} {
		if errors.Is(err, fenced) {
			p.refused.Add(1)
			log.Printf("somebody else has our partitions: %v", err)
			return nil
		}
	}
	return err
}
