//go:build !linux

package wire

import "os"

func hostID() string {
	name, _ := os.Hostname()
	return name
}

// On these systems the program must choose a local file system.
func checkLocal(*os.File) error { return nil }

func processID(int) string { return "" }
