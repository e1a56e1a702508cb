package main

import (
	"cmp"
	"fmt"
	"runtime"
	"runtime/debug"
)

// version is set by scripts/binaries.sh, whose builds have no git information.
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

// release returns the version with which this program was installed, a commit, or "(devel)" if the
// go command has recorded neither.
func release() string {
	of := version
	if info, ok := debug.ReadBuildInfo(); ok {
		of = cmp.Or(of, info.Main.Version)
	}
	return cmp.Or(of, "(devel)")
}
