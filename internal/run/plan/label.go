package plan

import (
	"strings"
	"unicode/utf8"

	"github.com/yuin/goldmark/ast"

	"signalbox/internal/text"
)

// The labels that mean something, as they are written in advice.
const (
	labelWork         = "Work"
	labelCriteria     = "Acceptance Criteria"
	labelBlockedBy    = "Blocked By"
	labelReading      = "Required Reading"
	labelEnvironments = "Environments"
	labelFiles        = "Target Files"
	labelPriority     = "Priority"
	labelBudget       = "Budget"
)

// knownLabel is the label that a written one is, "" if none. Case, spacing and hyphens make no difference.
func knownLabel(written string) string {
	switch foldLabel(written) {
	case "work":
		return labelWork
	case "acceptance criteria":
		return labelCriteria
	case "blocked by":
		return labelBlockedBy
	case "required reading":
		return labelReading
	case "environment", "environments":
		return labelEnvironments
	case "target files", "target file":
		return labelFiles
	case "priority":
		return labelPriority
	case "budget":
		return labelBudget
	}
	return ""
}

// likelyLabel is the label that was probably meant by one that is none, "" if it is simply another. Since it matters
// whether a task waits for another, a guess is good enough to refuse it.
func likelyLabel(written string) string {
	folded := foldLabel(written)
	switch folded {
	case "depends on", "depends", "dependency", "dependencies", "blocker", "blockers", "blocked", "prerequisite", "prerequisites", "waits for":
		return labelBlockedBy
	case "acceptance", "criteria", "acceptance criterion":
		return labelCriteria
	case "files", "targets":
		return labelFiles
	case "reading":
		return labelReading
	}
	for _, label := range []string{labelWork, labelCriteria, labelBlockedBy, labelReading, labelEnvironments, labelFiles, labelPriority, labelBudget} {
		known := foldLabel(label)
		allowed := 2
		if len(known) < 8 {
			allowed = 1
		}
		if text.EditDistance(folded, known) <= allowed || strings.Contains(known, " ") && strings.HasPrefix(folded, known+" ") {
			return label
		}
	}
	return ""
}

func foldLabel(written string) string {
	return strings.Join(strings.Fields(strings.ToLower(strings.ReplaceAll(written, "-", " "))), " ")
}

// maxLabel is the longest label in bytes; what is longer is a sentence in bold.
const maxLabel = 60

// label is bold text that introduces a section.
type label struct {
	written string
	known   string // the canonical name, "" for a note
	start   int    // where its bold text begins
	content int    // where its section's text begins
	fault   *Fault
}

// labels finds the labels in a block of inline text. Only what stands at the start of a line can be one.
func (d *document) labels(block ast.Node) []label {
	var found []label
	for n := block.FirstChild(); n != nil; n = n.NextSibling() {
		bold, ok := n.(*ast.Emphasis)
		if !ok || bold.Level != 2 {
			continue
		}
		previous := n.PreviousSibling()
		if broken, ok := previous.(*ast.Text); previous != nil && (!ok || !broken.SoftLineBreak() && !broken.HardLineBreak()) {
			continue
		}
		if l, ok := d.label(block, bold, previous == nil); ok {
			found = append(found, l)
		}
	}
	return found
}

// label decides whether bold text at the start of a line is a label: with a colon it is; without, if the line ends
// after it and it either means something or is a short paragraph of its own.
func (d *document) label(block ast.Node, bold *ast.Emphasis, first bool) (label, bool) {
	written, colon := strings.CutSuffix(d.plain(bold), ":")
	l := label{written: strings.TrimSpace(written), start: bold.Pos()}
	if l.written == "" || len(l.written) > maxLabel {
		return l, false
	}
	last := block.Lines().At(block.Lines().Len() - 1)
	l.content = last.Stop
	after := ""
	if next := bold.NextSibling(); next != nil {
		l.content = next.Pos()
		after = string(d.source[l.content:max(l.content, min(d.lineEnd(l.content), last.Stop))])
	}
	if rest, outside := strings.CutPrefix(strings.TrimLeft(after, " \t"), ":"); outside && !colon {
		l.content += len(after) - len(rest)
		colon = true
	}
	l.known = knownLabel(l.written)
	likely := ""
	if l.known == "" {
		likely = likelyLabel(l.written)
	}
	alone := strings.TrimSpace(after) == ""
	line := d.line(l.start)
	switch {
	case colon, alone && l.known != "", alone && first && bold.NextSibling() == nil && isShort(l.written):
		if likely != "" {
			l.fault = &Fault{line, "unknown label " + quote(l.written), `write "**` + likely + `**:", or choose a label that is less like it`}
		}
		return l, true
	case first && (l.known != "" || strings.Contains(likely, " ")):
		meant := l.known + likely
		l.fault = &Fault{line, "there is no colon after the label " + quote(l.written), `write "**` + meant + `**:", or begin the line with another word`}
		return l, true
	}
	return l, false
}

// isShort tells a label from a sentence in bold.
func isShort(s string) bool {
	last, _ := utf8.DecodeLastRuneInString(s)
	return len(strings.Fields(s)) <= 4 && !strings.ContainsRune(".!?…", last)
}
