//go:build !linux

package history

import "time"

var epoch = time.Now()

// Now counts from the wall clock at the start of the process, by the monotonic clock. Records of
// several processes can be merged if the wall clock was not set between their starts.
func Now() int64 { return epoch.UnixNano() + int64(time.Since(epoch)) }
