package main

import (
	"errors"
	"flag"
	"fmt"
	"regexp"
	"time"
)

// tooLong matches valid durations, including those that are too long for package time.
var tooLong = regexp.MustCompile(`^([0-9.]+(h|m|s|ms))+$`)

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
	if tooLong.MatchString(text) {
		return errors.New("it is too long: the limit is 290 years, about 2540000h")
	}
	return fmt.Errorf("want a duration, such as %q or %q", "30s", "1m30s")
}
