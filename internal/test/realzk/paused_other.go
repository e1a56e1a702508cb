//go:build !linux

package realzk

// isPaused assumes that the signal has worked.
func isPaused(int) bool { return true }
