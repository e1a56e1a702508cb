package main

import (
	"fmt"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"
)

// table formats a line for people. The table is small, and must also fit into pipes and mails, so
// package tabwriter is enough.
func (l *line) table(now time.Time) string {
	var b strings.Builder
	b.WriteString(l.Path + ": " + l.summary())
	if l.ensemble {
		b.WriteString(" (" + l.Server + " was asked)")
	}
	b.WriteByte('\n')
	if len(l.Members) == 0 {
		return b.String()
	}
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "STATE\tKIND\tQUEUED\tSESSION\tTOKEN\tDATA")
	for _, m := range l.Members {
		data := printable(m.Data)
		if m.Asked {
			data = strings.TrimSpace("asked to release " + data)
		}
		fmt.Fprintf(w, "%s\t%s\t%v ago\t%s\t%d\t%s\n", m.state(), m.what(), age(now.Sub(m.Since)), m.Session, m.Token, data)
	}
	_ = w.Flush()
	return b.String()
}

// what returns what a member holds or waits for.
func (m member) what() string {
	if m.Permits > 1 {
		return fmt.Sprintf("%d permits", m.Permits)
	}
	return m.Kind
}

func (m member) state() string {
	switch {
	case m.Holding:
		return "holds"
	case m.Perhaps:
		return "holds?"
	}
	return "waits"
}

func (l *line) summary() string {
	holding, waiting, inUse, perhaps := 0, 0, 0, 0
	for _, m := range l.Members {
		switch {
		case m.Holding:
			holding++
			inUse += m.Permits
		case m.Perhaps:
			perhaps += m.Permits
		default:
			waiting++
		}
	}
	text := l.Kind
	if l.Permits > 0 {
		text += fmt.Sprintf(", %d of %d permits in use", inUse, l.Permits)
	}
	if perhaps > 0 {
		text += fmt.Sprintf(" (perhaps %d: the number was changed meanwhile)", inUse+perhaps)
	}
	if l.Last != nil {
		text += ", last run until " + l.Last.End.Format(time.RFC3339) + " on " + printable(l.Last.Host)
		if l.Last.Slot != "" {
			text += " for slot " + printable(l.Last.Slot)
		}
	}
	if text != "" {
		text += ", "
	}
	switch {
	case l.Missing:
		return "there is no such path"
	case l.below:
		return "no holder, no waiter; zklock ls -r lists the locks below it"
	case len(l.Members) == 0:
		return text + "no holder, no waiter"
	}
	if unsure := len(l.Members) - holding - waiting; unsure > 0 {
		return text + fmt.Sprintf("%d holding, %d perhaps, %d waiting", holding, unsure, waiting)
	}
	return text + fmt.Sprintf("%d holding, %d waiting", holding, waiting)
}

// age returns the time since an instant of a server's clock, which may be a little ahead of ours.
func age(d time.Duration) time.Duration { return max(0, d).Round(time.Second) }

// printable replaces characters that could move the cursor in text that other clients have written.
func printable(data string) string {
	const most = 80
	text := []rune(strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return '.'
		}
		return r
	}, data))
	if len(text) > most {
		text = append(text[:most-1], '…')
	}
	return string(text)
}
