package wire

import (
	"bytes"
	"os"
)

// A Session is what a client needs to resume a session.
type Session struct {
	ID       int64
	Password []byte
}

// record writes a new session into the file, and the session and the new servers after SetServers.
// It is called before anything uses the session. So the file has each session in which nodes may
// be.
func (c *Conn) record(session int64, password []byte) {
	servers := c.hosts.given.Load()
	if session == c.Session() && (c.file == nil || c.written == servers) {
		return
	}
	own := &Session{session, bytes.Clone(password)}
	c.own.Store(own)
	if c.file == nil {
		return
	}
	c.written = servers
	if err := c.file.Write(own.ID, own.Password, *servers); err != nil {
		c.Printf("zklocks: session file %s: %v: if this process dies, its locks pass on after the session timeout", c.file.Name(), err)
	}
}

// Own returns the last session that a server has granted, for a process that outlives this one;
// nil: none was granted.
func (c *Conn) Own() *Session { return c.own.Load() }

// SessionFile returns the locked session file, for a process that outlives this one and keeps it
// locked; nil: there is none.
func (c *Conn) SessionFile() *os.File {
	if c.file == nil {
		return nil
	}
	return c.file.File
}

// putAway closes the file when run, which may be about to write a session into it, has ended. It
// waits for that until limit. If no server has confirmed the end of the session, the next process
// may end it.
func (c *Conn) putAway(limit <-chan struct{}) {
	if c.file == nil {
		return
	}
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		c.work.Wait()
		_ = c.file.Close(c.closeConfirmed.Load())
	}()
	select {
	case <-closed:
	case <-limit:
	}
}
