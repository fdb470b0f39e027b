package dashboard

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"signalbox/internal/core/rules"
	"signalbox/internal/picture"
	"signalbox/internal/run/inspect"
	"signalbox/internal/run/plan"
)

// maxGraph is how many tasks the picture of a plan shows. A larger one could not be read.
const maxGraph = 300

// graph is the picture of a plan: its tasks in layers, each after the tasks that it waits for.
type graph struct {
	Width, Height       int
	BoxWidth, BoxHeight int
	Boxes               []graphBox
	Lines               []graphLine
	// TooMany is the number of tasks if there are too many to draw.
	TooMany int
}

// graphBox is a task in the picture. Name and Short are its id and title, cut to their room.
type graphBox struct {
	plan.Box
	Task        inspect.Task
	Name, Short string
	Critical    bool
}

type graphLine struct {
	Path string
	// Critical means that both of its ends are on the critical path.
	Critical bool
}

// newGraph draws the plan with an id. Before anything has run, its longest chain is its critical
// path.
func newGraph(s *rules.State, id string, critical map[string]bool, now time.Time) (g graph) {
	var works []*rules.Work
	for w := range s.Works() {
		if w.Task != nil && w.Task.Kind == rules.KindTask && w.Task.Plan == id {
			works = append(works, w)
		}
	}
	if len(works) > maxGraph {
		return graph{TooMany: len(works)}
	}
	slices.SortStableFunc(works,
		func(a, b *rules.Work) int { return cmp.Compare(a.Task.Order, b.Task.Order) })
	p := plan.Plan{}
	for _, w := range works {
		p.Tasks = append(p.Tasks,
			plan.Task{ID: w.ID, BlockedBy: slices.Concat(w.Task.Blockers, w.Task.Waits)})
	}
	if len(critical) == 0 {
		critical = map[string]bool{}
		for _, id := range p.LongestChain() {
			critical[id] = true
		}
	}
	placed := p.Arrange()
	g = graph{Width: placed.Width, Height: placed.Height, BoxWidth: plan.BoxWidth, BoxHeight: plan.BoxHeight}
	for _, l := range placed.Lines {
		g.Lines = append(g.Lines, graphLine{l.Path, critical[works[l.From].ID] &&
			critical[works[l.To].ID]})
	}
	const room = plan.BoxWidth - 32
	for i, w := range works {
		t := inspect.NewTask(s, w, now)
		state := picture.Pixels(graphState(t), 12, picture.Advance)
		g.Boxes = append(g.Boxes,
			graphBox{placed.Boxes[i], t, picture.FitPixels(w.ID, room-state-8, 13,
				picture.AdvanceBold),
				picture.FitPixels(w.Title, room, 12, picture.Advance), critical[w.ID]})
	}
	return g
}

// graphState returns the state of a task in a word or two: what it waits for, or who works on it.
func graphState(t inspect.Task) string {
	if t.Condition == inspect.Working && t.Worker != nil {
		return picture.FitPixels(t.Worker.Name(), 110, 12, picture.Advance)
	}
	return condition(t.Condition)
}

// State is the label of a task in the picture.
func (b graphBox) State() string { return graphState(b.Task) }

// slotChart is how many agents worked over time, on the axis of the timeline.
type slotChart struct {
	Width, Height int
	// Area is the path data of the area below the number of agents, and Limit the height of the
	// line of all slots.
	Area  string
	Limit int
	Top   int // the number at the top
}

const slotsHeight = 64

// newSlotChart draws how many agents worked at the same time. Checks and merges need no slot.
func newSlotChart(line timeline, spans []span, slots, most int) slotChart {
	c := slotChart{Width: line.Width, Height: slotsHeight, Top: max(slots, most)}
	if len(line.Bars) == 0 || c.Top == 0 {
		return slotChart{}
	}
	height := func(agents int) int { return slotsHeight - 2 - agents*(slotsHeight-8)/c.Top }
	c.Limit = height(slots)
	var path strings.Builder
	fmt.Fprintf(&path, "M%d %d", line.at(line.first), height(0))
	running := 0
	for _, change := range changesOf(spans) {
		x := line.at(change.at)
		fmt.Fprintf(&path, " L%d %d", x, height(running))
		running += change.more
		fmt.Fprintf(&path, " L%d %d", x, height(running))
	}
	end := line.at(line.last)
	fmt.Fprintf(&path, " L%d %d L%d %d Z", end, height(running), end, height(0))
	c.Area = path.String()
	return c
}
