// Package crash kills processes that hold a lock with a session file, in every way, and checks that
// the lock is free when the process is dead, and not before. The soak kind takeover measures how
// soon.
package crash
