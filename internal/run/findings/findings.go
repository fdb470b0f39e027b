// Package findings reads what agents write about findings: the lists of critics and auditors, and
// lines such as "F2: fixed" or "F2: disputed, because …". It only reads text.
package findings

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"signalbox/internal/core/rules"
)

// lists are the fields of a verdict that list findings, and notes those that list what does not
// block. Required Fixes often says the same as Issues Found in other words, so it counts only
// without it.
var (
	lists = []string{"Issues Found", "Failed Criteria", "Findings", "Replies", "Failed Checks"}
	fixes = []string{"Required Fixes", "Summary", "text"}
	notes = []string{"Notes", "Note", "Nits"}
)

// Task is the task that a signal is about: its names, and its acceptance criteria.
type Task struct {
	Names, Criteria []string
}

// maxSaid is how much a signal can say about findings. A task has fewer, and the rest of a longer
// list stays in the text of the signal.
const maxSaid = 500

// FromVerdict returns what the fields of a verdict say about findings. failed means that the work
// did not pass: then a verdict without a list says one thing, vaguely: its text.
func FromVerdict(fields map[string]any, task Task, failed bool) []rules.SaidFinding {
	said := named(fields)
	if failed {
		listed := fromLists(fields, lists, "")
		if len(listed) == 0 {
			for _, label := range fixes {
				if listed = fromLists(fields, []string{label}, ""); len(listed) > 0 {
					break
				}
			}
			if len(listed) == 1 && listed[0].ID == "" && listed[0].Says == rules.SaidFound {
				listed[0].Says = rules.SaidVaguely
			}
		}
		said = append(said, listed...)
	}
	said = append(said, fromLists(fields, notes, rules.SaidNote)...)
	said = task.own(said)
	shown := false // by a field of its own, which belongs to one of them
	for label := range fields {
		shown = shown || strings.EqualFold(label, "Shown by")
	}
	for i := range said {
		f := &said[i]
		if all := Places(f.Text); f.ID == "" && len(all) > 0 {
			f.Place = all[0].String()
		}
		f.Basis, f.Criterion = basis(f.Text, task.Criteria)
		if f.Basis == "" && shown {
			f.Basis = rules.BasisShown
		}
	}
	return said
}

// own removes the name of the task from ids. It leaves out replies to findings of other tasks, and
// entries that say the same about a finding as an earlier one. If two say different things, both
// count.
func (t Task) own(said []rules.SaidFinding) (kept []rules.SaidFinding) {
	type point struct {
		id   string
		says rules.Said
	}
	seen := map[point]bool{}
	for _, f := range said {
		if slash := strings.LastIndexByte(f.ID, '/'); slash >= 0 {
			if other := f.ID[:slash]; !slices.Contains(t.Names, other) {
				if f.Says == rules.SaidFixed || f.Says == rules.SaidDisputed {
					continue
				}
				f.Text, f.ID = f.ID+": "+f.Text, ""
			}
			f.ID = f.ID[min(len(f.ID), slash+1):]
		}
		if p := (point{f.ID, f.Says}); f.ID == "" || !seen[p] {
			seen[p] = true
			kept = append(kept, f)
		}
		if len(kept) == maxSaid {
			break
		}
	}
	return kept
}

// FromReply returns what the fields of a developer's signal say about findings that they name.
func FromReply(fields map[string]any, task Task) (said []rules.SaidFinding) {
	listed := fromLists(fields, slices.Concat(lists, fixes), "")
	for _, f := range append(named(fields), listed...) {
		if f.ID != "" {
			f.Says = reply(f.Text)
			said = append(said, f)
		}
	}
	return slices.DeleteFunc(task.own(said),
		func(f rules.SaidFinding) bool { return f.ID == "" })
}

