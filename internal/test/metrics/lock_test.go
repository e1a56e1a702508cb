package main

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/zklocks/zklocks/internal/test"
	"github.com/zklocks/zklocks/internal/test/locks"
	"github.com/zklocks/zklocks/internal/test/metrics/trace"
	"github.com/zklocks/zklocks/internal/test/venue"
	"github.com/zklocks/zklocks/rwlock"
)

// TestOneLock records one Lock without contention, on a connection that has made one before. Only
// in the copy of the library that make metrics builds is there anything to record.
func TestOneLock(t *testing.T) {
	venue.InMemory(t, func(t *testing.T, v venue.Venue) {
		m := rwlock.New(locks.On(v.Connect(t, 10*time.Second)), test.Path(t))
		for traced := range 2 {
			if traced == 1 {
				trace.Start()
			}
			h, err := m.Lock(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			functions, stack := trace.Stop()
			if err := h.Release(t.Context()); err != nil {
				t.Fatal(err)
			}
			if traced == 0 || os.Getenv("METRICS") == "" {
				continue
			}
			// The wire works on goroutines of the client library, for requests of any kind.
			types, called := map[string]bool{}, 0
			for _, f := range functions {
				if strings.HasPrefix(f, "internal/wire.") || strings.Contains(f, ".func") {
					continue
				}
				called++
				if receiver := f[strings.LastIndexByte(f, '/')+1:]; strings.Count(receiver, ".") == 2 {
					types[f[:strings.LastIndexByte(f, '.')]] = true
				}
			}
			fmt.Printf("metrics: %d types, %d functions, depth %d\n", len(types), called, len(stack))
			fmt.Printf("metrics: %s\n", strings.Join(stack, " <- "))
			if os.Getenv("METRICS") == "all" {
				fmt.Printf("metrics: %s\n", strings.Join(functions, "\nmetrics: "))
			}
		}
	})
}
