package kerberos

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/jcmturner/gokrb5/v8/config"
)

// A profile is what krb5.conf says, in order. gokrb5 reads one file without include directives,
// lets the last of several values count, and knows neither [capaths] nor default_ccache_name.
type profile []relation

// A relation is "name = value" in a section, and perhaps in a block of the section.
type relation struct {
	section, block, name string
	value                string
}

// readProfile reads the files of a list like that of KRB5_CONFIG, "a:b". Of several files some may
// be missing.
func readProfile(list string) (p profile, err error) {
	files := filepath.SplitList(list)
	found := false
	for _, file := range files {
		err = p.read(file, 0)
		switch {
		case err == nil:
			found = true
		case len(files) == 1 || !errors.Is(err, fs.ErrNotExist):
			return nil, fmt.Errorf("krb5.conf, %w", err)
		}
	}
	if !found {
		return nil, fmt.Errorf("krb5.conf: no file of %q exists", list)
	}
	return p, nil
}

// deepest is how deep includes may be nested.
const deepest = 10

// read appends what a file says. An included file begins with a section of its own.
func (p *profile) read(file string, depth int) error {
	if depth > deepest {
		return fmt.Errorf("%s: include: the files include each other", file)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	section, number := "", 0
	var blocks []string // open
	for line := range strings.Lines(string(text)) {
		number++
		if line = strings.TrimSpace(line); line == "" || strings.ContainsAny(line[:1], "#;") {
			continue
		}
		wrong := func(want string) error { return fmt.Errorf("%s, line %d: %q: want %s", file, number, line, want) }
		directive, argument, _ := strings.Cut(strings.ReplaceAll(line, "\t", " "), " ")
		argument = strings.TrimSpace(argument)
		switch {
		case directive == "include" && argument != "":
			err = p.read(argument, depth+1)
		case directive == "includedir" && argument != "":
			err = p.readFolder(argument, depth+1)
		case directive == "module": // of the C library
		case line[0] == '[':
			name, _, ok := strings.Cut(line[1:], "]")
			if !ok || len(blocks) > 0 {
				return wrong("[section], after all blocks")
			}
			section = name
		case line[0] == '}':
			if len(blocks) == 0 {
				return wrong("a block that is open")
			}
			blocks = blocks[:len(blocks)-1]
		default:
			name, value, ok := strings.Cut(line, "=")
			if !ok || section == "" {
				return wrong("name = value in a [section]")
			}
			name, value = strings.TrimRight(name, " \t*"), strings.TrimSpace(value)
			if value == "{" {
				blocks = append(blocks, name)
				continue
			}
			if i := strings.IndexAny(value, "#;"); i >= 0 {
				value = strings.TrimSpace(value[:i])
			}
			*p = append(*p, relation{section, strings.Join(blocks, " "), name, strings.Trim(value, `"`)})
		}
		if err != nil {
			return fmt.Errorf("%s, line %d: %s: %w", file, number, directive, err)
		}
	}
	return nil
}

// included are the names of the files that includedir reads.
var included = regexp.MustCompile(`^([A-Za-z0-9_-]+|[^.].*\.conf)$`)

// readFolder reads the files of a folder by name. Images of containers often lack the folder.
func (p *profile) readFolder(folder string, depth int) error {
	entries, err := os.ReadDir(folder)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, e := range entries {
		if included.MatchString(e.Name()) && !e.IsDir() {
			if err := p.read(filepath.Join(folder, e.Name()), depth); err != nil {
				return err
			}
		}
	}
	return nil
}

// all returns the values of a relation.
func (p profile) all(section, block, name string) (values []string) {
	for _, r := range p {
		if r.section == section && r.block == block && r.name == name {
			values = append(values, r.value)
		}
	}
	return values
}

// first returns the value that counts, or "".
func (p profile) first(section, block, name string) string {
	if values := p.all(section, block, name); len(values) > 0 {
		return values[0]
	}
	return ""
}

// realmOf returns the realm of a host: of its name, else of the longest end of the name, with the
// dot before it or without; "" if [domain_realm] has none.
func (p profile) realmOf(host string) string {
	for end := host; end != ""; {
		if realm := p.first("domain_realm", "", end); realm != "" {
			return realm
		}
		if rest, ok := strings.CutPrefix(end, "."); ok {
			end = rest
		} else if i := strings.IndexByte(end, '.'); i >= 0 {
			end = end[i:]
		} else {
			end = ""
		}
	}
	return ""
}

// between returns the realms that lie between two realms, in order.
func (p profile) between(from, to string) []string {
	return slices.DeleteFunc(p.all("capaths", from, to), func(realm string) bool { return realm == "." })
}

// cache returns default_ccache_name, or "".
func (p profile) cache() string {
	uid, euid := strconv.Itoa(os.Getuid()), strconv.Itoa(os.Geteuid())
	return strings.NewReplacer("%{uid}", uid, "%{USERID}", uid, "%{euid}", euid, "%{TEMP}", os.TempDir()).Replace(
		p.first("libdefaults", "", "default_ccache_name"))
}

// config returns what gokrb5 needs: the defaults and the KDCs.
func (p profile) config() (*config.Config, error) {
	defaults, realms, kdcs := "[libdefaults]\n", "[realms]\n", map[string]string{}
	for _, r := range p {
		switch {
		case r.section == "libdefaults" && r.block == "":
			defaults += r.name + " = " + p.first(r.section, "", r.name) + "\n"
		case r.section == "realms" && r.name == "kdc":
			kdcs[r.block] += "kdc = " + r.value + "\n"
		}
	}
	for realm, list := range kdcs {
		realms += realm + " = {\n" + list + "}\n"
	}
	return config.NewFromString(defaults + realms)
}
