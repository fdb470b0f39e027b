package rules

import (
	"fmt"
	"slices"

	"signalbox"
)

// The types of events about experts.
const (
	TypeExpertRequested  = "ExpertRequested"
	TypeExpertAdvised    = "ExpertAdvised"
	TypeExpertRegistered = "ExpertRegistered"
)

// ExpertRequested records that the holder of a task asked an expert.
type ExpertRequested struct {
	Request string         `json:"request"`
	Expert  string         `json:"expert"`
	Type    string         `json:"type,omitempty"`
	Count   int            `json:"count"`
	Body    signalbox.Hash `json:"body,omitzero"`
}

func (b ExpertRequested) apply(s *State, e *signalbox.Event) {
	s.changeTask(e.Work, func(_ *Work, t *Task) { t.Counts.ExpertRequests = b.Count })
}

func (b ExpertRequested) describe(d *Describer, e *signalbox.Event) (text, detail string) {
	return fmt.Sprintf("%s asks expert %s (%s) and waits", d.role(e), b.Expert, b.Request), b.Type
}

// ExpertAdvised gives an expert's advice to the task that asked.
type ExpertAdvised struct {
	Request string         `json:"request"`
	Expert  string         `json:"expert"`
	Body    signalbox.Hash `json:"body,omitzero"`
	Blob    signalbox.Hash `json:"blob,omitzero"`
}

func (b ExpertAdvised) apply(s *State, e *signalbox.Event) {
	s.changeTask(e.Work, func(_ *Work, t *Task) {
		t.Advice = append(slices.Clip(t.Advice), Advice{b.Expert, b.Request, b.Body, b.Blob})
		t.markReady(b.Request)
	})
}

func (b ExpertAdvised) describe(*Describer, *signalbox.Event) (text, detail string) {
	return fmt.Sprintf("advice from %s (%s)", b.Expert, b.Request), ""
}

// ExpertRegistered adds an expert to the configured ones.
type ExpertRegistered struct {
	Expert Expert `json:"expert"`
}

func (b ExpertRegistered) apply(s *State, e *signalbox.Event) {
	s.run.Experts = append(slices.Clip(s.run.Experts), b.Expert)
	s.changeTask(e.Work, func(_ *Work, t *Task) { t.Expert = b.Expert.Name })
}

func (b ExpertRegistered) describe(*Describer, *signalbox.Event) (text, detail string) {
	return "new expert: " + b.Expert.Name, b.Expert.Gap
}
