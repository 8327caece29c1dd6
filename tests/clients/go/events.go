package main

import (
	"encoding/json"
	"fmt"
	"os"
	"sort"
	"sync"
	"syscall"
	"unsafe"
)

// Partition is a topic and a partition of it; in JSON ["topic", 0].
type Partition struct {
	Topic  string
	Number int32
}

func (p Partition) MarshalJSON() ([]byte, error) {
	return json.Marshal([]any{p.Topic, p.Number})
}

// Place is a partition and an offset in it; in JSON ["topic", 0, 12].
type Place struct {
	Partition
	Offset int64
}

func (p Place) MarshalJSON() ([]byte, error) {
	return json.Marshal([]any{p.Topic, p.Number, p.Offset})
}

var stdout sync.Mutex

// emitter writes events of one member to stdout: whole lines, whichever goroutine writes.
type emitter struct{ member int }

func (e emitter) emit(event string, fields map[string]any) {
	line := map[string]any{"event": event, "member": e.member, "at": monotonic()}
	for name, value := range fields {
		line[name] = value
	}
	writeLine(line)
}

func writeLine(line map[string]any) {
	data, err := json.Marshal(line)
	if err != nil {
		panic(err)
	}
	stdout.Lock()
	defer stdout.Unlock()
	fmt.Fprintf(os.Stdout, "%s\n", data)
}

// monotonic is the system's monotonic clock in seconds, which all processes of a test share.
func monotonic() float64 {
	var now syscall.Timespec
	const clockMonotonic = 1
	syscall.Syscall(syscall.SYS_CLOCK_GETTIME, clockMonotonic, uintptr(unsafe.Pointer(&now)), 0)
	return float64(now.Nano()) / 1e9
}

func (e emitter) partitions(event string, partitions map[string][]int32) {
	e.emit(event, map[string]any{"partitions": sorted(flat(partitions))})
}

func (e emitter) failed(err error) {
	e.emit("error", map[string]any{"error": err.Error()})
}

func flat(partitions map[string][]int32) []Partition {
	found := []Partition{}
	for topic, numbers := range partitions {
		for _, number := range numbers {
			found = append(found, Partition{topic, number})
		}
	}
	return found
}

func sorted(partitions []Partition) []Partition {
	sort.Slice(partitions, func(a, b int) bool {
		one, other := partitions[a], partitions[b]
		if one.Topic != other.Topic {
			return one.Topic < other.Topic
		}
		return one.Number < other.Number
	})
	return partitions
}

// places of offsets, for the events about commits.
func places(offsets map[Partition]int64) []Place {
	keys := make([]Partition, 0, len(offsets))
	for at := range offsets {
		keys = append(keys, at)
	}
	found := make([]Place, 0, len(keys))
	for _, at := range sorted(keys) {
		found = append(found, Place{at, offsets[at]})
	}
	return found
}
