// Package groupdtest starts a groupd for a test and moves its time, its groups and its faults over its control
// API: docs/testing.md of groupd, section "Any language". Copy it as it is.
package groupdtest

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os/exec"
	"regexp"
	"testing"
	"time"
)

const patience = 30 * time.Second

var ready = regexp.MustCompile(`^groupd ready kafka=(\S+) admin=(\S+)\n$`)

// JSON is the body of a request.
type JSON = map[string]any

// Groupd is a broker of one test, in memory, on ports of its own. What fails ends the test.
type Groupd struct {
	Servers string
	t       testing.TB
	url     string
}

// Start needs groupd on PATH. Topics are given as "orders:6". At the end of the test the coordinator's invariants
// are checked and groupd is stopped; it also stops when the test process ends in any other way.
func Start(t testing.TB, topics ...string) *Groupd {
	t.Helper()
	if _, err := exec.LookPath("groupd"); err != nil {
		t.Fatal("groupd is not on PATH: install it (pip install) and put its environment's bin directory there")
	}
	arguments := []string{
		"serve", "--control", "--profile", "test", "--until-stdin-ends",
		"--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--log-level", "error",
	}
	for _, topic := range topics {
		arguments = append(arguments, "--topic", topic)
	}
	command := exec.Command("groupd", arguments...)
	var errors bytes.Buffer
	command.Stderr = &errors
	stdin, err := command.StdinPipe()
	must(t, err)
	stdout, err := command.StdoutPipe()
	must(t, err)
	must(t, command.Start())
	timer := time.AfterFunc(patience, func() { _ = command.Process.Kill() })
	line, _ := bufio.NewReader(stdout).ReadString('\n')
	found := ready.FindStringSubmatch(line)
	if found == nil {
		_ = stdin.Close()
		_ = command.Wait()
		t.Fatalf("groupd did not start: %s%s", line, errors.String())
	}
	timer.Stop()
	g := &Groupd{Servers: found[1], t: t, url: "http://" + found[2]}
	t.Cleanup(func() {
		defer time.AfterFunc(patience, func() { _ = command.Process.Kill() }).Stop()
		var verdict struct {
			OK         bool   `json:"ok"`
			Violations string `json:"violations"`
		}
		err := g.ask(http.MethodGet, "/control/check", nil, &verdict)
		_ = stdin.Close()
		_ = command.Wait()
		if err != nil {
			t.Errorf("groupd: %v\n%s", err, errors.String())
		} else if !verdict.OK {
			t.Errorf("broken invariants: %s", verdict.Violations)
		}
	})
	return g
}

// Record is one of a topic. To produce one, give its Value, and Key and Partition if they matter.
type Record struct {
	Value     string `json:"value"`
	Key       string `json:"key,omitempty"`
	Partition *int32 `json:"partition,omitempty"`
}

// Produce appends records to a topic.
func (g *Groupd) Produce(topic string, records ...Record) {
	g.t.Helper()
	g.Post("/control/topics/"+url.PathEscape(topic)+"/records", JSON{"records": records}, nil)
}

// Records is what a consumer with read_committed gets of a topic: at most 10,000. With isolation=read_uncommitted it
// would be all.
func (g *Groupd) Records(topic string) []Record {
	g.t.Helper()
	var found struct{ Records []Record }
	g.Get("/control/topics/"+url.PathEscape(topic)+"/records?limit=10000", &found)
	return found.Records
}

// Freeze stops the coordinator's time; from then on only Advance moves it.
func (g *Groupd) Freeze() {
	g.t.Helper()
	g.Post("/control/clock", JSON{"mode": "frozen"}, nil)
}

// Advance lets time pass at once.
func (g *Groupd) Advance(by time.Duration) {
	g.t.Helper()
	g.Post("/control/clock/advance", JSON{"ms": by.Milliseconds()}, nil)
}

// Wait until "stable", "members", "owned", "released", "committed", "lag" and so on; given holds what that needs.
// The result goes to result, a pointer or nil.
func (g *Groupd) Wait(group, until string, given JSON, result any) {
	g.t.Helper()
	body := JSON{"until": until, "timeout": patience.Seconds()}
	for name, value := range given {
		body[name] = value
	}
	wrapped := struct {
		Result any `json:"result"`
	}{result}
	g.Post("/control/groups/"+url.PathEscape(group)+"/wait", body, &wrapped)
}

