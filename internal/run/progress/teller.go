package progress

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"signalbox"
	"signalbox/internal/config"
	"signalbox/internal/core/box"
	"signalbox/internal/core/rules"
)

// told is a thing that happened, in words. They are an agent's in part, and not escaped.
type told struct {
	at                 time.Time
	work, text, detail string
}

// teller tells what happens in a box.
type teller struct {
	b        *box.Box
	zone     *time.Location
	began    time.Time
	standing rules.Standing // the last that was told of
	limits   map[string]time.Duration
}

func newTeller(b *box.Box) teller {
	t := teller{b: b, zone: time.Local, began: time.Now(), standing: rules.StandingWorking}
	if b != nil && b.Config != nil {
		t.limits = map[string]time.Duration{}
		for _, check := range b.Config.Checks {
			t.limits[check.Name] = check.Timeout
			if check.Timeout == 0 {
				t.limits[check.Name] = config.DefaultCheckTimeout
			}
		}
	}
	return t
}

// tell tells what people want to know of some events, and how the run stands after them if that has changed.
func (t *teller) tell(s *rules.State, events []signalbox.Event, printed map[signalbox.Hash]string) (story []told) {
	y := saying{s, t.zone, t.limits, printed}
	for i := range events {
		e := &events[i]
		if text, detail := y.line(e); text != "" {
			story = append(story, told{e.Time, y.about(e), text, detail})
		}
	}
	at := events[len(events)-1].Time
	st := s.Status(at)
	if st.Standing == t.standing {
		return story
	}
	t.standing = st.Standing
	if text := standingLine(st, at.Sub(t.began), t.zone); text != "" {
		story = append(story, told{at: at, text: text})
	}
	return story
}

// maxPrinted is how much is read of what a check printed.
const maxPrinted = 1 << 20

// printed reads the last lines of what the checks printed that failed. It is best effort: that they failed is known.
func (t *teller) printed(events []signalbox.Event) map[signalbox.Hash]string {
	printed := map[signalbox.Hash]string{}
	for i := range events {
		if events[i].Type != rules.TypeChecksRan {
			continue
		}
		for _, r := range as[rules.ChecksRan](&events[i]).Rows {
			if !r.Passed && r.Output != (signalbox.Hash{}) {
				printed[r.Output] = t.lastLine(r.Output)
			}
		}
	}
	return printed
}

func (t *teller) lastLine(blob signalbox.Hash) string {
	r, err := t.b.Blob(context.Background(), blob)
	if err != nil {
		return ""
	}
	defer r.Close()
	text, _ := io.ReadAll(io.LimitReader(r, maxPrinted))
	lines := strings.TrimSpace(string(text))
	return clipped(strings.TrimSpace(lines[strings.LastIndexByte(lines, '\n')+1:]))
}

// standingLine is how a run stands in one line, "" if it is at work.
func standingLine(st rules.Status, elapsed time.Duration, zone *time.Location) string {
	switch st.Standing {
	case rules.StandingComplete:
		return fmt.Sprintf("complete: %d of %s in %s", st.Completed, count(st.Tasks, "task"), took(elapsed))
	case rules.StandingAsking:
		return "waits for you: " + strings.Join(append(st.Questions, st.Approvals...), ", ")
	case rules.StandingLimited:
		return "waits for a rate limit to end at " + st.Wake.In(zone).Format(time.TimeOnly)
	case rules.StandingPaused:
		return "paused: " + strings.Join(st.Reasons, "; ") + "; signalbox resume goes on"
	case rules.StandingStuck:
		return "stuck: " + strings.Join(st.Reasons, "; ")
	}
	return ""
}
