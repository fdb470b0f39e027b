package dashboard

import (
	"context"
	"slices"
	"sync"

	"signalbox/internal/tree"
	"signalbox/internal/tree/runner"
	"signalbox/internal/tree/treeruns"
)

// recordings keeps the runs of trees that were looked at last, so that a step does not read all of
// a journal again.
type recordings struct {
	mu   sync.Mutex // guards last
	last []openRecording
}

type openRecording struct {
	run treeruns.Run
	*runner.Recording
}

// of returns the recording of a run.
func (r *recordings) of(run treeruns.Run) *runner.Recording {
	r.mu.Lock()
	defer r.mu.Unlock()
	i := slices.IndexFunc(r.last, func(o openRecording) bool { return o.run.Same(run) })
	if i < 0 {
		load := func(ctx context.Context, h tree.Header) (*tree.Tree, error) {
			return loadTree(ctx, h.File, []byte(h.Source))
		}
		r.last = append(r.last, openRecording{run, runner.NewRecording(run.ID, run.Open, load)})
		if len(r.last) > maxRecordings {
			r.last = r.last[1:]
		}
		return r.last[len(r.last)-1].Recording
	}
	found := r.last[i]
	r.last = append(slices.Delete(r.last, i, i+1), found) // the last is the one that was used last
	return found.Recording
}
