package main

import (
	"flag"
	"fmt"
	"slices"
	"strings"
)

func completionCommand() *command {
	c := newCommand("completion", "bash | zsh | fish", "have the shell complete commands and flags", `
Writes a script for the shell.

  bash:  source <(zklock completion bash)          in ~/.bashrc
  zsh:   source <(zklock completion zsh)           in ~/.zshrc, after compinit
  fish:  zklock completion fish > ~/.config/fish/completions/zklock.fish
`)
	c.run = func(args []string) error {
		shells := map[string]func([]*command) string{"bash": bash, "zsh": zsh, "fish": fish}
		if len(args) != 1 || shells[args[0]] == nil {
			return usage("for which shell? bash, zsh or fish")
		}
		fmt.Print(shells[args[0]](commands()))
		return nil
	}
	return c
}

// takesValue reports whether a flag has a value; a boolean flag has none.
func takesValue(f *flag.Flag) bool {
	b, ok := f.Value.(interface{ IsBoolFlag() bool })
	return !ok || !b.IsBoolFlag()
}

// takesFile reports whether a flag's value is the name of a file.
func takesFile(f *flag.Flag) bool { name, _ := described(f); return name == "file" }

// summary returns the first line of a flag's usage.
func summary(f *flag.Flag) string {
	_, text := described(f)
	text, _, _ = strings.Cut(text, "\n")
	return text
}

func bash(all []*command) string {
	var names, files []string
	var cases strings.Builder
	for _, c := range all {
		names = append(names, c.name)
		var flags []string
		c.flags.VisitAll(func(f *flag.Flag) {
			flags = append(flags, "-"+f.Name)
			if takesFile(f) && !slices.Contains(files, "-"+f.Name) {
				files = append(files, "-"+f.Name)
			}
		})
		if c.name == "completion" {
			flags = []string{"bash", "zsh", "fish"}
		}
		fmt.Fprintf(&cases, "\t%s) words=%q ;;\n", c.name, strings.Join(flags, " "))
	}
	return fmt.Sprintf(`_zklock() {
	local i words=
	if [ "$COMP_CWORD" -eq 1 ]; then
		COMPREPLY=($(compgen -W %q -- "${COMP_WORDS[1]}"))
		return
	fi
	for ((i = 2; i < COMP_CWORD; i++)); do
		if [ "${COMP_WORDS[i]}" = -- ]; then # the rest is a command line of its own
			COMPREPLY=($(compgen -c -f -- "${COMP_WORDS[COMP_CWORD]}"))
			return
		fi
	done
	case ${COMP_WORDS[COMP_CWORD - 1]} in
	%s)
		COMPREPLY=($(compgen -f -- "${COMP_WORDS[COMP_CWORD]}"))
		return
		;;
	esac
	case ${COMP_WORDS[1]} in
%s	esac
	COMPREPLY=($(compgen -W "$words" -- "${COMP_WORDS[COMP_CWORD]}"))
}
complete -F _zklock zklock
`, strings.Join(names, " "), strings.Join(files, " | "), cases.String())
}

func zsh(all []*command) string {
	var names, cases strings.Builder
	for _, c := range all {
		fmt.Fprintf(&names, "\t\t%s\n", single(c.name+":"+c.short))
		fmt.Fprintf(&cases, "\t%s) _arguments", c.name)
		c.flags.VisitAll(func(f *flag.Flag) {
			spec := "-" + f.Name + "[" + strings.NewReplacer("[", "(", "]", ")").Replace(summary(f)) + "]"
			if takesValue(f) {
				name, _ := described(f)
				spec += ":" + strings.ReplaceAll(name, ":", " ") + ":"
				if takesFile(f) {
					spec += "_files"
				}
			}
			cases.WriteString(" " + single(spec))
		})
		switch c.name {
		case "completion":
			cases.WriteString(" '1:shell:(bash zsh fish)'")
		case "dev", "version": // take no path
		case "run":
			cases.WriteString(" '1:path:' '*::command:_normal'")
		default:
			cases.WriteString(" '1:path:'")
		}
		cases.WriteString(" ;;\n")
	}
	// The last line is for a file in $fpath: at the first completion zsh calls the file itself.
	return fmt.Sprintf(`#compdef zklock
_zklock() {
	local -a names=(
%s	)
	if ((CURRENT == 2)); then
		_describe command names
		return
	fi
	local name=$words[2]
	shift words
	((CURRENT--))
	case $name in
%s	esac
}
compdef _zklock zklock
[[ $funcstack[1] != _zklock ]] || _zklock "$@"
`, names.String(), cases.String())
}

func fish(all []*command) string {
	var b strings.Builder
	b.WriteString("complete -c zklock -f\n")
	for _, c := range all {
		fmt.Fprintf(&b, "complete -c zklock -n __fish_use_subcommand -a %s -d %s\n", c.name, single(c.short))
		c.flags.VisitAll(func(f *flag.Flag) {
			value := ""
			switch {
			case takesFile(f):
				value = " -r -F"
			case takesValue(f):
				value = " -x"
			}
			fmt.Fprintf(&b, "complete -c zklock -n '__fish_seen_subcommand_from %s' -o %s%s -d %s\n", c.name, f.Name, value, single(summary(f)))
		})
	}
	b.WriteString("complete -c zklock -n '__fish_seen_subcommand_from completion' -a 'bash zsh fish'\n")
	b.WriteString("complete -c zklock -n 'contains -- -- (commandline -opc)' -a '(__fish_complete_subcommand)'\n")
	return b.String()
}

// single quotes a word for all three shells.
func single(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }
