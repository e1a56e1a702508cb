package realzk

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/zklocks/zklocks/internal/test"
	"github.com/zklocks/zklocks/internal/test/proxy"
)

const (
	startTimeout = 30 * time.Second // a busy machine has needed 9 s
	startTries   = 3                // another process may take a port before it is bound
	wordTimeout  = 30 * time.Second // a busy machine has needed 2 s
	noWord       = 2 * time.Second  // for a server that starts or is paused, which may never answer
)

// Server is a ZooKeeper server process, standalone or a member of an Ensemble. Its methods may be
// called from any goroutine.
type Server struct {
	addr    string
	opts    Options
	cluster []string // "server.N=..." lines; nil if standalone
	id      int
	data    *dataDir

	mu      sync.Mutex // serializes Kill, Restart, Pause, Resume, Stop
	proc    *process
	stopped bool

	paused atomic.Bool
	served atomic.Bool // whether it has served since its start
}

// Start runs a standalone server and returns when it serves.
func Start(opts Options) (*Server, error) {
	if _, err := findJava(); err != nil {
		return nil, err
	}
	var err error
	for range startTries {
		var ports []int
		if ports, err = proxy.FreePorts(1); err != nil {
			return nil, err
		}
		var s *Server
		if s, err = newServer(opts, ports[0]); err != nil {
			return nil, err
		}
		if err = s.launch(); err == nil {
			if err = s.ready(startTimeout); err == nil {
				return s, nil
			}
		}
		_ = s.Stop()
	}
	return nil, err
}

func newServer(opts Options, port int) (*Server, error) {
	data, err := newDataDir()
	if err != nil {
		return nil, fmt.Errorf("realzk: data directory: %w", err)
	}
	return &Server{
		addr: net.JoinHostPort(proxy.Host, strconv.Itoa(port)),
		opts: opts.withDefaults(),
		data: data,
	}, nil
}

// launch starts the process, and does not wait until it serves.
func (s *Server) launch() error {
	home, err := findJava()
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		return errors.New("realzk: server is stopped")
	}
	if s.proc != nil && s.proc.alive() {
		return errors.New("realzk: server is running")
	}
	_, port, _ := net.SplitHostPort(s.addr)
	more := map[string]string{"clientPort": port, "dataDir": s.dataPath()}
	for _, line := range s.cluster {
		key, value, _ := strings.Cut(line, "=")
		more[key] = value
	}
	if err := os.MkdirAll(s.dataPath(), 0o755); err != nil {
		return err
	}
	if s.cluster != nil {
		id := []byte(strconv.Itoa(s.id) + "\n")
		if err := os.WriteFile(filepath.Join(s.dataPath(), "myid"), id, 0o644); err != nil {
			return err
		}
	}
	config := filepath.Join(s.data.path, "zoo.cfg")
	if _, err := os.Stat(config); err != nil || !s.opts.Dynamic { // a server has written its dynamic configuration there
		if err := os.WriteFile(config, []byte(s.opts.config(more)), 0o644); err != nil {
			return err
		}
	}
	log, err := os.OpenFile(s.logPath(), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()

	args := append(s.opts.flags(), "-cp", home.classPath,
		"org.apache.zookeeper.server.quorum.QuorumPeerMain", config)
	cmd := exec.Command(home.java, args...)
	cmd.Dir = s.data.path
	cmd.Env = append(os.Environ(), s.opts.Env...)
	cmd.Stdout, cmd.Stderr = log, log
	proc, err := startProcess(cmd)
	if err != nil {
		return fmt.Errorf("realzk: start java: %w", err)
	}
	s.proc = proc
	s.paused.Store(false)
	s.served.Store(false)
	return nil
}

// errEnded: the process has ended by itself, most likely because its port is taken.
var errEnded = errors.New("server process ended")

// ready waits until the server serves. It reads the configuration, so that it does not take another
// program on our port for our server.
func (s *Server) ready(within time.Duration) error {
	s.mu.Lock()
	proc := s.proc
	s.mu.Unlock()
	serves := test.Poll(within, func() bool {
		if !proc.alive() {
			return true
		}
		conf, err := s.Word("conf")
		return err == nil && strings.Contains(conf, "dataDir="+s.dataPath())
	})
	switch {
	case !proc.alive():
		return fmt.Errorf("realzk: %s: %w%s", s.addr, errEnded, s.logTail())
	case !serves:
		return fmt.Errorf("realzk: %s does not serve after %v%s", s.addr, within, s.logTail())
	}
	s.served.Store(true)
	return nil
}

// Addr returns the host:port to which clients connect. Restart does not change it.
func (s *Server) Addr() string { return s.addr }

