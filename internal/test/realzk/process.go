package realzk

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"time"
)

// process is a running JVM.
type process struct {
	cmd  *exec.Cmd
	done chan struct{} // closed when the process has ended and was waited for
}

func startProcess(cmd *exec.Cmd) (*process, error) {
	dieWithUs(cmd)
	p := &process{cmd: cmd, done: make(chan struct{})}
	started := make(chan error, 1)
	go p.run(started)
	if err := <-started; err != nil {
		return nil, err
	}
	return p, nil
}

// run starts the process and waits for it. The system kills the child when the *thread* that
// started it ends, so this goroutine keeps its thread while the child lives.
func (p *process) run(started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer close(p.done)
	err := p.cmd.Start()
	started <- err
	if err == nil {
		_ = p.cmd.Wait()
	}
}

func (p *process) alive() bool {
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// kill also works on a paused process.
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	<-p.done
}

const dirPattern = "zktest-"

// dataDir is a server's temporary directory. A file lock marks it as in use. The system releases
// the lock when this process ends, so the next process can detect and remove the directory of a
// killed process.
type dataDir struct {
	path string
	lock *os.File
}

func newDataDir() (*dataDir, error) {
	base := os.TempDir()
	if info, err := os.Stat("/dev/shm"); err == nil && info.IsDir() {
		base = "/dev/shm" // in memory: the servers write a lot, and the data is deleted after the test
	}
	sweepDataDirs(base)
	path, err := os.MkdirTemp(base, dirPattern)
	if err != nil && base != os.TempDir() {
		path, err = os.MkdirTemp("", dirPattern)
	}
	if err != nil {
		return nil, err
	}
	lock, err := os.Create(filepath.Join(path, "in-use"))
	if err != nil {
		os.RemoveAll(path)
		return nil, err
	}
	_ = tryLockFile(lock)
	return &dataDir{path: path, lock: lock}, nil
}

func (d *dataDir) remove() error {
	err := os.RemoveAll(d.path)
	d.lock.Close()
	return err
}

func sweepDataDirs(base string) {
	dirs, _ := filepath.Glob(filepath.Join(base, dirPattern+"*"))
	for _, dir := range dirs {
		info, err := os.Stat(dir)
		if err != nil || !info.IsDir() || time.Since(info.ModTime()) < time.Minute {
			continue // perhaps just created, and not locked yet
		}
		lock, err := os.OpenFile(filepath.Join(dir, "in-use"), os.O_RDWR, 0)
		if err != nil {
			continue
		}
		if tryLockFile(lock) == nil {
			os.RemoveAll(dir)
		}
		lock.Close()
	}
}
