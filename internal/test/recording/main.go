// Recording runs a command and writes what it prints as an animated SVG: a terminal in which the
// lines appear in the command's own time, narrow enough for a phone.
//
//	recording -title 'make demo' -until PROVED -o docs/demo.svg go run ./examples/demo
package main

import (
	"bufio"
	"errors"
	"flag"
	"fmt"
	"html"
	"os"
	"os/exec"
	"strings"
	"time"
)

const (
	columns = 56
	line    = 19.0 // high
	char    = 8.2  // wide
	margin  = 10.0
	hanging = 8               // spaces before the rest of a line that began with a space
	still   = 4 * time.Second // at the end, before it begins again
)

// printed is a line, and when it came.
type printed struct {
	text string
	at   time.Duration
}

func main() {
	title := flag.String("title", "", "the command as a reader types it")
	file := flag.String("o", "", "the picture to write")
	until := flag.String("until", "", "how the last line begins that is shown; default: all lines are shown")
	flag.Parse()
	lines, err := record(flag.Args(), *until)
	if err == nil {
		err = os.WriteFile(*file, []byte(draw(*title, lines)), 0o644)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "recording:", err)
		os.Exit(1)
	}
}

// record runs a command to its end, shows what it prints, and returns that, up to the first line
// that begins with until.
func record(args []string, until string) (lines []printed, err error) {
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	var began time.Time
	shown := false
	for in := bufio.NewScanner(out); in.Scan(); {
		if began.IsZero() {
			began = time.Now() // the compiler is not recorded
		}
		fmt.Println(in.Text())
		if shown {
			continue
		}
		for _, text := range wrap(in.Text()) {
			lines = append(lines, printed{text, time.Since(began)})
		}
		shown = until != "" && strings.HasPrefix(in.Text(), until)
	}
	if err := cmd.Wait(); err != nil {
		return nil, err
	}
	if len(lines) == 0 {
		return nil, errors.New("the command has printed nothing")
	}
	return lines, nil
}

// wrap breaks a line between words into lines that fit.
func wrap(text string) (lines []string) {
	for len(text) > columns {
		end := strings.LastIndexByte(text[:columns+1], ' ')
		if strings.TrimSpace(text[:max(end, 0)]) == "" {
			end = columns
		}
		lines = append(lines, text[:end])
		rest := strings.TrimLeft(text[end:], " ")
		if text[0] == ' ' {
			rest = strings.Repeat(" ", hanging) + rest
		}
		text = rest
	}
	return append(lines, text)
}

// draw returns the picture. A cover over the lines moves down when a line comes; where nothing
// moves, all lines are seen.
func draw(title string, lines []printed) string {
	var b strings.Builder
	add := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	all := lines[len(lines)-1].at + still
	percent := func(at time.Duration) float64 { return 100 * at.Seconds() / all.Seconds() }
	const width = columns*char + 2*margin
	rows := float64(len(lines)) * line
	height := line + rows + 2*margin
	add(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %.0f %.0f" width="%.0f" role="img" aria-label="%s">`, width, height, width, html.EscapeString(title))
	add(`<style>`)
	add(`text { font: 13.5px ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; fill: #e6edf3; white-space: pre }`)
	add(`.proved { fill: #56d364 } .title { fill: #58a6ff } .kill { fill: #ff7b72 }`)
	add(`#cover { fill: #0d1117; display: none }`)
	add(`@media (prefers-reduced-motion: no-preference) { #cover { display: inline; animation: move %.1fs step-end infinite } }`, all.Seconds())
	add(`@keyframes move {`)
	add(`0%% { transform: translateY(0px) }`)
	for i, l := range lines {
		if i+1 == len(lines) || lines[i+1].at-l.at > 20*time.Millisecond { // lines that come together appear together
			add(`%.2f%% { transform: translateY(%.0fpx) }`, max(percent(l.at), 0.01), float64(i+1)*line)
		}
	}
	add(`}`)
	add(`</style>`)
	add(`<rect width="100%%" height="100%%" rx="8" fill="#0d1117"/>`)
	add(`<text x="%.0f" y="%.0f">$ %s</text>`, margin, margin+line-4, html.EscapeString(title))
	add(`<svg x="0" y="%.0f" width="%.0f" height="%.0f">`, margin+line, width, rows)
	for i, l := range lines {
		add(`<text x="%.0f" y="%.0f"%s>%s</text>`, margin, float64(i+1)*line-4, class(l.text), html.EscapeString(l.text))
	}
	add(`<rect id="cover" width="100%%" height="100%%"/>`)
	add(`</svg>`)
	add(`</svg>`)
	return b.String()
}

func class(text string) string {
	switch {
	case strings.HasPrefix(text, "PROVED"), strings.HasPrefix(text, "ALL PROVED"):
		return ` class="proved"`
	case strings.Contains(text, "SIG"):
		return ` class="kill"`
	case len(text) > 1 && text[1] == '/':
		return ` class="title"`
	}
	return ""
}
