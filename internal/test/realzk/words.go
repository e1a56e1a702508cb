package realzk

import (
	"fmt"
	"io"
	"net"
	"strings"
	"time"
)

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
