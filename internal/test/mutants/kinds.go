package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

var kindOfWorlds = regexp.MustCompile(`\bname: "([a-z ]+)"`)

// kinds prints which kinds of the explorer's worlds find a mutant, each kind alone, and how soon. In
// the end it prints for each kind how many mutants it finds, and those that no other kind finds.
func (l *lab) kinds(trials []trial, jobs int) {
	src, err := os.ReadFile(filepath.Join(l.root, filepath.FromSlash(explorer.pkg), "kinds_test.go"))
	exitOn(err)
	all := kindOfWorlds.FindAllStringSubmatch(string(src), -1)
	finders := make([][]string, len(trials))
	l.each(jobs, len(trials), func(i int) {
		dir, err := os.MkdirTemp(l.dir, "copy-")
		exitOn(err)
		defer os.RemoveAll(dir)
		program, err := l.build(dir, explorer.pkg, trials[i].changed)
		exitOn(err)
		var finds []string
		for _, kind := range all {
			began := time.Now()
			if v, _ := l.run(program, explorer, kind[1], l.explore+10*time.Second); v == killed {
				finders[i] = append(finders[i], kind[1])
				finds = append(finds, fmt.Sprintf("%s in %.1f s", kind[1], time.Since(began).Seconds()))
			}
		}
		fmt.Printf("%s: %d of %d kinds: %s\n", trials[i].name, len(finds), len(all), strings.Join(finds, ", "))
	})
	for _, kind := range all {
		found, alone := 0, []string(nil)
		for i := range trials {
			if slices.Contains(finders[i], kind[1]) {
				if found++; len(finders[i]) == 1 {
					alone = append(alone, trials[i].name)
				}
			}
		}
		fmt.Printf("%-20s %3d  %s\n", kind[1], found, strings.Join(alone, ", "))
	}
}
