package progress

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"signalbox"
	"signalbox/internal/core/rules"
	"signalbox/internal/run/inspect"
	"signalbox/internal/testkit/must"
)

// tellAll makes a story of n events.
func tellAll(n int) (story []event) {
	for i := range n {
		story = append(story, event{fmt.Sprintf("09:14:%02d", i%60), "T2",
			fmt.Sprintf("event %d of a story with lines that are longer than a narrow screen is wide, so they are cut", i+1)})
	}
	return story
}

func TestBoardShowsEventsIfThereIsRoom(t *testing.T) {
	p := manyTasks(t, 4)
	p.start(signalbox.RoleDeveloper, "T1")
	v := p.look(nil)
	v.story = tellAll(maxStory)
	for _, size := range [][2]int{{110, 32}, {80, 24}, {60, 20}} {
		drawn := board(v, size[0], size[1], p.now, drawing{})
		checkSize(t, drawn, size[0], size[1])
		compareGolden(t, fmt.Sprintf("board-story-%dx%d", size[0], size[1]), drawn)
	}
	for height := 1; height < 12; height++ {
		drawn := board(v, 80, height, p.now, drawing{})
		checkSize(t, drawn, 80, height)
		lanes, _, reported := strings.Cut(drawn, "T4")
		if strings.Contains(drawn, "event") && (!reported || strings.Contains(lanes, "event")) {
			t.Errorf("a story in place of lanes:\n%s", drawn)
		}
	}
}

func TestBoardFootOfNarrowTerminals(t *testing.T) {
	p := manyTasks(t, 2)
	v := p.look(nil)
	v.notices = []string{"stuck: T1 waits for an answer to a question that was never asked, and T2 waits for T1, because it needs what T1 makes"}
	var all strings.Builder
	for _, width := range []int{110, 80, 60, 40} {
		for _, d := range []drawing{{}, {confirmStop: true}, {noKeys: true}} {
			b := boardPainter{v, d, width, p.now}
			foot := strings.Join(b.foot(24), "\n")
			checkSize(t, foot, width, 24)
			if strings.HasSuffix(foot, "…") {
				t.Errorf("cut at %d: %s", width, foot)
			}
			all.WriteString(foot + "\n")
		}
	}
	compareGolden(t, "board-foot", all.String())
}

func TestTheTimeOfAnAgentIsNeverCut(t *testing.T) {
	b := boardPainter{now: playBegins.Add(99 * time.Second)}
	l := lane{is: inspect.Working, who: "health auditor", attempt: 2, since: playBegins, reworks: 1,
		failures: 2}
	for width, want := range map[int]string{40: "health auditor (2nd) 1m39s ↺1 !2",
		26: "health auditor 1m39s ↺1 !2", 20: "health … 1m39s ↺1 !2"} {
		if got := b.whoOf(l, width); got != want {
			t.Errorf("%d: %q, want %q", width, got, want)
		}
	}
}

func TestQuestionBox(t *testing.T) {
	question, merge := asked{"Q-1", "T1", "how many?", "signalbox answer Q-1 TEXT"},
		asked{"", "T2", "waits", "signalbox approve T2"}
	for want, questions := range map[string][]asked{
		"1 question for you":                      {question},
		"1 merge to approve":                      {merge},
		"2 merges to approve":                     {merge, merge},
		"2 questions for you, 1 merge to approve": {question, question, merge},
	} {
		b := boardPainter{v: view{questions: questions}, width: 80}
		if got := b.box(12)[0]; !strings.HasPrefix(got, "╭ "+want+" ─") {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

func TestScreenShowsEvents(t *testing.T) {
	b := boxWithPlan(t)
	out := &lines{written: make(chan struct{}, 1)}
	s := screenOn(t, b, out, nil, "counter")
	s.reported = b.Engine.Tail().Seq
	for range maxStory {
		for _, what := range []rules.OrderKind{rules.OrderPause, rules.OrderResume} {
			if _, err := b.Engine.Do(t.Context(),
				rules.Order{What: what, Work: "T1", Reason: "lunch \u202e",
					Actor: "ann"}); err != nil {
				t.Fatal(err)
			}
		}
	}
	must.Succeed(t, s.catchUp(t.Context()))
	v, _ := s.view()
	if len(v.story) != maxStory || v.story[maxStory-1].text != "resumed by ann" ||
		v.story[maxStory-2].text != `paused by ann  lunch \u202e` || v.story[0].work != "T1" {
		t.Errorf("%d events: %q", len(v.story), v.story)
	}
}

func TestScreenLeavesNoBoardWhenTheRunIsInterrupted(t *testing.T) {
	b := boxWithPlan(t)
	out := &lines{written: make(chan struct{}, 1)}
	s := screenOn(t, b, out, nil, "counter")
	s.leave(t.Context(), &screenModel{screen: s, width: 80, height: 24, interrupted: true})
	if got := out.String(); got != "" {
		t.Errorf("%q", got)
	}
}

// On a small terminal, notices leave room for the selected task and the keys.
func TestNoticesLeaveRoom(t *testing.T) {
	p := manyTasks(t, 9)
	v := p.look(nil)
	long := strings.Repeat("this agent cannot work at all, ", 9)
	v.questions = []asked{{id: "Q-1", work: "T1", text: long}, {id: "Q-2", work: "T2", text: long}}
	v.notices, v.warning = []string{long, long, long}, long
	id := v.lanes[len(v.lanes)-1].id
	for _, height := range []int{12, 16, 24} {
		for _, d := range []drawing{{selected: id}, {selected: id, said: long}} {
			d.offset = scrolled(v, 40, height, d)
			drawn := board(v, 40, height, p.now, d)
			checkSize(t, drawn, 40, height)
			lines := strings.Split(drawn, "\n")
			if !strings.HasSuffix(lines[len(lines)-1], "? keys") {
				t.Errorf("no keys in %d lines:\n%s", height, drawn)
			}
			if d.said == "" && !strings.Contains(drawn, "▸"+id) {
				t.Errorf("the selected task is not visible in %d lines:\n%s", height, drawn)
			}
		}
	}
}

// Keys that would be refused for the selected task are not offered.
func TestSteerKeys(t *testing.T) {
	for _, test := range []struct {
		lane lane
		want string
	}{
		{lane{kind: rules.KindTask, at: stageImplement}, "t tell r rework"},
		{lane{kind: rules.KindTask, at: stageMerge, is: inspect.NeedsApproval}, "r rework"},
		{lane{kind: rules.KindTask, at: stageDone, is: inspect.Completed}, ""},
		{lane{kind: rules.KindTask, at: stageReview, is: inspect.Cancelled}, ""},
		{lane{kind: rules.KindExpert, at: stageImplement}, "t tell"},
		{lane{kind: rules.KindBaseline, at: stageChecks}, ""},
		{lane{at: stageImplement}, ""}, // opened by hand
	} {
		test.lane.id = "T1"
		v := view{lanes: []lane{{id: "T0", kind: rules.KindTask}, test.lane}}
		if got := strings.Join(v.steerKeys("T1"), " "); got != test.want {
			t.Errorf("%+v: %q, want %q", test.lane, got, test.want)
		}
	}
}
