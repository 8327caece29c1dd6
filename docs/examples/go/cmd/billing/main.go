// Command billing SERVERS bills orders until SIGTERM or Ctrl-C.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"os/signal"
	"syscall"

	"example.com/billing"
)

func charge(_ context.Context, order billing.Order) error {
	_, err := fmt.Printf("charged %d cents for %s\n", order.Cents, order.ID)
	return err
}

func main() {
	if len(os.Args) != 2 {
		log.Fatal("usage: billing SERVERS")
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	processor, err := billing.New(os.Args[1], charge)
	if err != nil {
		log.Fatal(err)
	}
	if err := processor.Run(ctx); err != nil {
		log.Fatal(err)
	}
}
