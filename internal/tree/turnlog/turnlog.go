// Package turnlog puts the turn signals that trees hear on a box's ledger.
package turnlog

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"signalbox/internal/engine"
	"signalbox/internal/rules"
	"signalbox/internal/tree"
	"signalbox/internal/tree/turnsignal"
)

// Record puts what a leaf of a run published on the ledger, if it is a turn signal. It may be called again for the same
// one: the ledger has it once. What the signal says beside its type is kept as a blob.
func Record(ctx context.Context, e *engine.Engine, run *tree.Run, emit tree.Emit, actor string) error {
	if emit.Topic != turnsignal.Topic {
		return nil
	}
	heard, ok := turnsignal.ParseHeard(emit.Value)
	if !ok {
		return fmt.Errorf("what was published as '%s' is no turn signal", turnsignal.Topic)
	}
	body, err := json.Marshal(map[string]any{"fields": heard.Fields, "raw_xml": heard.RawXML, "timestamp": heard.Timestamp})
	if err != nil {
		return err
	}
	digest, err := e.PutBlob(ctx, strings.NewReader(string(body)))
	if err != nil {
		return err
	}
	_, err = e.Do(ctx, rules.HearTurn{Run: run.ID(), Tree: run.Tree().Name(), Node: run.Tree().Info(emit.Node).Path, Turn: uint64(emit.Nth),
		Signal: heard.Type, Confidence: heard.Confidence, Reason: heard.Reason(), Body: digest, Actor: actor})
	return err
}
