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

// SetSequences sets the number of the next sequential child of each directory. It restarts the
// server twice. The directories must exist, and no client may be connected. So a test reaches the
// end of the numbers without two billion creates. The number is the directory's cversion: a server
// that starts writes all its data into a snapshot, which SetSequences changes.
func (s *Server) SetSequences(next map[string]int32) error {
	if s.cluster != nil {
		return errors.New("realzk: the sequence of an ensemble: its members would differ")
	}
	if err := s.Restart(); err != nil { // the snapshot then has the directories
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

// snapshot returns the newest snapshot.
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

// withSequence changes the cversion of a node in a snapshot. A node is its path and its data, each
// after its length; the number of its access list, czxid, mzxid, ctime and mtime, of 8 bytes each;
// version, cversion and more.
func withSequence(snapshot []byte, dir string, next int32) ([]byte, error) {
	path := append(binary.BigEndian.AppendUint32(nil, uint32(len(dir))), dir...)
	if bytes.Count(snapshot, path) != 1 {
		return nil, fmt.Errorf("found %d times", bytes.Count(snapshot, path))
	}
	at := bytes.Index(snapshot, path) + len(path)
	if len(snapshot) < at+4 {
		return nil, errors.New("it ends there")
	}
	data := max(0, int(int32(binary.BigEndian.Uint32(snapshot[at:])))) // -1: no data
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
	for _, seal := range seals { // each covers the checksums before it
		binary.BigEndian.PutUint64(changed[seal:], uint64(adler32.Checksum(changed[:seal])))
	}
	return changed, nil
}

// sealed returns the positions of the checksums: the Adler-32 of everything before, in 8 bytes,
// followed by the path "/". Their number depends on the server's version.
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
