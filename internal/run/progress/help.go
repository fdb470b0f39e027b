package progress

import (
	"fmt"
	"strings"

	"signalbox/internal/show"
)

// binding is a key and what it does, in words that fit a narrow terminal.
type binding struct{ keys, does string }

// readingKeys and actingKeys are the keys of a screen; a screen that only shows a run has no acting
// keys.
var (
	readingKeys = []binding{
		{"↑ ↓ j k", "select a task, or scroll"},
		{"enter l", "read what its agents write"},
		{"d", "read its diff"},
		{"i", "read its findings, checks"},
		{"tab", "next view; next that waits"},
		{"pgup pgdn", "scroll a page"},
		{"g G", "to the start, to the end"},
		{"esc", "back"},
	}
	actingKeys = []binding{
		{"a", "answer or approve"},
		{"x", "reject the task's merge"},
		{"r", "send the task back"},
		{"t", "tell its agent"},
		{"p", "pause, or resume what is paused"},
	}
	endingKeys = []binding{
		{"q ctrl-c", "stop; work is kept"},
		{"ctrl-z", "suspend; fg continues"},
	}
	leavingKeys = []binding{
		{"q ctrl-c", "leave; the run continues"},
		{"ctrl-z", "suspend; fg continues"},
	}
)

// legend explains the signs on the lanes. shortLegend has the most common ones.
var legend = [...]string{"◎ ready", "○ blocked", "? asks you", "‖ waiting or paused",
	"! in remediation", "✕ cancelled", "↺1 reworks", "!1 failures"}

const shortLegend = "◎ ready  ○ blocked  ? asks you  ‖ waiting  ! in remediation  ↺ reworks"

// helpLines explains the keys and the signs.
func helpLines(d drawing) (lines []string) {
	groups := [][]binding{readingKeys}
	if !d.readOnly {
		groups = append(groups, actingKeys)
	}
	if d.watch {
		groups = append(groups, leavingKeys)
	} else {
		groups = append(groups, endingKeys)
	}
	for _, group := range groups {
		for _, b := range group {
			lines = append(lines, fmt.Sprintf("%s  %s", d.paint.Strong(show.Fit(b.keys, 9)),
				b.does))
		}
	}
	lines = append(lines, "")
	for _, sign := range legend {
		mark, means, _ := strings.Cut(sign, " ")
		lines = append(lines, fmt.Sprintf("%s  %s", d.paint.Strong(show.Fit(mark, 9)), means))
	}
	return lines
}

// openHelp shows the keys.
func (m *screenModel) openHelp() {
	m.help = &pane{title: "keys", view: paneHelp}
	m.fit()
	m.help.add(helpLines(m.drawing))
}

// stopLine asks whether to stop the run. q is the key for it, unless it is text.
func stopLine(d drawing, width int, q bool) string {
	texts := []string{"stop? agents end, work is kept: q or ctrl-c again to stop, any other key to continue",
		"stop? work is kept: q again to stop, any other key to continue",
		"q again to stop, other keys continue"}
	if !q {
		texts = []string{"stop? agents end, work is kept: ctrl-c again to stop, any other key to continue",
			"stop? work is kept: ctrl-c again to stop, else continue", "ctrl-c again to stop"}
	}
	return " " + d.paint.Bad(show.Shortest(width-2, texts...))
}

// saidLines draws what the user's last decision did.
func saidLines(d drawing, width int) (lines []string) {
	if d.said == "" {
		return nil
	}
	paint := d.paint.Good
	if d.saidBad {
		paint = d.paint.Bad
	}
	for _, line := range show.Wrap(d.said, width-2, 3) {
		lines = append(lines, " "+paint(line))
	}
	return lines
}

// keyLine draws the keys that fit, the first ones first. The last ones are always there.
func keyLine(d drawing, width int, keys, last []string) string {
	for n := len(keys); n >= 0; n-- {
		if line := strings.Join(append(keys[:n:n], last...), " · "); n == 0 ||
			show.Cut(line, width-2) == line {
			return " " + d.paint.Faint(show.Cut(line, width-2))
		}
	}
	return ""
}

// paneFoot draws the keys of a pane.
func (m *screenModel) paneFoot() []string {
	p, d := m.top(), m.drawing
	lines := saidLines(d, m.width)
	if d.confirmStop {
		return append(lines, stopLine(d, m.width, true))
	}
	if p == m.help {
		return append(lines, keyLine(d, m.width, []string{"↑ ↓ scroll"}, []string{"esc back"}))
	}
	var keys []string
	for i := range m.view.questions {
		if q := m.view.questions[i]; q.work == p.work && !d.readOnly {
			keys = append(keys, map[bool]string{true: "a approve", false: "a answer"}[q.id == ""])
			if q.id == "" {
				keys = append(keys, "x reject")
			}
			break
		}
	}
	keys = append(keys, "tab next view", "↑ ↓ scroll")
	if !d.readOnly {
		keys = append(keys, m.view.steerKeys(p.work)...)
	}
	return append(lines, keyLine(d, m.width, keys, []string{"esc back", "? keys"}))
}

// formFoot draws the keys of a form, and why a decision was refused.
func (m *screenModel) formFoot() (lines []string) {
	f, d := m.form, m.drawing
	if f.failed != "" {
		for _, line := range show.Wrap(f.failed, m.width-2, 3) {
			lines = append(lines, " "+d.paint.Bad(line))
		}
	}
	switch {
	case d.confirmStop:
		return append(lines, stopLine(d, m.width, false))
	case f.sending:
		return append(lines, " "+d.paint.Faint("…"))
	case f.writes():
		return append(lines, " "+
			d.paint.Faint(show.Shortest(m.width-2,
				"ctrl+d sends · enter new line · pgup pgdn scroll · esc back, the text is kept",
				"ctrl+d sends · enter new line · esc back", "ctrl+d sends · esc back")))
	}
	return append(lines,
		keyLine(d, m.width, []string{"y approve", "d read the diff", "x reject", "↑ ↓ scroll"},
			[]string{"esc back"}))
}
