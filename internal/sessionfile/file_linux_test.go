package sessionfile

import (
	"os"
	"syscall"
	"testing"
)

func TestFileSystemsThatHostsShare(t *testing.T) {
	for name, fileSystem := range map[string]uint32{"NFS": 0x6969, "SMB": 0x517b, "CIFS": 0xff534d42, "9p": 0x01021997, "Ceph": 0x00c36400, "FUSE": 0x65735546} {
		if !isShared(fileSystem) {
			t.Errorf("%s is accepted", name)
		}
	}
	for name, fileSystem := range map[string]uint32{"ext4": 0xef53, "xfs": 0x58465342, "tmpfs": 0x01021994, "overlay": 0x794c7630, "btrfs": 0x9123683e} {
		if isShared(fileSystem) {
			t.Errorf("%s is refused", name)
		}
	}
}

func TestProcessID(t *testing.T) {
	own := processID(os.Getpid())
	if own == "" || own != processID(os.Getpid()) || own == processID(os.Getppid()) {
		t.Errorf("%q, the parent %q", own, processID(os.Getppid()))
	}
	child, err := os.StartProcess("/bin/true", []string{"true"}, &os.ProcAttr{})
	if err != nil {
		t.Fatal(err)
	}
	for processID(child.Pid) != "" { // until it is a zombie
	}
	if err := syscall.Kill(child.Pid, 0); err != nil {
		t.Errorf("the child is no zombie: %v", err)
	}
	if _, err := child.Wait(); err != nil {
		t.Error(err)
	}
}
