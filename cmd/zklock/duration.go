package main

import (
	"flag"
	"fmt"
	"time"
)

// duration is the value of a flag. Its error for an invalid value shows a valid value; the error of
// package flag is "parse error".
type duration time.Duration

func durationVar(flags *flag.FlagSet, p *time.Duration, name string, value time.Duration, usage string) {
	*p = value
	flags.Var((*duration)(p), name, usage)
}

func (d *duration) String() string { return time.Duration(*d).String() }

func (d *duration) Set(text string) error {
	parsed, err := time.ParseDuration(text)
	if err == nil {
		*d = duration(parsed)
		return nil
	}
	if _, err := time.ParseDuration(text + "s"); err == nil {
		return fmt.Errorf("a duration has a unit, as in %q", text+"s")
	}
	return fmt.Errorf("want a duration, such as %q or %q", "30s", "1m30s")
}
