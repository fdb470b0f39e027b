package progress

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"signalbox"
	"signalbox/internal/config"
	"signalbox/internal/core/box"
	"signalbox/internal/core/rules"
	"signalbox/internal/run/inspect"
	"signalbox/internal/run/questions"
	"signalbox/internal/text"
)

// report is one event in words. The text is not escaped, and parts of it may come from an agent.
type report struct {
	at                 time.Time
	work, text, detail string
}

// reporter turns the events of a box into reports.
type reporter struct {
	b        *box.Box
	zone     *time.Location
	began    time.Time
	standing rules.Standing // that was reported last
	limits   map[string]time.Duration
	ready    map[string]bool // the setup commands that were reported to have passed
}

func newReporter(b *box.Box) reporter {
	t := reporter{b: b, zone: time.Local, began: time.Now(), standing: rules.StandingWorking,
		ready: map[string]bool{}}
	if b != nil && b.Config != nil {
		t.limits = map[string]time.Duration{}
		for _, check := range b.Config.OnlyCommands() { // others say themselves that time was over
			t.limits[check.Name] = check.Timeout
			if check.Timeout == 0 {
				t.limits[check.Name] = config.DefaultCheckTimeout
			}
		}
	}
	return t
}

// reports describes some events, and the standing of the run if it changed.
func (r *reporter) reports(s *rules.State, events []signalbox.Event,
	lastLines map[signalbox.Hash]string) (story []report) {
	d := rules.Describer{State: s, Zone: r.zone, Limits: r.limits, LastLines: lastLines,
		Activity: inspect.LastActivity, Approval: approval}
	for i := range events {
		e := &events[i]
		if r.repeatsSetup(e) {
			continue
		}
		if text, detail := d.Line(e); text != "" {
			story = append(story, report{e.Time, d.About(e), text, detail})
		}
	}
	at := events[len(events)-1].Time
	st := s.Status(at)
	if st.Standing == r.standing {
		return story
	}
	r.standing = st.Standing
	if text := standingLine(st, at.Sub(r.began), r.zone); text != "" {
		story = append(story, report{at: at, text: text})
	}
	return story
}

// approval returns what follows in a line about work whose merge needs approval, and what the human
// can do.
func approval(w *rules.Work) (more, commands string) {
	return questions.SteeringText(w), questions.ApprovalCommands(w.ID)
}

// as decodes the body of an event, as far as this version knows its fields.
func as[B any](e *signalbox.Event) B {
	var b B
	json.Unmarshal(e.Data, &b)
	return b
}

// repeatsSetup reports whether an event only says that a setup command has passed in one more
// worktree.
func (r *reporter) repeatsSetup(e *signalbox.Event) bool {
	if e.Type != rules.TypeSetupRan {
		return false
	}
	b := as[rules.SetupRan](e)
	known := r.ready[b.Command]
	r.ready[b.Command] = b.Passed
	return known && b.Passed
}

// maxOutputRead is how much of the output of a check is read.
const maxOutputRead = 1 << 20

// lastLines returns the last output line of each failed check. It is best effort: the failure
// itself is already known.
func (r *reporter) lastLines(events []signalbox.Event) map[signalbox.Hash]string {
	lines := map[signalbox.Hash]string{}
	for i := range events {
		if events[i].Type != rules.TypeChecksRan {
			continue
		}
		for _, row := range as[rules.ChecksRan](&events[i]).Rows {
			if !row.Passed && row.Output != (signalbox.Hash{}) {
				lines[row.Output] = r.lastLine(row.Output)
			}
		}
	}
	return lines
}

func (r *reporter) lastLine(blob signalbox.Hash) string {
	output, err := r.b.Blob(context.Background(), blob)
	if err != nil {
		return ""
	}
	defer output.Close()
	text, _ := io.ReadAll(io.LimitReader(output, maxOutputRead))
	lines := strings.TrimSpace(string(text))
	return inspect.ClipActivity(strings.TrimSpace(lines[strings.LastIndexByte(lines, '\n')+1:]))
}

// standingLine describes the standing of a run. It is empty while the run is working.
func standingLine(st rules.Status, elapsed time.Duration, zone *time.Location) string {
	switch st.Standing {
	case rules.StandingComplete:
		return fmt.Sprintf("complete: %d of %s in %s", st.Completed, text.Count(st.Tasks, "task"),
			text.Duration(elapsed))
	case rules.StandingAsking:
		return "waiting for you: " + strings.Join(append(st.Questions, st.Approvals...),
			", ") + pausedToo(st)
	case rules.StandingLimited:
		if st.Window {
			return windowLine(st.Wake, zone) + pausedToo(st)
		}
		if st.Outage != "" {
			return "waiting: " + outageLine(st.Outage, st.Wake, zone) + pausedToo(st)
		}
		return "waiting for a rate limit that ends at " +
			st.Wake.In(zone).Format(time.TimeOnly) + pausedToo(st)
	case rules.StandingWaiting:
		return "waiting for pull requests: " + strings.Join(st.Reasons, "; ")
	case rules.StandingPaused:
		return "paused: " + strings.Join(st.Reasons, "; ") + "; end the pause with: " +
			st.ResumeCommand()
	case rules.StandingStuck:
		return "stuck: " + strings.Join(st.Reasons, "; ")
	}
	return ""
}

// pausedToo continues a line about what the run waits for, if nothing continues after that either
// because the run is paused.
func pausedToo(st rules.Status) string {
	if !st.RunPaused {
		return ""
	}
	return "; also paused, end the pause with: " + st.ResumeCommand()
}

// windowLine says until when agents wait for a token window. The minute is the next one, so that it
// has ended by then.
func windowLine(until time.Time, zone *time.Location) string {
	return "waiting until " + until.Add(time.Minute-1).In(zone).Format("15:04") + ": token window"
}

// outageLine says when an agent is tried again whose server did not answer.
func outageLine(agent string, until time.Time, zone *time.Location) string {
	return fmt.Sprintf("no answer from the server of %s: it is tried again at %s", agent,
		until.In(zone).Format(time.TimeOnly))
}
