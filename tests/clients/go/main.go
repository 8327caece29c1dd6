// Runs members of a group, one goroutine each, and tells on stdout what happens to them. The command
// line, the events and the commands on stdin are those of tests/clients/drivers/driver.py, after the
// name of the client: franz or sarama. Other programs are franz-process (process.go) and franz-share (share.go).
package main

import (
	"bufio"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

const (
	pollTime = 100 * time.Millisecond
	pollMax  = 500
)

type options struct {
	bootstrap, group, pattern, protocol, assignor, commit, instancePrefix string
	login                                                                 *Login
	topics                                                                []string
	sessionTimeout                                                        time.Duration
	member                                                                int
}

func (o options) instanceID() string {
	if o.instancePrefix == "" {
		return ""
	}
	return fmt.Sprintf("%s%d", o.instancePrefix, o.member)
}

// member is what a client's adapter offers. Between poll and release no partition is taken away.
type member interface {
	poll() ([]Place, error)
	commit(offsets map[Partition]int64) error
	assignment() []Partition
	release()
	close() error
}

var clients = map[string]func(options, emitter) (member, error){"franz": newFranz, "sarama": newSarama}

type loop struct {
	options     options
	emit        emitter
	stop        chan struct{}
	once        sync.Once
	uncommitted map[Partition]int64
}

func (l *loop) finish() { l.once.Do(func() { close(l.stop) }) }

func (l *loop) run(client string) {
	member, err := clients[client](l.options, l.emit)
	if err != nil {
		l.emit.failed(err)
		return
	}
	l.pollUntilStopped(member)
	if err := member.close(); err != nil {
		l.emit.failed(err)
	}
	l.emit.emit("closed", nil)
}

func (l *loop) pollUntilStopped(member member) {
	owned := []Partition(nil)
	for first := true; ; first = false {
		select {
		case <-l.stop:
			return
		default:
		}
		records, err := member.poll()
		if err != nil {
			l.emit.failed(err)
		}
		now := sorted(member.assignment())
		if first || !slices.Equal(now, owned) {
			owned = now
			l.emit.emit("assignment", map[string]any{"owned": owned})
		}
		if len(records) > 0 {
			l.emit.emit("records", map[string]any{"records": records})
		}
		if l.options.commit == "each" {
			l.commit(member, records, owned)
		}
		member.release()
	}
}

// commit what was polled; what fails is tried again after the next poll, if still owned.
func (l *loop) commit(member member, records []Place, owned []Partition) {
	for _, at := range records {
		l.uncommitted[at.Partition] = max(at.Offset+1, l.uncommitted[at.Partition])
	}
	for at := range l.uncommitted {
		if !slices.Contains(owned, at) {
			delete(l.uncommitted, at)
		}
	}
	if len(l.uncommitted) == 0 {
		return
	}
	fields := map[string]any{"offsets": places(l.uncommitted)}
	if err := member.commit(l.uncommitted); err != nil {
		fields["error"] = err.Error()
		l.emit.emit("commit-failed", fields)
		return
	}
	l.uncommitted = map[Partition]int64{}
	l.emit.emit("committed", fields)
}

func parse(arguments []string) (found options, members, first int) {
	var topics string
	var sessionTimeoutMs int
	flags := flag.NewFlagSet("driver", flag.ExitOnError)
	flags.StringVar(&found.bootstrap, "bootstrap", "", "HOST:PORT,...")
	flags.StringVar(&found.group, "group", "", "group id")
	flags.StringVar(&topics, "topics", "", "names, comma-separated")
	flags.StringVar(&found.pattern, "pattern", "", "regular expression of topics")
	flags.StringVar(&found.protocol, "protocol", "classic", "classic or consumer")
	flags.StringVar(&found.assignor, "assignor", "", "name of an assignor")
	flags.StringVar(&found.commit, "commit", "none", "none, each or auto")
	flags.StringVar(&found.instancePrefix, "instance-prefix", "", "static members")
	login := flags.String("login", "", "file that says how to log in, see login.go")
	flags.IntVar(&sessionTimeoutMs, "session-timeout-ms", 6000, "classic only")
	flags.IntVar(&members, "members", 1, "number of members")
	flags.IntVar(&first, "first", 0, "number of the first one")
	_ = flags.Parse(arguments) // ExitOnError
	found.sessionTimeout = time.Duration(sessionTimeoutMs) * time.Millisecond
	if *login != "" {
		found.login = readLogin(*login)
	}
	if topics != "" {
		found.topics = strings.Split(topics, ",")
	}
	return found, members, first
}

func readCommands(loops map[int]*loop, stopAll func()) {
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() && lines.Text() != "stop" {
		var number int
		if _, err := fmt.Sscanf(lines.Text(), "close %d", &number); err == nil {
			loops[number].finish()
		}
	}
	stopAll()
}

func main() {
	if len(os.Args) > 1 && os.Args[1] == "franz-process" {
		runProcessor(os.Args[2:])
		return
	}
	if len(os.Args) > 1 && os.Args[1] == "franz-share" {
		runShareMember(os.Args[2:])
		return
	}
	if len(os.Args) < 2 || clients[os.Args[1]] == nil {
		fmt.Fprintln(os.Stderr, "usage: driver franz|sarama|franz-process|franz-share --bootstrap HOST:PORT --group ID ...")
		os.Exit(2)
	}
	found, members, first := parse(os.Args[2:])
	loops := map[int]*loop{}
	for number := first; number < first+members; number++ {
		own := found
		own.member = number
		loops[number] = &loop{
			options:     own,
			emit:        emitter{number},
			stop:        make(chan struct{}),
			uncommitted: map[Partition]int64{},
		}
	}
	stopAll := func() {
		for _, each := range loops {
			each.finish()
		}
	}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM)
	go func() {
		<-signals
		stopAll()
	}()
	go readCommands(loops, stopAll)
	var running sync.WaitGroup
	for _, each := range loops {
		running.Add(1)
		go func() {
			defer running.Done()
			each.run(os.Args[1])
		}()
	}
	running.Wait()
}
