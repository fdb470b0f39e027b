package deliver

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"signalbox/internal/core/rules"
	"signalbox/internal/run/forge"
)

// The user is told of a pull request that has waited long, once, and not of one that waits for a
// moment.
func TestSlowRequests(t *testing.T) {
	w := &rules.Work{ID: "T1",
		Task: &rules.Task{BranchState: rules.BranchState{Delivered: &rules.DeliveredTask{
			Delivery: rules.Delivery{Commit: "c0ffee", Request: "https://forge.example/1"}}}}}
	pending, other := forge.Status{Head: "c0ffee", Pending: true}, forge.Status{Head: "beef"}
	var log strings.Builder
	told := map[string]bool{}
	newRequests := func(slow time.Duration) *Requests {
		return &Requests{Slow: slow, Warn: func(text string) {
			if !told[text] {
				fmt.Fprintln(&log, "WARN", text)
			}
			told[text] = true
		}}
	}
	r := newRequests(time.Hour)
	r.warnWaiting(w, pending, false)
	r.warnWaiting(w, other, true)
	if log.Len() > 0 {
		t.Errorf("warned at once: %s", log.String())
	}
	r.waits["T1"] = wait{r.waits["T1"].warning, time.Now().Add(-2 * time.Hour)}
	r.warnWaiting(w, pending, false) // it waits for something else now
	if log.Len() > 0 {
		t.Errorf("warned of something new: %s", log.String())
	}
	r = newRequests(0)
	for range 2 {
		r.warnWaiting(w, pending, false)
		r.warnWaiting(w, forge.Status{Head: "c0ffee"}, false)
		r.warnWaiting(w, other, true)
	}
	if got := log.String(); strings.Count(got, "WARN") != 2 ||
		!strings.Contains(got, "are still running") ||
		!strings.Contains(got, "beef, but c0ffee was delivered") {
		t.Errorf("warnings:\n%s", got)
	}
}
