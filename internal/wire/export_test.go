package wire

// ProcessID is for tests of session files.
func ProcessID(pid int) string { return processID(pid) }