// WaitMembers returns the members' ids once there are so many.
func (g *Groupd) WaitMembers(group string, count int) []string {
	g.t.Helper()
	var members []string
	g.Wait(group, "members", JSON{"count": count}, &members)
	return members
}

// WaitStable returns which partitions of which topics each member owns, once there are so many members and
// everybody has what it is to have.
func (g *Groupd) WaitStable(group string, members int) map[string]map[string][]int {
	g.t.Helper()
	var found struct {
		Members []struct {
			ID    string           `json:"member_id"`
			Owned map[string][]int `json:"owned"`
		} `json:"members"`
	}
	g.Wait(group, "stable", JSON{"members": members}, &found)
	owned := map[string]map[string][]int{}
	for _, member := range found.Members {
		owned[member.ID] = member.Owned
	}
	return owned
}

// WaitCommitted waits until the partition's offset is there or beyond.
func (g *Groupd) WaitCommitted(group, topic string, partition, offset int) {
	g.t.Helper()
	g.Wait(group, "committed", JSON{"topic": topic, "partition": partition, "offset": offset}, nil)
}

// Committed returns the group's offsets as "topic-partition".
func (g *Groupd) Committed(group string) map[string]int {
	g.t.Helper()
	var found []struct {
		Topic             string
		Partition, Offset int
	}
	g.Get("/control/groups/"+url.PathEscape(group)+"/offsets", &found)
	offsets := map[string]int{}
	for _, one := range found {
		offsets[fmt.Sprintf("%s-%d", one.Topic, one.Partition)] = one.Offset
	}
	return offsets
}

// Fault is one that was added.
type Fault struct {
	ID int `json:"id"`
	g  *Groupd
}

// Fault makes the coordinator misbehave: JSON{"action": "error", "api": "OffsetCommit", "code": ...}.
func (g *Groupd) Fault(given JSON) *Fault {
	g.t.Helper()
	fault := &Fault{g: g}
	g.Post("/control/faults", given, fault)
	return fault
}

// Recipe sets an incident up: "zombie_member", "coordinator_failover" and so on.
func (g *Groupd) Recipe(name string, given JSON) []*Fault {
	g.t.Helper()
	var found struct{ Faults []int }
	g.Post("/control/recipes/"+name, given, &found)
	return g.faults(found.Faults)
}

// MoveCoordinator answers so many requests of the group with NOT_COORDINATOR, and as many searches for the
// coordinator with COORDINATOR_NOT_AVAILABLE.
func (g *Groupd) MoveCoordinator(group string, count int) []*Fault {
	g.t.Helper()
	var found struct{ Faults []int }
	g.Post("/control/coordinator/move", JSON{"group": group, "count": count}, &found)
	return g.faults(found.Faults)
}

func (g *Groupd) faults(numbers []int) []*Fault {
	var faults []*Fault
	for _, number := range numbers {
		faults = append(faults, &Fault{ID: number, g: g})
	}
	return faults
}

// Wait until it was hit so often.
func (f *Fault) Wait(hits int) {
	f.g.t.Helper()
	f.g.Post(fmt.Sprintf("/control/faults/%d/wait", f.ID), JSON{"hits": hits, "timeout": patience.Seconds()}, nil)
}

// Hits is how many requests it took.
func (f *Fault) Hits() int {
	f.g.t.Helper()
	var found struct{ Hits int }
	f.g.Get(fmt.Sprintf("/control/faults/%d", f.ID), &found)
	return found.Hits
}

// Release lets go what it holds, and ends it.
func (f *Fault) Release() {
	f.g.t.Helper()
	f.g.Post(fmt.Sprintf("/control/faults/%d/release", f.ID), JSON{}, nil)
}

// Get asks for a path of the control API; the reply goes to reply, a pointer.
func (g *Groupd) Get(path string, reply any) {
	g.t.Helper()
	must(g.t, g.ask(http.MethodGet, path, nil, reply))
}

// Post calls a path of the control API; the reply goes to reply, a pointer or nil.
func (g *Groupd) Post(path string, body, reply any) {
	g.t.Helper()
	must(g.t, g.ask(http.MethodPost, path, body, reply))
}

func (g *Groupd) ask(method, path string, body, reply any) error {
	data, err := json.Marshal(body)
	if err != nil {
		return err
	}
	request, err := http.NewRequest(method, g.url+path, bytes.NewReader(data))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	client := http.Client{Timeout: 2 * patience}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s %s: %s", method, path, text)
	}
	if reply == nil {
		return nil
	}
	return json.Unmarshal(text, reply)
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
