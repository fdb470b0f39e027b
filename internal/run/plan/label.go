package plan

import (
	"strings"
	"unicode/utf8"

	"github.com/yuin/goldmark/ast"

	"signalbox/internal/text"
)

// The labels of sections, as hints write them.
const (
	labelWork         = "Work"
	labelCriteria     = "Acceptance Criteria"
	labelBlockedBy    = "Blocked By"
	labelReading      = "Required Reading"
	labelEnvironments = "Environments"
	labelFiles        = "Target Files"
	labelPriority     = "Priority"
	labelBudget       = "Budget"
	labelReview       = "Review"
)

// knownLabel returns the label that a text is, or "". Case, spacing and hyphens make no difference.
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
	case "review":
		return labelReview
	}
	return ""
}

// likelyLabel returns the label that an unknown one was probably meant to be, or "". A likely label
// is refused, because a misspelled Blocked By would start a task too early.
func likelyLabel(written string) string {
	folded := foldLabel(written)
	switch folded {
	case "depends on", "depends", "dependency", "dependencies", "blocker", "blockers", "blocked",
		"prerequisite", "prerequisites", "waits for":
		return labelBlockedBy
	case "acceptance", "criteria", "acceptance criterion":
		return labelCriteria
	case "files", "targets":
		return labelFiles
	case "reading":
		return labelReading
	case "reviews", "reviewer", "reviewers", "review level":
		return labelReview
	}
	for _, label := range []string{labelWork, labelCriteria, labelBlockedBy, labelReading,
		labelEnvironments, labelFiles, labelPriority, labelBudget} {
		known := foldLabel(label)
		allowed := 2
		if len(known) < 8 {
			allowed = 1
		}
		if text.EditDistance(folded, known) <= allowed || strings.Contains(known, " ") &&
			strings.HasPrefix(folded, known+" ") {
			return label
		}
	}
	return ""
}

func foldLabel(written string) string {
	return strings.Join(strings.Fields(strings.ToLower(strings.ReplaceAll(written, "-", " "))), " ")
}

// maxLabel is the longest label in bytes. Longer bold text is a sentence.
const maxLabel = 60

// label is bold text that introduces a section.
type label struct {
	written string
	known   string // the canonical label, "" for a note
	start   int    // offset of its bold text
	content int    // offset of its section's text
	fault   *Fault
}

// labels returns the labels in a block of inline text. A label is at the start of a line.
func (d *document) labels(block ast.Node) []label {
	var found []label
	for n := block.FirstChild(); n != nil; n = n.NextSibling() {
		bold, ok := n.(*ast.Emphasis)
		if !ok || bold.Level != 2 {
			continue
		}
		previous := n.PreviousSibling()
		if broken, ok := previous.(*ast.Text); previous != nil &&
			(!ok || !broken.SoftLineBreak() && !broken.HardLineBreak()) {
			continue
		}
		if l, ok := d.label(block, bold, previous == nil); ok {
			found = append(found, l)
		}
	}
	return found
}

// label reports whether bold text at the start of a line is a label. With a colon it is. Without a
// colon it must be alone on its line, and be a known label or a short paragraph.
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
	case colon, alone && l.known != "", alone && first && bold.NextSibling() == nil &&
		isShort(l.written):
		if likely != "" {
			l.fault = &Fault{line, "unknown label " + quote(l.written), `write "**` + likely +
				`**:", or use a different label`}
		}
		return l, true
	case first && (l.known != "" || strings.Contains(likely, " ")):
		meant := l.known + likely
		l.fault = &Fault{line, "the label " + quote(l.written) + " has no colon", `write "**` +
			meant + `**:", or start the line with another word`}
		return l, true
	}
	return l, false
}

// isShort reports whether bold text may be a label rather than a sentence.
func isShort(s string) bool {
	last, _ := utf8.DecodeLastRuneInString(s)
	return len(strings.Fields(s)) <= 4 && !strings.ContainsRune(".!?…", last)
}
