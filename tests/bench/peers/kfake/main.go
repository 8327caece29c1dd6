// The Go peer of the benchmarks: kfake clusters on command.
//
// Each line of standard input is one command, each answer one line of standard output:
//
//	start           a new cluster of one broker; answers its number and address
//	stop NUMBER     closes it; answers the number
//	collect         runs the garbage collector, so that resident memory is what is in use
//
// It ends with its standard input. Flags: -topic NAME:PARTITIONS (repeatable), -set KEY=VALUE
// (repeatable), -data DIR and -sync (kfake's own persistence).
package main

import (
	"bufio"
	"flag"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kfake"
)

type pairs map[string]string

func (p pairs) String() string { return "" }

func (p pairs) set(text, separator string) error {
	key, value, found := strings.Cut(text, separator)
	if !found {
		return fmt.Errorf("%q: must be KEY%sVALUE", text, separator)
	}
	p[key] = value
	return nil
}

type topics struct{ pairs }

func (t topics) Set(text string) error { return t.set(text, ":") }

type settings struct{ pairs }

func (s settings) Set(text string) error { return s.set(text, "=") }

func main() {
	named, config := topics{pairs{}}, settings{pairs{}}
	flag.Var(named, "topic", "NAME:PARTITIONS")
	flag.Var(config, "set", "KEY=VALUE")
	data := flag.String("data", "", "directory of its logs; none = memory")
	sync := flag.Bool("sync", false, "fsync every batch")
	flag.Parse()
	running := map[int]*kfake.Cluster{}
	lines := bufio.NewScanner(os.Stdin)
	for next := 1; lines.Scan(); {
		words := strings.Fields(lines.Text())
		switch {
		case len(words) == 1 && words[0] == "start":
			cluster, err := kfake.NewCluster(options(named, config, *data, *sync, next)...)
			if err != nil {
				log.Fatal(err)
			}
			running[next] = cluster
			fmt.Println(next, cluster.ListenAddrs()[0])
			next++
		case len(words) == 2 && words[0] == "stop":
			number, err := strconv.Atoi(words[1])
			if err != nil || running[number] == nil {
				log.Fatalf("no cluster %s", words[1])
			}
			running[number].Close()
			delete(running, number)
			fmt.Println(number)
		case len(words) == 1 && words[0] == "collect":
			debug.FreeOSMemory()
			fmt.Println("collected")
		default:
			log.Fatalf("not a command: %q", lines.Text())
		}
	}
	for _, cluster := range running {
		cluster.Close()
	}
}

func options(named topics, config settings, data string, sync bool, number int) []kfake.Opt {
	found := []kfake.Opt{kfake.NumBrokers(1), kfake.BrokerConfigs(config.pairs)}
	for name, partitions := range named.pairs {
		count, err := strconv.Atoi(partitions)
		if err != nil {
			log.Fatalf("topic %s: %v", name, err)
		}
		found = append(found, kfake.SeedTopics(int32(count), name))
	}
	if data != "" {
		found = append(found, kfake.DataDir(filepath.Join(data, strconv.Itoa(number))))
	}
	if sync {
		found = append(found, kfake.SyncWrites())
	}
	return found
}
