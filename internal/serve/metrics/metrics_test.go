package metrics

import (
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"signalbox"
	"signalbox/internal/core/journal"
	"signalbox/internal/core/rules"
	"signalbox/internal/testkit/must"
)

var noon = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

// state returns the state after some commands.
func state(t *testing.T, commands ...rules.Command) *rules.State {
	t.Helper()
	s := &rules.State{}
	for i, c := range commands {
		d := rules.Decide(s, noon.Add(time.Duration(i)*time.Second), c)
		if d.Err != nil {
			t.Fatal(d.Err)
		}
		for j := range d.Events {
			d.Events[j].Seq = s.Seq() + 1
			must.Succeed(t, s.Apply(&d.Events[j]))
		}
	}
	return s
}

var line = regexp.MustCompile(`^([a-z_]+)((?:\{(?:[a-z]+="(?:[^"\\]|\\.)*",?)+\})?) (\S+)$`)

// parse reads the text format strictly, and returns the values by name and labels.
func parse(t *testing.T, text string) map[string]float64 {
	t.Helper()
	values, typed := map[string]float64{}, map[string]string{}
	for row := range strings.Lines(text) {
		row = strings.TrimSuffix(row, "\n")
		if kind, ok := strings.CutPrefix(row, "# TYPE "); ok {
			name, kind, _ := strings.Cut(kind, " ")
			if typed[name] != "" || strings.HasSuffix(name, "_total") != (kind == counter) {
				t.Errorf("%s has the type %s", name, kind)
			}
			typed[name] = kind
			continue
		}
		if strings.HasPrefix(row, "# HELP ") {
			continue
		}
		parts := line.FindStringSubmatch(row)
		if parts == nil {
			t.Errorf("invalid line %q", row)
			continue
		}
		value, err := strconv.ParseFloat(parts[3], 64)
		if _, twice := values[parts[1]+parts[2]]; err != nil || typed[parts[1]] == "" || twice {
			t.Errorf("line %q: %v", row, err)
		}
		values[parts[1]+parts[2]] = value
	}
	return values
}

func TestWrite(t *testing.T) {
	s := state(t, rules.OpenBox{Box: "box-1", Actor: "op"}, rules.OpenWork{Work: "a", Actor: "op"},
		rules.OpenWork{Work: "b", Actor: "op"},
		rules.Claim{Work: "a", Role: signalbox.RoleDeveloper, Session: "s", Actor: "op",
			Lease: "l"},
		rules.Release{Work: "a", Session: "s", Epoch: 4},
		rules.Claim{Work: "b", Role: signalbox.RoleDeveloper, Session: "s2", Actor: "op",
			Lease: "l2"})
	var b strings.Builder
	must.Succeed(t, Write(&b, s, []journal.Copy{{Node: "a", Events: 6, Verified: noon},
		{Node: "b", Events: 3, Verified: noon, Problem: "damaged"}, {Node: "c"}},
		noon.Add(time.Minute)))
	values := parse(t, b.String())
	for name, want := range map[string]float64{
		"signalbox_events_total":                     6,
		`signalbox_standing{standing="by_hand"}`:     1,
		`signalbox_work{phase="IMPLEMENTATION"}`:     2,
		`signalbox_agents_running{role="developer"}`: 1,
		`signalbox_sessions_total{role="developer"}`: 1,
		`signalbox_requests{kind="question"}`:        0,
		"signalbox_cost_dollars_total":               0,
		`signalbox_copy_good{node="a"}`:              1,
		`signalbox_copy_good{node="b"}`:              0,
		`signalbox_copy_good{node="c"}`:              0,
		`signalbox_copy_verified_events{node="b"}`:   3,
	} {
		if got, ok := values[name]; !ok || got != want {
			t.Errorf("%s is %v (%t), want %v", name, got, ok, want)
		}
	}
}

func TestLabelsAreEscaped(t *testing.T) {
	m := byLabel("signalbox_x", gauge, "x", "who", map[string]float64{"a\"} 1\nevil{x=\"\\": 1,
		"\xff": 2})
	var b strings.Builder
	m.write(&b)
	if values := parse(t, b.String()); len(values) != 2 {
		t.Errorf("%d values in:\n%s", len(values), b.String())
	}
}
