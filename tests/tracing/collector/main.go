// The OTLP receiver of the OpenTelemetry Collector, without the rest of it: what it receives over HTTP goes into a file, a line
// of JSON for each request. Ends at the end of stdin.
//
//	collector HOST:PORT FILE
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"sync"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/receiver"
	"go.opentelemetry.io/collector/receiver/otlpreceiver"
	"go.opentelemetry.io/otel/metric/noop"
	tracenoop "go.opentelemetry.io/otel/trace/noop"
	"go.uber.org/zap"
)

// host is what a receiver runs in: nothing that it could ask for.
type host struct{}

func (host) GetExtensions() map[component.ID]component.Component { return nil }

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: collector HOST:PORT FILE")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "collector:", err)
		os.Exit(1)
	}
}

func run(address string, path string) error {
	ctx := context.Background()
	file, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer file.Close()
	sink, err := consumer.NewTraces(writer(file))
	if err != nil {
		return err
	}
	factory := otlpreceiver.NewFactory()
	config := factory.CreateDefaultConfig()
	protocols := map[string]any{"protocols": map[string]any{"http": map[string]any{"endpoint": address}}}
	if err := confmap.NewFromStringMap(protocols).Unmarshal(config); err != nil {
		return err
	}
	settings := receiver.Settings{
		ID: component.NewID(factory.Type()),
		TelemetrySettings: component.TelemetrySettings{
			Logger:         zap.NewNop(),
			MeterProvider:  noop.NewMeterProvider(),
			TracerProvider: tracenoop.NewTracerProvider(),
		},
	}
	traces, err := factory.CreateTraces(ctx, settings, config, sink)
	if err != nil {
		return err
	}
	if err := traces.Start(ctx, host{}); err != nil {
		return err
	}
	fmt.Println("collector ready")
	_, _ = io.Copy(io.Discard, os.Stdin)
	return traces.Shutdown(ctx)
}

// writer returns what takes the traces of one request.
func writer(file *os.File) consumer.ConsumeTracesFunc {
	var mutex sync.Mutex
	return func(_ context.Context, traces ptrace.Traces) error {
		text, err := (&ptrace.JSONMarshaler{}).MarshalTraces(traces)
		if err != nil {
			return err
		}
		mutex.Lock()
		defer mutex.Unlock()
		_, err = file.Write(append(text, '\n'))
		return err
	}
}
