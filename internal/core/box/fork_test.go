package box

import (
	"errors"
	"strings"
	"testing"

	"signalbox/internal/core/journal"
	"signalbox/internal/core/rules"
	"signalbox/internal/testkit/must"
)

// What is done in a fork stays there, and what is done in the box after the fork does not reach it.
func TestFork(t *testing.T) {
	b := newKit(t).open(t)
	open := func(in *Box, id string) {
		t.Helper()
		if _, err := in.Engine.Do(t.Context(),
			rules.OpenWork{Work: id, Title: id, Actor: "ann"}); err != nil {
			t.Fatal(err)
		}
	}
	works := func(in *Box) (ids string) {
		in.Engine.View(func(s *rules.State) {
			for w := range s.Works() {
				ids += w.ID
			}
		})
		return ids
	}
	open(b, "A")
	fork, err := b.Fork(t.Context())
	must.Succeed(t, err)
	open(b, "B")
	open(fork, "C")
	digest, err := fork.Engine.PutBlob(t.Context(), strings.NewReader("text"))
	must.Succeed(t, err)
	if got := works(fork); got != "AC" {
		t.Errorf("the fork has %s", got)
	}
	if read, err := fork.Journal.GetBlob(t.Context(), digest); err != nil {
		t.Errorf("the fork has no blob: %v", err)
	} else {
		read.Close()
	}
	events := 0
	for _, err := range fork.Events(t.Context(), 0) {
		must.Succeed(t, err)
		events++
	}
	if events != 3 { // BoxOpened, A, C
		t.Errorf("the fork has %d events", events)
	}
	must.Succeed(t, fork.Close())
	if _, err := b.Journal.GetBlob(t.Context(), digest); !errors.Is(err, journal.ErrNoBlob) {
		t.Errorf("the blob is in the box: %v", err)
	}
	if err := b.Engine.Refresh(t.Context()); err != nil || works(b) != "AB" {
		t.Errorf("the box has %s, error %v", works(b), err)
	}
}
