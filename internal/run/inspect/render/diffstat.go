package render

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"signalbox/internal/run/changes"
	"signalbox/internal/run/workspace"
	"signalbox/internal/show"
	"signalbox/internal/text"
)

// maxStatFiles is how many files a diffstat lists.
const maxStatFiles = 20

// maxHiddenLines is how many lines a notice about invisible characters may take.
const maxHiddenLines = 12

// DiffStat returns the lines of a diffstat, as git diff --stat prints them, in at most width
// columns. A notice about invisible characters comes first.
func DiffStat(c changes.Change, width int) []string {
	files := c.Files[:min(len(c.Files), maxStatFiles)]
	if len(files) == 0 {
		return nil
	}
	names, longest, most := make([]string, len(files)), 0, 1
	for i, f := range files {
		names[i] = shortenPath(statName(f), max(width-24, 16))
		longest = max(longest, utf8.RuneCountInString(names[i]))
		most = max(most, f.Insertions+f.Deletions)
	}
	digits := max(len(fmt.Sprint(most)), len("bin"))
	room := max(width-longest-digits-5, 3) // one is for rounding up
	var lines []string
	if c.Hidden != "" {
		lines = show.Wrap("warning: "+c.Hidden, width, maxHiddenLines)
	}
	for i, f := range files {
		pad := strings.Repeat(" ", longest-utf8.RuneCountInString(names[i]))
		if f.Binary {
			lines = append(lines, fmt.Sprintf("%s%s | %*s", names[i], pad, digits, "bin"))
			continue
		}
		plus, minus := scaled(f.Insertions, most, room), scaled(f.Deletions, most, room)
		graph := strings.Repeat("+", plus) + strings.Repeat("-", minus)
		lines = append(lines,
			strings.TrimRight(fmt.Sprintf("%s%s | %*d %s", names[i], pad, digits,
				f.Insertions+f.Deletions, graph), " "))
	}
	if more := len(c.Files) - len(files); more > 0 {
		lines = append(lines, "… and "+text.Count(more, "more file"))
	}
	return append(lines, fmt.Sprintf("%s changed, %s(+), %s(-)", text.Count(len(c.Files), "file"),
		text.Count(c.Insertions, "insertion"), text.Count(c.Deletions, "deletion")))
}

func statName(f workspace.FileStat) string {
	if f.From != "" {
		return text.Printable(f.From + " => " + f.Path)
	}
	return text.Printable(f.Path)
}

// scaled returns how many characters stand for n lines if room characters stand for most lines. A
// line is never nothing.
func scaled(n, most, room int) int {
	if most <= room || n == 0 {
		return n
	}
	return max(1, n*room/most)
}

// shortenPath drops the beginning of a path that is too long, because its end says more.
func shortenPath(name string, limit int) string {
	runes := []rune(name)
	if len(runes) <= limit {
		return name
	}
	return "…" + string(runes[len(runes)-limit+1:])
}
