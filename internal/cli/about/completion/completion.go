// Package completion completes command lines in bash, zsh and fish. The script that a shell loads
// only passes the words typed so far back to the program, so the answer always fits the program
// that is installed.
package completion

import (
	_ "embed"
	"fmt"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// Shell is a shell that has a script.
type Shell string

const (
	Bash Shell = "bash"
	Zsh  Shell = "zsh"
	Fish Shell = "fish"
)

var (
	//go:embed bash.sh
	bashScript string
	//go:embed zsh.sh
	zshScript string
	//go:embed fish.fish
	fishScript string
)

// Script returns the script that the shell loads.
func (s Shell) Script() string {
	return map[Shell]string{Bash: bashScript, Zsh: zshScript, Fish: fishScript}[s]
}

// Format returns candidates as the script of the shell expects them, one per line.
func (s Shell) Format(candidates []Candidate) string {
	var b strings.Builder
	for _, c := range candidates {
		switch s {
		case Zsh:
			fmt.Fprintf(&b, "%s:%s\n", strings.ReplaceAll(c.Word, ":", `\:`), c.Help)
		case Fish:
			fmt.Fprintf(&b, "%s\t%s\n", c.Word, c.Help)
		default:
			fmt.Fprintln(&b, c.Word)
		}
	}
	return b.String()
}

// Candidate is a word that may replace the one under the cursor.
type Candidate struct{ Word, Help string }

// Values returns the words that a flag or an argument of a command takes besides those of its enum.
// word is what was typed of it; candidates that do not begin with it are ignored.
type Values func(command *kong.Node, v *kong.Value, word string) []Candidate

// Candidates returns the words that may replace the last of words, which are the arguments typed so
// far. It returns none where a file name or free text belongs.
func Candidates(root *kong.Node, values Values, words []string) []Candidate {
	if len(words) == 0 {
		return nil
	}
	line := parse(root, words[:len(words)-1])
	line.values = values
	return matching(line.next(words[len(words)-1]), words[len(words)-1])
}

// line is what the words before the cursor select.
type line struct {
	command  *kong.Node
	flag     *kong.Flag // waits for its value
	args     int        // positional arguments given to command
	argsOnly bool       // after "--"
	values   Values
}

// parse never fails: a word that the grammar does not know counts as an argument.
func parse(root *kong.Node, words []string) line {
	l := line{command: root}
	for _, word := range words {
		switch {
		case word == "=": // bash splits --flag=value into three words
		case l.flag != nil:
			l.flag = nil
		case l.argsOnly:
			l.args++
		case word == "--":
			l.argsOnly = true
		case strings.HasPrefix(word, "-"):
			if f := findFlag(l.command, word); f != nil && !f.IsBool() && !f.IsCounter() {
				l.flag = f
			}
		case child(l.command, word) != nil:
			l.command, l.args = child(l.command, word), 0
		default:
			l.args++
		}
	}
	return l
}

// next returns everything that may follow, given the beginning of the word.
func (l line) next(word string) []Candidate {
	if l.flag != nil {
		return l.valuesOf(l.flag.Value, "", strings.TrimPrefix(word, "="))
	}
	if name, value, ok := strings.Cut(word, "="); ok && strings.HasPrefix(word, "--") {
		if f := findFlag(l.command, name); f != nil {
			return l.valuesOf(f.Value, name+"=", value)
		}
		return nil
	}
	var all []Candidate
	if strings.HasPrefix(word, "-") && !l.argsOnly {
		for n := l.command; n != nil; n = n.Parent {
			for _, f := range n.Flags {
				if !f.Hidden {
					all = append(all, Candidate{"--" + f.Name, f.Help})
				}
			}
		}
		return all
	}
	for _, c := range l.command.Children {
		if c.Type == kong.CommandNode && !c.Hidden {
			all = append(all, Candidate{c.Name, c.Help})
		}
	}
	if l.args < len(l.command.Positional) {
		all = append(all, l.valuesOf(l.command.Positional[l.args], "", word)...)
	}
	return all
}

func matching(all []Candidate, prefix string) (kept []Candidate) {
	if prefix == "=" {
		prefix = ""
	}
	for _, c := range all {
		if strings.HasPrefix(c.Word, prefix) {
			kept = append(kept, c)
		}
	}
	return kept
}

// valuesOf returns the words that a flag or an argument takes, if they are known. A flag may take
// several, with commas between them.
func (l line) valuesOf(v *kong.Value, prefix, word string) (all []Candidate) {
	if v.IsSlice() && v.Flag != nil {
		end := strings.LastIndexByte(word, ',') + 1
		prefix, word = prefix+word[:end], word[end:]
	}
	for _, word := range v.EnumSlice() {
		all = append(all, Candidate{Word: word})
	}
	if l.values != nil {
		all = append(all, l.values(l.command, v, word)...)
	}
	all = slices.DeleteFunc(all, func(c Candidate) bool { return c.Word == "" })
	for i := range all {
		all[i].Word = prefix + all[i].Word
	}
	return all
}

func child(n *kong.Node, name string) *kong.Node {
	for _, c := range n.Children {
		if c.Type == kong.CommandNode && c.Name == name {
			return c
		}
	}
	return nil
}

// findFlag returns the flag of a command or one of its parents that a word without "=" names.
func findFlag(n *kong.Node, word string) *kong.Flag {
	for ; n != nil; n = n.Parent {
		for _, f := range n.Flags {
			if word == "--"+f.Name || f.Short != 0 && word == "-"+string(f.Short) {
				return f
			}
		}
	}
	return nil
}
