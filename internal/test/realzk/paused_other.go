//go:build !linux

package realzk

// isPaused takes the signal at its word.
func isPaused(int) bool { return true }