// named returns the fields whose label is the id of a finding, in the order of the ids. What follows
// such a field as a list belongs to the list before it.
func named(fields map[string]any) (said []rules.SaidFinding) {
	for _, label := range slices.Sorted(maps.Keys(fields)) {
		id, rest := cutID(label)
		if id == "" || rest != "" {
			continue
		}
		for i, line := range texts(fields[label]) {
			if i == 0 {
				line = label + ": " + line
			}
			said = append(said, parse(line, ""))
		}
	}
	number := func(f rules.SaidFinding) string { return f.ID[strings.LastIndexByte(f.ID, '/')+1:] }
	slices.SortStableFunc(said, func(a, b rules.SaidFinding) int {
		return cmp.Or(cmp.Compare(len(number(a)), len(number(b))),
			cmp.Compare(number(a), number(b)))
	})
	return said
}

// fromLists returns the items of the fields with these labels.
func fromLists(fields map[string]any, labels []string, says rules.Said) (said []rules.SaidFinding) {
	for _, label := range labels {
		for _, item := range texts(fields[label]) {
			if f := parse(item, says); f.ID != "" || f.Text != "" && !nothing(f.Text) {
				said = append(said, f)
			}
		}
	}
	return said
}

// nothing reports whether an item says that there is none.
func nothing(item string) bool {
	item = strings.ToLower(strings.Trim(item, ". "))
	return item == "none" || item == "n/a" || item == "nothing" || item == "-"
}

// texts returns the items of a field: those of a list, or the paragraph before the first line that
// begins an item and then each item.
func texts(field any) (items []string) {
	switch v := field.(type) {
	case []string:
		for _, item := range v {
			items = append(items, texts(item)...)
		}
	case []any:
		for _, item := range v {
			items = append(items, texts(item)...)
		}
	case string:
		fence := "" // what is quoted says nothing
		for line := range strings.Lines(v) {
			line = strings.TrimRight(line, "\r\n")
			quoted := fence != ""
			switch mark := fenceOf(line); {
			case !quoted:
				fence, quoted = mark, mark != ""
			case len(mark) >= len(fence) && mark[0] == fence[0] && strings.TrimSpace(line) == mark:
				fence = ""
			}
			if bare := unlisted(line); len(items) == 0 || !quoted && begins(line, bare) {
				items = append(items, bare)
			} else {
				items[len(items)-1] += "\n" + line
			}
		}
		for i := range items {
			items[i] = strings.TrimSpace(items[i])
		}
		items = slices.DeleteFunc(items, func(s string) bool { return s == "" })
	}
	return items
}

// fenceOf returns the mark that a line begins with and that opens or closes a code block, "" if
// there is none.
func fenceOf(line string) string {
	line = strings.TrimSpace(line)
	for _, mark := range []string{"`", "~"} {
		if n := len(line) - len(strings.TrimLeft(line, mark)); n >= 3 {
			return line[:n]
		}
	}
	return ""
}

// begins reports whether a line begins an item. bare is the line without the mark of a list.
func begins(line, bare string) bool {
	id, _ := cutID(bare)
	_, note := cutWord(bare, noteWords...)
	return bare != strings.TrimSpace(line) || id != "" || note
}

var noteWords = []string{"note", "nit", "minor", "optional"}

// unlisted returns a line without the mark of a list before it.
func unlisted(line string) string {
	line = strings.TrimSpace(line)
	for _, mark := range []string{"- ", "* ", "• "} {
		if rest, found := strings.CutPrefix(line, mark); found {
			return strings.TrimSpace(rest)
		}
	}
	digits := strings.TrimLeft(line, "0123456789")
	if n := len(line) - len(digits); n > 0 && n < 4 {
		for _, mark := range []string{". ", ") "} {
			if rest, found := strings.CutPrefix(digits, mark); found {
				return strings.TrimSpace(rest)
			}
		}
	}
	return line
}

