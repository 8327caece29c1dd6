package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

const shareCommitTime = 20 * time.Second

var ackStatuses = map[string]kgo.AckStatus{
	"accept": kgo.AckAccept, "release": kgo.AckRelease, "reject": kgo.AckReject, "renew": kgo.AckRenew,
}

type shareCommand struct {
	Do, As  string
	Seconds float64
	Topics  []string
	Records [][]any
}

type shareMember struct {
	client *kgo.Client
	polled map[string]*kgo.Record // what may be acknowledged, by its place
	accept bool                   // whether commit accepts what is not marked
	lock   sync.Mutex
	told   map[Partition]error // results of acknowledgements since the last commit
}

func placeName(topic, partition, offset any) string {
	return fmt.Sprintf("%v/%v/%v", topic, partition, offset)
}

func newShareMember(arguments []string) (*shareMember, error) {
	var bootstrap, group, clientID, topics, ack, acquire string
	var maxRecords int
	flags := flag.NewFlagSet("share", flag.ExitOnError)
	flags.StringVar(&bootstrap, "bootstrap", "", "HOST:PORT,...")
	flags.StringVar(&group, "group", "", "group id")
	flags.StringVar(&clientID, "client-id", "", "client id")
	flags.StringVar(&topics, "topics", "", "names, comma-separated")
	flags.StringVar(&ack, "ack", "explicit", "implicit or explicit; franz-go accepts what is not marked at the next poll either way")
	flags.StringVar(&acquire, "acquire", "batch_optimized", "batch_optimized or record_limit")
	flags.IntVar(&maxRecords, "max-records", 500, "records of one fetch")
	_ = flags.Parse(arguments) // ExitOnError
	made := &shareMember{polled: map[string]*kgo.Record{}, told: map[Partition]error{}, accept: ack == "implicit"}
	settings := []kgo.Opt{
		kgo.SeedBrokers(strings.Split(bootstrap, ",")...),
		kgo.ClientID(clientID),
		kgo.ShareGroup(group),
		kgo.ConsumeTopics(strings.Split(topics, ",")...),
		kgo.ShareMaxRecords(int32(maxRecords)),
		kgo.ShareAckCallback(made.tell),
		kgo.MetadataMaxAge(time.Second),
		kgo.MetadataMinAge(100 * time.Millisecond),
		kgo.RetryBackoffFn(func(int) time.Duration { return 100 * time.Millisecond }),
		// Else a connection that a killed broker closes before its first answer ends the client for good.
		kgo.AlwaysRetryEOF(),
		// One fetch a poll: a test must know which records a member holds.
		kgo.MaxConcurrentFetches(0),
	}
	if acquire == "record_limit" {
		settings = append(settings, kgo.ShareMaxRecordsStrict())
	}
	client, err := kgo.NewClient(settings...)
	made.client = client
	return made, err
}

func (s *shareMember) tell(_ *kgo.Client, results kgo.ShareAckResults) {
	s.lock.Lock()
	defer s.lock.Unlock()
	for _, result := range results {
		at := Partition{result.Topic, result.Partition}
		s.told[at] = errors.Join(s.told[at], result.Err)
	}
}

func (s *shareMember) carryOut(command shareCommand) (map[string]any, error) {
	switch command.Do {
	case "poll":
		records, err := s.poll(time.Duration(command.Seconds * float64(time.Second)))
		return map[string]any{"event": "records", "records": records}, err
	case "acknowledge":
		for _, at := range command.Records {
			record := s.polled[placeName(at[0], at[1], at[2])]
			if record == nil {
				return nil, fmt.Errorf("not polled: %v", at)
			}
			record.Ack(ackStatuses[command.As])
		}
		return map[string]any{"event": "acknowledged"}, nil
	case "commit":
		results, err := s.commit()
		return map[string]any{"event": "committed", "results": results}, err
	case "close":
		// Close alone would wait for nothing of the broker.
		deadline, cancel := context.WithTimeout(context.Background(), shareCommitTime)
		defer cancel()
		err := s.client.LeaveGroupContext(deadline)
		s.client.Close()
		return map[string]any{"event": "closed"}, err
	}
	return nil, fmt.Errorf("unknown command: %+v", command)
}

func (s *shareMember) poll(wait time.Duration) ([][]any, error) {
	deadline, cancel := context.WithTimeout(context.Background(), wait)
	defer cancel()
	fetches := s.client.PollRecords(deadline, -1)
	found := [][]any{}
	clear(s.polled)
	fetches.EachRecord(func(record *kgo.Record) {
		found = append(found, []any{record.Topic, record.Partition, record.Offset, record.DeliveryCount()})
		s.polled[placeName(record.Topic, record.Partition, record.Offset)] = record
	})
	var failures []error
	fetches.EachError(func(_ string, _ int32, err error) {
		if !errors.Is(err, context.DeadlineExceeded) {
			failures = append(failures, err)
		}
	})
	return found, errors.Join(failures...)
}

func (s *shareMember) commit() ([][]any, error) {
	deadline, cancel := context.WithTimeout(context.Background(), shareCommitTime)
	defer cancel()
	if s.accept {
		s.client.MarkAcks(kgo.AckAccept)
	}
	err := s.client.FlushAcks(deadline)
	s.lock.Lock()
	defer s.lock.Unlock()
	results := [][]any{}
	for at, failure := range s.told {
		var shown any
		if failure != nil {
			shown = failure.Error()
		}
		results = append(results, []any{at.Topic, at.Number, shown})
	}
	clear(s.told)
	return results, err
}

// runShareMember runs one member of a share group that does what stdin says. The command line, the commands and the
// answers are those of tests/clients/drivers/confluent_share_driver.py.
func runShareMember(arguments []string) {
	member, err := newShareMember(arguments)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<24)
	for lines.Scan() {
		var command shareCommand
		decoder := json.NewDecoder(strings.NewReader(lines.Text()))
		decoder.UseNumber()
		answer, err := map[string]any(nil), decoder.Decode(&command)
		if err == nil {
			answer, err = member.carryOut(command)
		}
		if err != nil {
			answer = map[string]any{"event": "error", "error": err.Error()}
		}
		writeLine(answer)
		if command.Do == "close" {
			return
		}
	}
	os.Exit(1) // The test is gone: no goodbye.
}
