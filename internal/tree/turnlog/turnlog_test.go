package turnlog

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"signalbox"
	"signalbox/internal/core/box"
	"signalbox/internal/core/rules"
	"signalbox/internal/testkit/must"
	"signalbox/internal/tree"
	"signalbox/internal/tree/turnsignal"
)

// newBox creates a box.
func newBox(t *testing.T) *box.Box {
	t.Helper()
	dir := t.TempDir()
	opts := &box.Options{KeyFile: filepath.Join(dir, "box.key")}
	if _, err := box.Init(t.Context(), filepath.Join(dir, box.FolderName), "ann",
		opts); err != nil {
		t.Fatal(err)
	}
	b, err := box.Open(t.Context(), filepath.Join(dir, box.FolderName), opts)
	must.Succeed(t, err)
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	return b
}

// newRun returns a run of a tree with two nodes.
func newRun(t *testing.T, id string) *tree.Run {
	t.Helper()
	compiled, err := tree.Compile(&tree.Definition{Name: "turn",
		Root: &tree.Node{Kind: tree.Sequence,
			Children: []*tree.Node{{Kind: tree.Wait, Name: "hear"}}}}, nil)
	must.Succeed(t, err)
	run, err := tree.NewRun(compiled, &tree.RunOptions{ID: id})
	must.Succeed(t, err)
	return run
}

// signal returns the value that a tree publishes for a signal.
func signal(kind string, turn int64, fields map[string]any) tree.Emit {
	return tree.Emit{Seq: int(turn) + 7, Nth: int(turn), Node: 1, Topic: turnsignal.Topic,
		Value: map[string]any{"type": kind, "confidence": 0.8, "fields": fields,
			"raw_xml":   `<signal type="` + kind + `">…</signal>`,
			"timestamp": "2026-01-02T03:04:05Z"}}
}

// heard returns the turn signals on the ledger, without their blobs, and their actors.
func heard(t *testing.T,
	b *box.Box) (signals []rules.TurnSignalHeard, blobs []signalbox.Hash, actors []string) {
	t.Helper()
	for e, err := range b.Events(t.Context(), 0) {
		must.Succeed(t, err)
		if e.Type != rules.TypeTurnSignalHeard {
			continue
		}
		var s rules.TurnSignalHeard
		must.Succeed(t, json.Unmarshal(e.Data, &s))
		blobs, actors = append(blobs, s.Body), append(actors, e.Actor)
		s.Body = signalbox.Hash{}
		signals = append(signals, s)
	}
	return signals, blobs, actors
}

func TestRecord(t *testing.T) {
	b, run := newBox(t), newRun(t, "T-1")
	first := signal("need_turn", 1, map[string]any{"reason": "search failed"})
	second := signal("stuck", 2,
		map[string]any{"blocker": "no network", "tried": []any{"a", int64(2)}})
	// The last one may be delivered again when a run is resumed.
	for _, e := range []tree.Emit{first, first, second, second, first,
		{Seq: 3, Topic: "said", Value: "hello"}} {
		must.Succeed(t, Record(t.Context(), b.Engine, run, e, "ann"))
	}
	must.Succeed(t, Record(t.Context(), b.Engine, newRun(t, "T-2"), first, "bob"))
	got, blobs, actors := heard(t, b)
	want := []rules.TurnSignalHeard{
		{Run: "T-1", Tree: "turn", Node: "sequence/hear", Turn: 1, Signal: "need_turn",
			Confidence: 0.8, Reason: "search failed"},
		{Run: "T-1", Tree: "turn", Node: "sequence/hear", Turn: 2, Signal: "stuck", Confidence: 0.8,
			Reason: "no network"},
		{Run: "T-2", Tree: "turn", Node: "sequence/hear", Turn: 1, Signal: "need_turn",
			Confidence: 0.8, Reason: "search failed"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"ann", "ann", "bob"}, actors); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	r, err := b.Blob(t.Context(), blobs[1])
	must.Succeed(t, err)
	defer r.Close()
	text, err := io.ReadAll(r)
	must.Succeed(t, err)
	var body map[string]any
	must.Succeed(t, json.Unmarshal(text, &body))
	if diff := cmp.Diff(map[string]any{"fields": map[string]any{"blocker": "no network",
		"tried": []any{"a", 2.0}},
		"raw_xml": `<signal type="stuck">…</signal>`, "timestamp": "2026-01-02T03:04:05Z"},
		body); diff != "" {
		t.Errorf("the blob (-want +got):\n%s", diff)
	}
}