// parse reads one item.
func parse(item string, says rules.Said) rules.SaidFinding {
	id, rest := cutID(item)
	if id == "" {
		if note, found := cutWord(item, noteWords...); found {
			return rules.SaidFinding{Text: note, Says: rules.SaidNote}
		}
		item, _ = cutWord(item, "blocking", "blocker")
		return rules.SaidFinding{Text: item, Says: says}
	}
	return rules.SaidFinding{ID: id, Text: rest, Says: verdict(rest)}
}

// describes reports whether a text continues a word as a description, like "fixed-size buffer" or
// "done callback", and not as a statement, like "fixed, thanks" or "resolved in a.go".
func describes(rest string) bool {
	next, _ := firstWord(rest)
	return strings.HasPrefix(rest, "-") || strings.HasPrefix(rest, " ") && next != "" &&
		!slices.Contains([]string{"in", "by", "as", "at", "with", "since", "and"}, next)
}

// verdict returns what a reviewer says about a finding. What is not understood means that it is not
// fixed, and so does a doubt after "fixed".
func verdict(text string) rules.Said {
	switch word, rest := firstWord(text); {
	case word == "note":
		return rules.SaidNote
	case slices.Contains(fixedWords, word) && !describes(rest) && !doubtful(rest),
		strings.HasPrefix(bare(text), "not a defect"):
		return rules.SaidFixed
	}
	return rules.SaidFound
}

// reply returns what a developer says about a finding, SaidFound if that is nothing.
func reply(text string) rules.Said {
	word, _ := firstWord(text)
	for _, start := range []string{"disput", "disagree", "not a defect", "won't fix", "wontfix"} {
		if strings.HasPrefix(bare(text), start) {
			return rules.SaidDisputed
		}
	}
	if slices.Contains(fixedWords, word) {
		return rules.SaidFixed
	}
	return rules.SaidFound
}

var fixedWords = []string{"fixed", "resolved", "withdrawn", "done", "addressed"}

// doubtful reports whether a text takes something back.
func doubtful(text string) bool {
	for _, word := range strings.FieldsFunc(strings.ToLower(text), func(r rune) bool {
		return !unicode.IsLetter(r) && r != '?' && r != '\''
	}) {
		if strings.Contains(word, "?") || strings.HasSuffix(word, "n't") ||
			slices.Contains(doubts, word) {
			return true
		}
	}
	return false
}

var doubts = []string{"but", "however", "except", "although", "though", "only", "not", "no", "never",
	"partly", "partially", "still", "wrong", "wrongly", "badly", "now", "unless", "yet", "instead"}

func bare(text string) string { return strings.ToLower(strings.TrimLeft(text, "*_`[( ")) }

// firstWord splits a text after its first word, which is in lower case.
func firstWord(text string) (word, rest string) {
	text = bare(text)
	end := strings.IndexFunc(text, func(r rune) bool { return !unicode.IsLetter(r) })
	if end < 0 {
		return text, ""
	}
	return text[:end], text[end:]
}

// cutID splits a line into the id of a finding that it begins with, such as F2 or T1/F2, and the
// rest. The id is "" if there is none, or if the line continues as a sentence about something else
// with such a name.
func cutID(line string) (id, rest string) {
	word := strings.TrimLeft(line, "*_`[( ")
	end := strings.IndexFunc(word, func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("-./_", r)
	})
	rest = ""
	if end >= 0 {
		word, rest = word[:end], word[end:]
	}
	task := word[:strings.LastIndexByte(word, '/')+1]
	digits, found := strings.CutPrefix(strings.TrimRight(word[len(task):], ".-_"), "F")
	n, err := strconv.ParseUint(digits, 10, 16)
	if !found || err != nil || n == 0 || digits[0] == '0' {
		return "", line
	}
	rest = strings.TrimLeft(rest, "*_`])")
	said := strings.TrimSpace(strings.TrimLeft(rest, " :\t-–—"))
	next, _ := firstWord(said)
	separated := said == "" || strings.ContainsAny(rest[:len(rest)-len(strings.TrimLeft(rest, " :\t-–—"))], ":-–—")
	if !separated && next != "not" && next != "still" && !slices.Contains(fixedWords, next) &&
		!strings.HasPrefix(next, "disput") {
		return "", line
	}
	return task + "F" + digits, said
}

