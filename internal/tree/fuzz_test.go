package tree

import (
	"reflect"
	"testing"

	"signalbox/internal/testkit/must"
)

// FuzzParseRecord checks that no line makes the parser or a replay panic, and that a replayed line
// is recorded unchanged.
func FuzzParseRecord(f *testing.F) {
	lines, _ := story(f)
	for _, line := range lines {
		f.Add(line)
	}
	f.Add([]byte(`{"tick":1,"at":9223372036854775807,"status":"RUNNING","visits":"2R1R0R","wakes":[[2,9223372036854775807]],"jobs":[[2,null]]}`))
	compiled := storyTree(f)
	f.Fuzz(func(t *testing.T, line []byte) {
		rec, err := ParseRecord(line)
		if err != nil {
			return
		}
		r, err := NewReplay(compiled, &RunOptions{Inputs: map[string]any{"list": []any{1}}})
		must.Succeed(t, err)
		if r.Replay(rec) != nil {
			return
		}
		again, err := ParseRecord(append(r.AppendRecord(nil), '}'))
		if err != nil || !reflect.DeepEqual(again.visits, rec.visits) ||
			again.Status != rec.Status || again.At != rec.At {
			t.Fatalf("%s is recorded again as %+v (%v)", line, again, err)
		}
		must.Succeed(t, r.Resume(&RunOptions{}))
		for range 5 {
			r.Tick(epoch)
		}
	})
}