// The text of a signal without text is neither in its event nor in a blob.
func TestToWithoutText(t *testing.T) {
	b, run := newBox(t), newRun(t, "O-1")
	blobs := func() (all []string) {
		t.Helper()
		err := filepath.WalkDir(b.Dir, func(path string, d fs.DirEntry, err error) error {
			if err == nil && strings.Contains(path, "blobs") && d.Type().IsRegular() {
				all = append(all, path)
			}
			return err
		})
		must.Succeed(t, err)
		return all
	}
	put := func(to func(context.Context, Signal) error, emit tree.Emit) {
		t.Helper()
		s, ok := SignalOf(run, emit)
		if !ok {
			t.Fatal("it is not a signal")
		}
		must.Succeed(t, to(t.Context(), s))
	}
	before := blobs()
	for nth, kind := range signalbox.TurnTypes() {
		// Any field of any type may have the text, and the same signal may come again.
		emit := signal(kind, int64(nth)+1, map[string]any{"reason": "holds 365 SLV",
			"blocker": "holds 365 SLV", "task": "holds 365 SLV", "x": []any{"holds 365 SLV"}})
		put(ToWithoutText(b.Engine, "ann"), emit)
		put(ToWithoutText(b.Engine, "ann"), emit)
	}
	for e, err := range b.Events(t.Context(), 0) {
		if err != nil || strings.Contains(string(e.Data), "SLV") {
			t.Errorf("the ledger has %s, %v", e.Data, err)
		}
	}
	got, digests, _ := heard(t, b)
	for i, kind := range signalbox.TurnTypes() {
		want := rules.TurnSignalHeard{Run: "O-1", Tree: "turn", Node: "sequence/hear",
			Turn: uint64(i) + 1, Signal: kind, Confidence: 0.8}
		if i >= len(got) || got[i] != want || digests[i] != (signalbox.Hash{}) {
			t.Fatalf("signal %d of %+v has body %v, want %+v", i, got, digests, want)
		}
	}
	if diff := cmp.Diff(before, blobs()); diff != "" {
		t.Errorf("blobs (-before +after):\n%s", diff)
	}
	// With its text a signal does have a blob, so the comparison above finds them.
	put(To(b.Engine, "ann"), signal("stuck", int64(len(got))+1, nil))
	if len(blobs()) == len(before) {
		t.Error("there is no blob")
	}
}

// A value that cannot be recorded is an error and leaves the ledger unchanged.
func TestRecordRefused(t *testing.T) {
	b, run := newBox(t), newRun(t, "T-1")
	must.Succeed(t, Record(t.Context(), b.Engine, run, signal("need_turn", 1, nil), "ann"))
	for name, c := range map[string]struct {
		emit tree.Emit
		says string
		code signalbox.Code
	}{
		"no signal": {tree.Emit{Topic: turnsignal.Topic, Value: "stuck"},
			"is not a turn signal", 0},
		"nothing": {tree.Emit{Topic: turnsignal.Topic}, "is not a turn signal", 0},
		"unknown signal": {signal("nonsense", 2, nil), "there is no turn signal 'nonsense'",
			signalbox.CodeUsage},
		"one was skipped": {signal("stuck", 3, nil), "turn 3 of run 'T-1' does not follow turn 1",
			signalbox.CodeConflict},
		"not counted": {signal("stuck", 0, nil), "there is no turn 0", signalbox.CodeUsage},
	} {
		err := Record(t.Context(), b.Engine, run, c.emit, "ann")
		if err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %q", name, err, c.says)
		}
		if classed := (*signalbox.Error)(nil); c.code != 0 &&
			(!errors.As(err, &classed) || classed.Code != c.code || classed.Hint == "") {
			t.Errorf("%s: %#v", name, err)
		}
	}
	if got, _, _ := heard(t, b); len(got) != 1 {
		t.Errorf("the ledger has %v", got)
	}
}
