package team

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"signalbox/internal/config"
	"signalbox/internal/text"
)

// Describe says what trusting the configuration means, in lines for a person to read. known is what
// the user trusts so far: what has not changed since is omitted. The settings come last, where the
// reader sees them next to the question. Text of the repository is escaped, and each of its lines
// is marked, so that it cannot look like ours.
func (s *Shared) Describe(known *Record) string {
	var b strings.Builder
	var before map[string][]byte
	if known != nil {
		before = known.Files
	}
	for _, name := range unionOf(s.Files, before) {
		old, had := before[name]
		now, has := s.Files[name]
		switch {
		case had && has && string(old) == string(now):
		case had && has:
			fmt.Fprintf(&b, "%s has changed:\n%s\n", text.Printable(name),
				diff(string(old), string(now)))
		case has && name != config.FileName: // its settings are shown instead
			fmt.Fprintf(&b, "%s, %s:\n%s\n", text.Printable(name),
				text.Count(lineCount(now), "line"), mark("|", string(now)))
		case had:
			fmt.Fprintf(&b, "%s was removed\n\n", text.Printable(name))
		}
	}
	b.WriteString(DescribeSettings(s.Files[config.FileName], before[config.FileName]))
	return b.String()
}

func unionOf(a, b map[string][]byte) []string {
	all := maps.Clone(a)
	if all == nil {
		all = map[string][]byte{}
	}
	maps.Copy(all, b)
	return slices.Sorted(maps.Keys(all))
}

func lineCount(content []byte) int {
	return len(strings.Split(strings.TrimSuffix(string(content), "\n"), "\n"))
}

// mark returns the lines of a text, escaped, each after a mark.
func mark(with, content string) string {
	var b strings.Builder
	for _, line := range lines(content) {
		b.WriteString("  " + with + " " + text.Printable(line) + "\n")
	}
	return b.String()
}

func lines(content string) []string {
	if content == "" {
		return nil
	}
	return strings.Split(strings.TrimSuffix(content, "\n"), "\n")
}

// kinds are what settings are about, by a name in their path. The first that fits counts.
var kinds = []struct {
	title string
	names []string
}{
	{"environment variables", []string{"env", "env_pass", "key_env", "token_env", "headers"}},
	{"programs and servers", []string{"command", "run", "args", "setup", "tree", "preset", "agent",
		"base_url", "url", "webhook", "webhooks", "notify", "traces", "tools", "deliver"}},
	{"files", []string{"read", "write", "copy", "file", "code", "notes", "portfolio", "prompt",
		"prompts", "words"}},
	{"other settings", nil},
}

// DescribeSettings lists the settings in a configuration by what they are about. If before is not
// nil, it lists those that are not the same as before, with + and -.
func DescribeSettings(now, before []byte) string {
	groups := make([]strings.Builder, len(kinds))
	add := func(sign string, s config.Setting) {
		names := strings.FieldsFunc(s.Name,
			func(r rune) bool { return strings.ContainsRune(".[]", r) })
		i := slices.IndexFunc(kinds, func(k struct {
			title string
			names []string
		}) bool {
			return k.names == nil ||
				slices.ContainsFunc(names,
					func(name string) bool { return slices.Contains(k.names, name) })
		})
		fmt.Fprintf(&groups[i], "  %s%s: %s\n", sign, text.Printable(s.Name),
			text.Printable(s.Value))
	}
	current, err := config.ShowTeam(now)
	if err != nil {
		return text.Printable(err.Error()) + "\n"
	}
	if before == nil {
		for _, s := range current {
			add("", s)
		}
	} else {
		// an older version of the program may have accepted what this one does not
		old, _ := config.ShowTeam(before)
		for _, s := range old {
			if !slices.Contains(current, s) {
				add("- ", s)
			}
		}
		for _, s := range current {
			if !slices.Contains(old, s) {
				add("+ ", s)
			}
		}
	}
	var b strings.Builder
	for i, k := range kinds {
		if groups[i].Len() > 0 {
			fmt.Fprintf(&b, "%s:\n%s", k.title, groups[i].String())
		}
	}
	return b.String()
}

// Limits of diff.
const (
	diffContext = 2
	maxDiff     = 4 << 20 // pairs of lines to compare
)

// diff returns the lines that differ, marked with - and +, and a few lines around them.
func diff(before, now string) string {
	a, b := lines(before), lines(now)
	start := 0
	for start < len(a) && start < len(b) && a[start] == b[start] {
		start++
	}
	end := 0
	for end < len(a)-start && end < len(b)-start && a[len(a)-1-end] == b[len(b)-1-end] {
		end++
	}
	type edit struct{ sign, line string }
	var edits []edit
	for _, line := range a[:start] {
		edits = append(edits, edit{" ", line})
	}
	old, fresh := a[start:len(a)-end], b[start:len(b)-end]
	if len(old)*len(fresh) > maxDiff {
		for _, line := range old {
			edits = append(edits, edit{"-", line})
		}
		for _, line := range fresh {
			edits = append(edits, edit{"+", line})
		}
	} else {
		common := commonLengths(old, fresh)
		for i, j := 0, 0; i < len(old) || j < len(fresh); {
			switch {
			case i < len(old) && j < len(fresh) && old[i] == fresh[j]:
				edits = append(edits, edit{" ", old[i]})
				i, j = i+1, j+1
			case j == len(fresh) || i < len(old) && common[i+1][j] >= common[i][j+1]:
				edits = append(edits, edit{"-", old[i]})
				i++
			default:
				edits = append(edits, edit{"+", fresh[j]})
				j++
			}
		}
	}
	for _, line := range a[len(a)-end:] {
		edits = append(edits, edit{" ", line})
	}
	var out strings.Builder
	omitted := false
	for i, e := range edits {
		near := slices.ContainsFunc(edits[max(i-diffContext, 0):min(i+diffContext+1, len(edits))],
			func(e edit) bool { return e.sign != " " })
		if near {
			out.WriteString("  " + e.sign + " " + text.Printable(e.line) + "\n")
		} else if !omitted {
			out.WriteString("  ...\n")
		}
		omitted = !near
	}
	return out.String()
}

// commonLengths returns the length of the longest common subsequence of a[i:] and b[j:] for each i
// and j.
func commonLengths(a, b []string) [][]int {
	table := make([][]int, len(a)+1)
	for i := range table {
		table[i] = make([]int, len(b)+1)
	}
	for i := len(a) - 1; i >= 0; i-- {
		for j := len(b) - 1; j >= 0; j-- {
			if a[i] == b[j] {
				table[i][j] = table[i+1][j+1] + 1
			} else {
				table[i][j] = max(table[i+1][j], table[i][j+1])
			}
		}
	}
	return table
}
