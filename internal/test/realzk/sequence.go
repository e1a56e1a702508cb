package realzk

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/adler32"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// SetSequences gives the next sequential child of each of these directories this number, and
// restarts the server for that, twice. The directories must exist, and no client may be connected.
// So a test gets to the end of the numbers without two billion creates: the number is the
// directory's cversion, and a server that starts writes all its data into a snapshot, which is then
// changed.
func (s *Server) SetSequences(next map[string]int32) error {
	if s.cluster != nil {
		return errors.New("realzk: the sequence of an ensemble: its members would differ")
	}
	if err := s.Restart(); err != nil { // the snapshot has the directory now
		return err
	}
	if err := s.Kill(); err != nil {
		return err
	}
	name, err := s.snapshot()
	if err != nil {
		return err
	}
	snapshot, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	for dir, number := range next {
		if snapshot, err = withSequence(snapshot, dir, number); err != nil {
			return fmt.Errorf("realzk: %s in %s: %w", dir, name, err)
		}
	}
	if err := os.WriteFile(name, snapshot, 0o644); err != nil {
		return err
	}
	return s.Restart()
}

// snapshot is the newest one.
func (s *Server) snapshot() (string, error) {
	names, err := filepath.Glob(filepath.Join(s.dataPath(), "version-2", "snapshot.*"))
	if err != nil {
		return "", err
	}
	newest, at := "", int64(-1)
	for _, name := range names {
		zxid, err := strconv.ParseInt(name[strings.LastIndexByte(name, '.')+1:], 16, 64)
		if err == nil && zxid > at {
			newest, at = name, zxid
		}
	}
	if newest == "" {
		return "", errors.New("realzk: the server has no snapshot")
	}
	return newest, nil
}

// withSequence changes the cversion of one node in a snapshot. A node is its path and its data,
// each behind its length, the number of its access list, czxid, mzxid, ctime and mtime, of 8 bytes
// each, version, cversion and more.
func withSequence(snapshot []byte, dir string, next int32) ([]byte, error) {
	path := append(binary.BigEndian.AppendUint32(nil, uint32(len(dir))), dir...)
	if bytes.Count(snapshot, path) != 1 {
		return nil, fmt.Errorf("found %d times", bytes.Count(snapshot, path))
	}
	at := bytes.Index(snapshot, path) + len(path)
	if len(snapshot) < at+4 {
		return nil, errors.New("it ends there")
	}
	data := max(0, int(int32(binary.BigEndian.Uint32(snapshot[at:])))) // -1: none
	at += 4 + data + 5*8 + 4
	if len(snapshot) < at+4 {
		return nil, errors.New("it ends there")
	}
	seals := sealed(snapshot)
	if len(seals) == 0 {
		return nil, errors.New("no checksum that fits")
	}
	changed := bytes.Clone(snapshot)
	binary.BigEndian.PutUint32(changed[at:], uint32(next))
	for _, seal := range seals { // each covers those before it
		binary.BigEndian.PutUint64(changed[seal:], uint64(adler32.Checksum(changed[:seal])))
	}
	return changed, nil
}

// sealed finds the checksums: the Adler-32 of all that comes before, as a number of 8 bytes, with
// the path "/" behind it. How many there are depends on the server's version.
func sealed(snapshot []byte) (at []int) {
	root := []byte{0, 0, 0, 1, '/'}
	for i := 0; i+8+len(root) <= len(snapshot); i++ {
		if bytes.Equal(snapshot[i+8:i+8+len(root)], root) &&
			binary.BigEndian.Uint64(snapshot[i:]) == uint64(adler32.Checksum(snapshot[:i])) {
			at = append(at, i)
		}
	}
	return at
}