// cutWord removes one of the words from the beginning of an item, with the marks around it.
func cutWord(item string, words ...string) (rest string, found bool) {
	bare := strings.TrimLeft(item, "*_`[( ")
	for _, word := range words {
		if len(bare) > len(word) && strings.EqualFold(bare[:len(word)], word) {
			rest = strings.TrimLeft(bare[len(word):], "*_`])")
			if after, marked := strings.CutPrefix(rest, ":"); marked || rest != bare[len(word):] {
				return strings.TrimSpace(strings.TrimLeft(after, "*_` ")), true
			}
		}
	}
	return item, false
}

// basis returns what makes a finding one that may block in a later round, "" if nothing in its text
// does, and the number of the acceptance criterion that it names, 0 if it names none.
func basis(text string, criteria []string) (because rules.Basis, criterion int) {
	lower := strings.Join(strings.Fields(strings.ToLower(text)), " ")
	for _, mark := range []string{"shown by", "reproduce", "repro:"} {
		if _, how, found := strings.Cut(lower, mark); found && strings.Trim(how, " :.`") != "" {
			because = rules.BasisShown
		}
	}
	_, after, _ := strings.Cut(lower, "criterion ")
	digits := after[:len(after)-len(strings.TrimLeft(after, "0123456789"))]
	named, err := strconv.Atoi(digits)
	for i, criterion := range criteria {
		criterion = strings.Join(strings.Fields(strings.ToLower(criterion)), " ")
		if err == nil && named == i+1 ||
			len(criterion) >= minCriterion && strings.Contains(lower, criterion) {
			return cmp.Or(because, rules.BasisCriterion), i + 1
		}
	}
	return because, 0
}

// minCriterion is the length of the shortest criterion that is recognized by its text.
const minCriterion = 10

// Place is a file that a finding names, and the lines there; First is 0 if it names none.
type Place struct {
	File        string
	First, Last int
}

// String returns the file, or file:line.
func (p Place) String() string {
	if p.First == 0 {
		return p.File
	}
	return p.File + ":" + strconv.Itoa(p.First)
}

// Places returns the places that a text names.
func Places(text string) (places []Place) {
	for word := range strings.FieldsSeq(text) {
		word = strings.TrimLeft(strings.TrimRight(word, "`*_\"'()<>,;.:]"), "`*_\"'([<")
		word = strings.Replace(strings.ReplaceAll(word, "\\", "/"), "#L", ":", 1)
		file, lines, _ := strings.Cut(word, ":")
		lines, _, _ = strings.Cut(lines, ":") // and a column
		from, to, _ := strings.Cut(lines, "-")
		first, err := strconv.ParseUint(from, 10, 31)
		if strings.Contains(word, "://") || !isFile(file, err == nil) {
			continue
		}
		last, err := strconv.ParseUint(strings.TrimPrefix(to, "L"), 10, 31)
		if err != nil || last < first {
			last = first
		}
		places = append(places, Place{strings.TrimPrefix(file, "./"), int(first), int(last)})
	}
	return places
}

// isFile reports whether a word can be the name of a file. With a line number it needs no extension.
func isFile(word string, line bool) bool {
	if word == "" || strings.ContainsFunc(word, func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("./_-+@[]()~", r)
	}) {
		return false
	}
	base := word[strings.LastIndexByte(word, '/')+1:]
	dot := strings.LastIndexByte(base, '.')
	if line {
		return strings.ContainsFunc(base, unicode.IsLetter)
	}
	return dot >= 0 && dot < len(base)-1 && (len(base) != len(word) || len(word) > len("e.g")) &&
		unicode.IsLetter(rune(base[dot+1]))
}
