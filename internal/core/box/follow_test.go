package box

import (
	"context"
	"slices"
	"testing"

	"signalbox"
)

// Follow ends with everything that was written before, also by other processes, and also if the
// engine has not noticed it.
func TestFollowEndsWithEventsOfOthers(t *testing.T) {
	k := newKit(t)
	b, other := k.open(t), k.open(t)
	write(t, other, "w1", "w2")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var works []string
	err := b.Follow(ctx, 0, func(events []signalbox.Event) error {
		for i := range events {
			works = append(works, events[i].Work)
		}
		return nil
	})
	if want := []string{"", "w1", "w2"}; err != nil || !slices.Equal(works, want) {
		t.Errorf("events about %q, error %v, want %q", works, err, want)
	}
}
