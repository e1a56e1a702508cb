//go:build unix

package hammer

import (
	"os"
	"syscall"
)

// mapFile is the memory of all processes that map the same file.
func mapFile(name string, size int) ([]byte, func() error, error) {
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	if err := f.Truncate(int64(size)); err != nil {
		return nil, nil, err
	}
	shared, err := syscall.Mmap(int(f.Fd()), 0, size, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	if err != nil {
		return nil, nil, err
	}
	return shared, func() error { return syscall.Munmap(shared) }, nil
}
