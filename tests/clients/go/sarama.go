package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/IBM/sarama"
)

var saramaBalancers = map[string]func() sarama.BalanceStrategy{
	"":           sarama.NewBalanceStrategyRange,
	"range":      sarama.NewBalanceStrategyRange,
	"roundrobin": sarama.NewBalanceStrategyRoundRobin,
	"sticky":     sarama.NewBalanceStrategySticky,
}

// saramaMember is one sarama consumer group client: classic protocol, no patterns. Each session (a
// generation) has its own queue, so that nothing of a former session is given out.
type saramaMember struct {
	group  sarama.ConsumerGroup
	emit   emitter
	cancel context.CancelFunc
	done   chan struct{}
	busy   sync.Mutex // held between poll and release; the end of a session waits for it
	queue  chan *sarama.ConsumerMessage
	now    sarama.ConsumerGroupSession
	wake   chan struct{}
}

func newSarama(options options, emit emitter) (member, error) {
	config := sarama.NewConfig()
	config.ClientID = fmt.Sprintf("sarama-%d", options.member)
	config.Version = sarama.MaxVersion
	config.Metadata.RefreshFrequency = time.Second
	config.Metadata.AllowAutoTopicCreation = false
	config.Consumer.Return.Errors = true
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	config.Consumer.Offsets.AutoCommit.Enable = options.commit == "auto"
	config.Consumer.Offsets.AutoCommit.Interval = 500 * time.Millisecond
	config.Consumer.Group.Session.Timeout = options.sessionTimeout
	config.Consumer.Group.Heartbeat.Interval = 300 * time.Millisecond
	config.Consumer.Group.Rebalance.GroupStrategies = []sarama.BalanceStrategy{saramaBalancers[options.assignor]()}
	config.Consumer.Group.InstanceId = options.instanceID()
	group, err := sarama.NewConsumerGroup(strings.Split(options.bootstrap, ","), options.group, config)
	if err != nil {
		return nil, err
	}
	running, cancel := context.WithCancel(context.Background())
	made := &saramaMember{
		group: group, emit: emit, cancel: cancel, done: make(chan struct{}), wake: make(chan struct{}, 1),
	}
	go made.consume(running, options.topics)
	return made, nil
}

// consume runs one session after another until the member closes.
func (s *saramaMember) consume(running context.Context, topics []string) {
	defer close(s.done)
	for running.Err() == nil {
		if err := s.group.Consume(running, topics, s); err != nil && !errors.Is(err, sarama.ErrClosedConsumerGroup) {
			s.emit.failed(err)
			time.Sleep(pollTime)
		}
	}
}

func (s *saramaMember) Setup(session sarama.ConsumerGroupSession) error {
	s.busy.Lock()
	defer s.busy.Unlock()
	s.queue, s.now = make(chan *sarama.ConsumerMessage, pollMax), session
	s.emit.partitions("assigned", session.Claims())
	select {
	case s.wake <- struct{}{}:
	default:
	}
	return nil
}

func (s *saramaMember) Cleanup(session sarama.ConsumerGroupSession) error {
	s.busy.Lock()
	defer s.busy.Unlock()
	s.queue, s.now = nil, nil
	s.emit.partitions("revoked", session.Claims())
	return nil
}

func (s *saramaMember) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	queue := s.queue
	for {
		select {
		case message, open := <-claim.Messages():
			if !open {
				return nil
			}
			select {
			case queue <- message:
			case <-session.Context().Done():
				return nil
			}
		case <-session.Context().Done():
			return nil
		}
	}
}

// poll waits without the lock, then takes what is queued with it.
func (s *saramaMember) poll() ([]Place, error) {
	deadline := time.Now().Add(pollTime)
	for {
		s.busy.Lock()
		if len(s.queue) > 0 || time.Now().After(deadline) {
			break
		}
		s.busy.Unlock()
		select {
		case <-s.wake:
			deadline = time.Now() // a new session: tell its assignment at once
		case <-time.After(5 * time.Millisecond):
		}
	}
	var found []Place
	for len(found) < pollMax && len(s.queue) > 0 {
		message := <-s.queue
		found = append(found, Place{Partition{message.Topic, message.Partition}, message.Offset})
		s.now.MarkMessage(message, "")
	}
	return found, s.failures()
}

// failures are the errors that the client told on its channel so far.
func (s *saramaMember) failures() error {
	var found []error
	for {
		select {
		case err := <-s.group.Errors():
			found = append(found, err)
		default:
			return errors.Join(found...)
		}
	}
}

func (s *saramaMember) commit(offsets map[Partition]int64) error {
	for at, offset := range offsets {
		s.now.MarkOffset(at.Topic, at.Number, offset, "")
	}
	s.now.Commit()
	return s.failures()
}

func (s *saramaMember) assignment() []Partition {
	if s.now == nil {
		return []Partition{}
	}
	return flat(s.now.Claims())
}

func (s *saramaMember) release() { s.busy.Unlock() }

func (s *saramaMember) close() error {
	s.cancel()
	err := s.group.Close()
	<-s.done
	return err
}
