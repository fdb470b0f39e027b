package dashboard

import (
	"cmp"
	"slices"
	"time"

	"signalbox/internal/run/inspect"
)

// timeline is a picture of sessions over time, in rows. Idle time is folded to a short gap, so that
// a night does not squeeze the sessions of a minute.
type timeline struct {
	Width, Height int
	Bars          []bar
	Folds         []fold
	// first and last are the times of its left and its right end, and at returns where a time is.
	first, last time.Time
	at          func(time.Time) int
}

// bar is a session.
type bar struct {
	span
	X, Y, Width int
}

// span is what a bar shows.
type span struct {
	Row      int
	From, To time.Time
	Class    string // of the style sheet
	Link     string
	Title    string
}

func (s *span) Seconds() float64 { return s.To.Sub(s.From).Seconds() }

// fold is time that is left out.
type fold struct {
	X       int
	Seconds float64
}

const (
	timelineWidth = 960
	rowHeight     = 22
	foldWidth     = 30
	minBarWidth   = 4
	// foldAfter is the shortest idle time that is folded, as a part of the busy time.
	foldAfter = 0.08
	// maxFolds leaves half of the width for the rest.
	maxFolds = (timelineWidth/2 - minBarWidth) / foldWidth
)

// newTimeline draws spans in rows.
func newTimeline(spans []span) timeline {
	if len(spans) == 0 {
		return timeline{}
	}
	first, last, busy, rows := spans[0].From, spans[0].To, time.Duration(0), 0
	for _, s := range spans {
		first, last = minTime(first, s.From), maxTime(last, s.To)
		busy, rows = busy+s.To.Sub(s.From), max(rows, s.Row+1)
	}
	gaps := longest(idle(spans, time.Duration(float64(busy)*foldAfter)+time.Second), maxFolds)
	folded := time.Duration(0)
	for _, g := range gaps {
		folded += g.To.Sub(g.From)
	}
	scale := float64(timelineWidth-foldWidth*len(gaps)-minBarWidth) / max(
		(last.Sub(first)-folded).Seconds(), 0.001)
	at := func(moment time.Time) int {
		x, before := 0.0, first
		for _, g := range gaps {
			if !moment.After(g.From) {
				break
			}
			x += g.From.Sub(before).Seconds()*scale + foldWidth
			before = g.To
		}
		return int(x + max(moment.Sub(before).Seconds(), 0)*scale)
	}
	t := timeline{Width: timelineWidth, Height: rowHeight*rows + 4, first: first, last: last,
		at: at}
	for _, s := range spans {
		x := at(s.From)
		t.Bars = append(t.Bars, bar{span: s, X: x, Y: 3 + rowHeight*s.Row,
			Width: max(at(s.To)-x, minBarWidth)})
	}
	for _, g := range gaps {
		t.Folds = append(t.Folds,
			fold{X: at(g.From) + foldWidth/2, Seconds: g.To.Sub(g.From).Seconds()})
	}
	return t
}

// idle returns the times longer than a minimum in which nothing ran.
func idle(spans []span, least time.Duration) (gaps []span) {
	spans = slices.Clone(spans)
	slices.SortFunc(spans, func(a, b span) int { return a.From.Compare(b.From) })
	end := spans[0].To
	for _, s := range spans[1:] {
		if s.From.Sub(end) > least {
			gaps = append(gaps, span{From: end, To: s.From})
		}
		end = maxTime(end, s.To)
	}
	return gaps
}

// longest returns the n longest gaps, in their order.
func longest(gaps []span, n int) []span {
	if len(gaps) <= n {
		return gaps
	}
	gaps = slices.Clone(gaps)
	slices.SortStableFunc(gaps,
		func(a, b span) int { return cmp.Compare(b.To.Sub(b.From), a.To.Sub(a.From)) })
	gaps = gaps[:n]
	slices.SortFunc(gaps, func(a, b span) int { return a.From.Compare(b.From) })
	return gaps
}

// spanOf returns the span of a session, which lasts until now if it has not ended.
func spanOf(s *inspect.Session, now time.Time) span {
	end := now
	if s.To != nil {
		end = *s.To
	}
	shown := span{From: s.From, To: maxTime(end, s.From), Class: "done"}
	switch {
	case s.To == nil:
		shown.Class = "busy"
	case s.Failure != "":
		shown.Class = "bad"
	}
	return shown
}

func maxTime(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func minTime(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}
