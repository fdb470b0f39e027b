// Package turnlog records the turn signals of behaviour trees on the ledger of a box.
package turnlog

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"

	"signalbox"
	"signalbox/internal/core/engine"
	"signalbox/internal/core/rules"
	"signalbox/internal/tree"
	"signalbox/internal/tree/turnsignal"
)

// Signal is a turn signal that a run of a tree published.
type Signal struct {
	// Run is the ID of the run, Tree the name of its tree, and Node the path of the node that
	// published the signal.
	Run, Tree, Node string
	// Nth is the number of the signal in the run, from 1.
	Nth    int
	Signal turnsignal.Signal
}

// SignalOf converts a published value to a turn signal. It returns false if it is not one.
func SignalOf(run *tree.Run, emit tree.Emit) (Signal, bool) {
	if emit.Topic != turnsignal.Topic {
		return Signal{}, false
	}
	signal, ok := turnsignal.ParseSignal(emit.Value)
	return Signal{run.ID(), run.Tree().Name(), run.Tree().Info(emit.Node).Path, emit.Nth, signal},
		ok
}

// Record records a published value on the ledger if it is a turn signal. It is idempotent.
func Record(ctx context.Context, e *engine.Engine, run *tree.Run, emit tree.Emit,
	actor string) error {
	if emit.Topic != turnsignal.Topic {
		return nil
	}
	s, ok := SignalOf(run, emit)
	if !ok {
		return fmt.Errorf("a value published as '%s' is not a turn signal", turnsignal.Topic)
	}
	return Put(ctx, e, s, actor)
}

// Put records a signal on the ledger, with its fields in a blob. It is idempotent. The signals of a
// run must be put in their order.
func Put(ctx context.Context, e *engine.Engine, s Signal, actor string) error {
	report, err := NewReport(s)
	if err != nil {
		return err
	}
	return report.Put(ctx, e, actor)
}

// To returns a function that puts signals on a ledger.
func To(e *engine.Engine, actor string) func(context.Context, Signal) error {
	return func(ctx context.Context, s Signal) error { return Put(ctx, e, s, actor) }
}

// ToWithoutText is To without what the model wrote: the ledger has the name of a signal, its number
// and its confidence, but neither its reason nor its fields. It is for conversations, which are
// private, while everybody who may read the ledger, and every webhook, gets its events and blobs.
func ToWithoutText(e *engine.Engine, actor string) func(context.Context, Signal) error {
	return func(ctx context.Context, s Signal) error {
		return Report{Run: s.Run, Tree: s.Tree, Node: s.Node, Turn: uint64(s.Nth),
			Signal: s.Signal.Type, Confidence: s.Signal.Confidence}.Put(ctx, e, actor)
	}
}

// Report is what the ledger records of a signal. It can be sent to a process that has the ledger.
type Report struct {
	Run        string  `json:"run"`
	Tree       string  `json:"tree"`
	Node       string  `json:"node"`
	Turn       uint64  `json:"turn"`
	Signal     string  `json:"signal"`
	Confidence float64 `json:"confidence"`
	Reason     string  `json:"reason"`
	// the fields and the text of the signal, as JSON; empty means that the ledger does not have
	// them
	Body []byte `json:"body"`
}

// NewReport returns the report of a signal.
func NewReport(s Signal) (Report, error) {
	body, err := json.Marshal(map[string]any{"fields": s.Signal.Fields, "raw_xml": s.Signal.RawXML,
		"timestamp": s.Signal.Timestamp})
	return Report{Run: s.Run, Tree: s.Tree, Node: s.Node, Turn: uint64(s.Nth),
		Signal: s.Signal.Type, Confidence: s.Signal.Confidence,
		Reason: s.Signal.Reason(), Body: body}, err
}

// Put records the report on the ledger, in the name of actor.
func (r Report) Put(ctx context.Context, e *engine.Engine, actor string) error {
	var digest signalbox.Hash
	if len(r.Body) > 0 {
		var err error
		if digest, err = e.PutBlob(ctx, bytes.NewReader(r.Body)); err != nil {
			return err
		}
	}
	_, err := e.Do(ctx, rules.ReportTurnSignal{Run: r.Run, Tree: r.Tree, Node: r.Node, Turn: r.Turn,
		Signal:     r.Signal,
		Confidence: r.Confidence, Reason: r.Reason, Body: digest, Actor: actor})
	return err
}
