// franz-go; the group protocol is "consumer" (KIP-848) or "classic".
package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

func main() {
	bootstrap, protocol := "127.0.0.1:9092", "consumer"
	if len(os.Args) > 2 {
		bootstrap, protocol = os.Args[1], os.Args[2]
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	options := []kgo.Opt{
		kgo.SeedBrokers(bootstrap),
		kgo.ConsumerGroup("billing-go-" + protocol),
		kgo.ConsumeTopics("orders"),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.DisableAutoCommit(),
	}
	if protocol == "consumer" {
		options = append(options, kgo.ServerSideBalancer())
	}
	client, err := kgo.NewClient(options...)
	if err != nil {
		panic(err)
	}
	defer client.Close()

	for number := range 10 {
		record := &kgo.Record{Topic: "orders", Value: fmt.Appendf(nil, "order %d", number)}
		if err := client.ProduceSync(ctx, record).FirstErr(); err != nil {
			panic(err)
		}
	}
	for seen := 0; seen < 10; {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			panic(err)
		}
		fetches.EachRecord(func(record *kgo.Record) {
			fmt.Println(record.Partition, record.Offset, string(record.Value))
			seen++
		})
	}
	if err := client.CommitUncommittedOffsets(ctx); err != nil {
		panic(err)
	}
}
