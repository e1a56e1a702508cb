package main

import (
	"cmp"
	"fmt"
	"runtime"
	"runtime/debug"
)

// version is set by scripts/binaries.sh, whose binaries know nothing of git.
var version string

func versionCommand() *command {
	c := newCommand("version", "", "print the version of zklock and of Go", `
Prints the version of zklock, that of Go, and the system that it is for.
`)
	c.run = func(args []string) error {
		if len(args) > 0 {
			return usage("%q is one argument too many", args[0])
		}
		fmt.Printf("zklock %s, %s %s/%s\n", release(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
		return nil
	}
	return c
}

// release is the tag that this program was installed by, a commit, or "(devel)" where the go
// command could tell neither.
func release() string {
	of := version
	if info, ok := debug.ReadBuildInfo(); ok {
		of = cmp.Or(of, info.Main.Version)
	}
	return cmp.Or(of, "(devel)")
}
