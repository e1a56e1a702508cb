package sessionfile

import (
	"errors"
	"os"
	"syscall"
)

// checkLocal refuses a file system that several hosts may share. Its server may release the lock of
// a process that lives, or the hosts do not see each other's locks.
func checkLocal(file *os.File) error {
	var s syscall.Statfs_t
	if err := syscall.Fstatfs(int(file.Fd()), &s); err != nil {
		return err
	}
	if isShared(uint32(s.Type)) {
		return errors.New("it is on a network file system: use a local one, like /run")
	}
	return nil
}

func isShared(fileSystem uint32) bool {
	switch fileSystem {
	case 0x6969, 0x517b, 0xff534d42, 0xfe534d42, // NFS, SMB, CIFS, SMB2
		0x01021997, 0x00c36400, 0x5346414f, 0x6b414653, // 9p, Ceph, AFS
		0x65735546, 0x0bd00bd0, 0x47504653, 0x01161970, 0x7461636f: // FUSE, Lustre, GPFS, GFS2, OCFS2
		return true
	}
	return false
}
