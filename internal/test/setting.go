package test

import (
	"os"
	"testing"
)

// Setting reads the environment variable name into *to, if it is set: a parameter of a run.
func Setting[T any](t testing.TB, name string, to *T, read func(string) (T, error)) {
	t.Helper()
	value := os.Getenv(name)
	if value == "" {
		return
	}
	v, err := read(value)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	*to = v
}
