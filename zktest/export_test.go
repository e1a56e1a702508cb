package zktest

import "time"

// Impatient makes a test endless after this real time.
func Impatient(real time.Duration) { longestReal = real }
