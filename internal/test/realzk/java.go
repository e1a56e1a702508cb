package realzk

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
)

// javaHome is the program and the class path with which a server is started.
type javaHome struct {
	java      string
	classPath string
}

// ErrNotInstalled means that Java or ZooKeeper was not found in the usual places. A variable with a
// wrong path is another error.
var ErrNotInstalled = errors.New("realzk: not installed")

var findJava = sync.OnceValues(func() (javaHome, error) {
	java, err := findProgram()
	if err != nil {
		return javaHome{}, err
	}
	classPath, err := findClassPath()
	if err != nil {
		return javaHome{}, err
	}
	return javaHome{java: java, classPath: classPath}, nil
})

func findProgram() (string, error) {
	if os.Getenv(LeftOutEnv) != "" && os.Getenv(realEnv) == "" {
		return "", ErrNotInstalled
	}
	if home := os.Getenv("JAVA_HOME"); home != "" {
		java := filepath.Join(home, "bin", "java")
		if _, err := os.Stat(java); err == nil {
			return java, nil
		}
	}
	java, err := exec.LookPath("java")
	if err != nil {
		return "", fmt.Errorf("%w: no java in JAVA_HOME or PATH: ZooKeeper needs Java 8 or newer", ErrNotInstalled)
	}
	return java, nil
}

func findClassPath() (string, error) {
	for _, env := range []string{"ZK_HOME", "ZOOKEEPER_HOME"} {
		home := os.Getenv(env)
		if home == "" {
			continue
		}
		// If the variable is set, only the ZooKeeper that it names is used.
		if cp := jarsUnder(home); cp != "" {
			return cp, nil
		}
		return "", fmt.Errorf("realzk: no zookeeper jar under %s=%s", env, home)
	}
	// The manifest of the Debian package's jar names its dependencies.
	const debian = "/usr/share/java/zookeeper.jar"
	if _, err := os.Stat(debian); err == nil {
		return debian, nil
	}
	homes := []string{
		"/opt/zookeeper",
		"/usr/local/zookeeper",
		"/usr/share/zookeeper",
		"/opt/homebrew/opt/zookeeper/libexec",
		"/usr/local/opt/zookeeper/libexec",
		"/home/linuxbrew/.linuxbrew/opt/zookeeper/libexec",
	}
	for _, home := range homes {
		if cp := jarsUnder(home); cp != "" {
			return cp, nil
		}
	}
	return "", fmt.Errorf("%w: no ZooKeeper in %s or %s: run make zookeeper, or set ZK_HOME",
		ErrNotInstalled, debian, strings.Join(homes, ", "))
}

// jarsUnder returns the class path of an unpacked ZooKeeper, or "" if there is none. It omits the
// logging back ends: without configuration they print every packet at debug level.
func jarsUnder(home string) string {
	var jars []string
	found := false
	for _, dir := range []string{filepath.Join(home, "lib"), home} {
		names, _ := filepath.Glob(filepath.Join(dir, "*.jar"))
		for _, name := range names {
			base := filepath.Base(name)
			switch {
			case strings.HasPrefix(base, "logback"), strings.HasPrefix(base, "log4j"),
				strings.HasPrefix(base, "slf4j-log4j"), strings.HasPrefix(base, "slf4j-reload4j"),
				strings.HasPrefix(base, "reload4j"):
				continue
			case strings.HasPrefix(base, "zookeeper-jute"), strings.HasPrefix(base, "zookeeper-prometheus"):
			case strings.HasPrefix(base, "zookeeper"):
				found = true
			}
			jars = append(jars, name)
		}
	}
	if !found {
		return ""
	}
	return strings.Join(jars, string(os.PathListSeparator))
}