// Dir returns the server's temporary directory: zoo.cfg, data, and server.log.
func (s *Server) Dir() string { return s.data.path }

// PID returns the process id, or 0 if there is no process.
func (s *Server) PID() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.proc == nil || !s.proc.alive() {
		return 0
	}
	return s.proc.cmd.Process.Pid
}

// Alive reports whether the process exists; a paused process does.
func (s *Server) Alive() bool { return s.PID() != 0 }

// with calls do with the process, which must run.
func (s *Server) with(what string, do func(*process) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.proc == nil || !s.proc.alive() {
		return fmt.Errorf("realzk: %s: server is not running", what)
	}
	if err := do(s.proc); err != nil {
		return fmt.Errorf("realzk: %s: %w", what, err)
	}
	return nil
}

// Kill ends the process with SIGKILL. Its data is kept for Restart.
func (s *Server) Kill() error {
	return s.with("kill", func(p *process) error { p.kill(); return nil })
}

// Restart kills the server if it runs, starts it on the same port with the same data, and returns
// when it serves. A member of an ensemble serves only with a quorum: to restart several members use
// Ensemble.Restart.
func (s *Server) Restart() error {
	if err := s.relaunch(); err != nil {
		return err
	}
	return s.ready(startTimeout)
}

func (s *Server) relaunch() error {
	if s.Alive() {
		if err := s.Kill(); err != nil {
			return err
		}
	}
	return s.launch()
}

// Pause stops the process (SIGSTOP): connections remain open, and nothing is answered.
func (s *Server) Pause() error {
	return s.with("pause", func(p *process) error {
		err := pauseProcess(p.cmd.Process)
		if err == nil {
			s.paused.Store(true)
		}
		return err
	})
}

// Resume ends a Pause.
func (s *Server) Resume() error {
	return s.with("resume", func(p *process) error {
		err := resumeProcess(p.cmd.Process)
		if err == nil {
			s.paused.Store(false)
		}
		return err
	})
}

// Stop ends the server and removes its data. It uses SIGKILL, which is a third of a second faster,
// and safe because the data is deleted. A second Stop does nothing.
func (s *Server) Stop() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		return nil
	}
	s.stopped = true
	if s.proc != nil && s.proc.alive() {
		s.proc.kill()
	}
	return s.data.remove()
}

// Word sends a four-letter word ("srvr", "cons", "wchs", "dump", ...) and returns the answer.
func (s *Server) Word(word string) (string, error) {
	within := noWord
	if s.served.Load() && !s.paused.Load() {
		within = wordTimeout
	}
	answer, err := fourLetterWord(s.addr, word, within)
	if err != nil {
		return "", err
	}
	if strings.HasPrefix(answer, notServing) {
		return "", fmt.Errorf("realzk: %s to %s: %s", word, s.addr, strings.TrimSpace(answer))
	}
	return answer, nil
}

// Mntr returns the answer to "mntr" by key ("zk_server_state", "zk_watch_count", ...).
func (s *Server) Mntr() (map[string]string, error) {
	answer, err := s.Word("mntr")
	if err != nil {
		return nil, err
	}
	return parseMntr(answer), nil
}

func (s *Server) dataPath() string { return filepath.Join(s.data.path, "data") }
func (s *Server) logPath() string  { return filepath.Join(s.data.path, "server.log") }

func (s *Server) logTail() string {
	log, err := os.ReadFile(s.logPath())
	if err != nil || len(log) == 0 {
		return ""
	}
	if len(log) > 2000 {
		log = log[len(log)-2000:]
	}
	return "\n" + strings.TrimSpace(string(log))
}

// fourLetterWord sends one of ZooKeeper's monitoring commands to addr.
func fourLetterWord(addr, word string, within time.Duration) (string, error) {
	conn, err := net.DialTimeout("tcp", addr, within)
	if err != nil {
		return "", fmt.Errorf("realzk: %s to %s: %w", word, addr, err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(within)); err != nil {
		return "", err
	}
	if _, err := io.WriteString(conn, word); err != nil {
		return "", fmt.Errorf("realzk: %s to %s: %w", word, addr, err)
	}
	answer, err := io.ReadAll(conn)
	if err != nil {
		return "", fmt.Errorf("realzk: %s to %s: %w", word, addr, err)
	}
	return string(answer), nil
}

// notServing is the answer of a server that has no quorum (yet).
const notServing = "This ZooKeeper instance is not currently serving requests"

func parseMntr(answer string) map[string]string {
	values := make(map[string]string)
	for line := range strings.Lines(answer) {
		if key, value, ok := strings.Cut(strings.TrimSpace(line), "\t"); ok {
			values[key] = value
		}
	}
	return values
}
