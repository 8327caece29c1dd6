package main

import (
	"context"
	"os"
	"sync"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/exporter"
	"go.opentelemetry.io/collector/pdata/ptrace"
)

// linesConfig says into which file the exporter "lines" writes.
type linesConfig struct {
	Path string `mapstructure:"path"`
}

// lines is the exporter: traces as JSON, one request a line.
type lines struct {
	component.StartFunc
	path  string
	mutex sync.Mutex
	file  *os.File
}

func linesFactory() exporter.Factory {
	return exporter.NewFactory(
		component.MustNewType("lines"),
		func() component.Config { return &linesConfig{} },
		exporter.WithTraces(newLines, component.StabilityLevelDevelopment),
	)
}

func newLines(_ context.Context, _ exporter.Settings, config component.Config) (exporter.Traces, error) {
	path := config.(*linesConfig).Path
	file, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	return &lines{path: path, file: file}, err
}

func (one *lines) Capabilities() consumer.Capabilities { return consumer.Capabilities{} }

func (one *lines) ConsumeTraces(_ context.Context, traces ptrace.Traces) error {
	text, err := (&ptrace.JSONMarshaler{}).MarshalTraces(traces)
	if err != nil {
		return err
	}
	one.mutex.Lock()
	defer one.mutex.Unlock()
	_, err = one.file.Write(append(text, '\n'))
	return err
}

func (one *lines) Shutdown(context.Context) error { return one.file.Close() }
