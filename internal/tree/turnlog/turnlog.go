// Package turnlog puts the turn signals that trees hear on a box's ledger.
package turnlog

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"signalbox/internal/core/engine"
	"signalbox/internal/core/rules"
	"signalbox/internal/tree"
	"signalbox/internal/tree/turnsignal"
)

// Signal is a turn signal that a run of a tree has logged.
type Signal struct {
	// Run is the id of the run, Tree the name of its tree, and Node the path of the node that logged the signal.
	Run, Tree, Node string
	// Nth counts the signals of the run from 1.
	Nth   int
	Heard turnsignal.Heard
}

// SignalOf returns what a leaf of a run published, false if it is no turn signal.
func SignalOf(run *tree.Run, emit tree.Emit) (Signal, bool) {
	if emit.Topic != turnsignal.Topic {
		return Signal{}, false
	}
	heard, ok := turnsignal.ParseHeard(emit.Value)
	return Signal{run.ID(), run.Tree().Name(), run.Tree().Info(emit.Node).Path, emit.Nth, heard}, ok
}

// Record puts what a leaf of a run published on the ledger, if it is a turn signal. It may be called again for the same
// one: the ledger has it once.
func Record(ctx context.Context, e *engine.Engine, run *tree.Run, emit tree.Emit, actor string) error {
	if emit.Topic != turnsignal.Topic {
		return nil
	}
	s, ok := SignalOf(run, emit)
	if !ok {
		return fmt.Errorf("what was published as '%s' is no turn signal", turnsignal.Topic)
	}
	return Put(ctx, e, s, actor)
}

// Put puts a signal on the ledger, once however often it is called. Those of a run come in order. What the signal says
// beside its type is kept as a blob.
func Put(ctx context.Context, e *engine.Engine, s Signal, actor string) error {
	body, err := json.Marshal(map[string]any{"fields": s.Heard.Fields, "raw_xml": s.Heard.RawXML, "timestamp": s.Heard.Timestamp})
	if err != nil {
		return err
	}
	digest, err := e.PutBlob(ctx, strings.NewReader(string(body)))
	if err != nil {
		return err
	}
	_, err = e.Do(ctx, rules.ReportTurnSignal{Run: s.Run, Tree: s.Tree, Node: s.Node, Turn: uint64(s.Nth), Signal: s.Heard.Type,
		Confidence: s.Heard.Confidence, Reason: s.Heard.Reason(), Body: digest, Actor: actor})
	return err
}
