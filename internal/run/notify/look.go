package notify

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"signalbox"
	"signalbox/internal/config"
	"signalbox/internal/core/journal"
	"signalbox/internal/core/rules"
	"signalbox/internal/run/questions"
	"signalbox/internal/text"
)

// maxScan is how many events a Sender reads that has no outbox yet. What happened before them is
// not news.
const maxScan = 10_000

// situation is the state of a box as far as the operator is notified of it.
type situation struct {
	seq       uint64
	status    rules.Status
	windowEnd time.Time
	open      map[string]bool // the open questions
	approvals map[string]string
	steering  map[string]string         // what the human must know about those
	requests  map[string]rules.Delivery // the work that waits until its pull request is merged
	asked     []rules.Question          // the open questions, in order
}

func (s *Sender) situation() situation {
	now := time.Now()
	found := situation{open: map[string]bool{}, approvals: map[string]string{},
		steering: map[string]string{}, requests: map[string]rules.Delivery{}}
	s.box.Engine.View(func(state *rules.State) {
		found.seq, found.status, found.windowEnd = state.Seq(), state.Status(now),
			state.WindowEnd(now)
		for _, q := range state.Questions() {
			if q.Open() {
				found.open[q.ID] = true
				found.asked = append(found.asked, *q)
			}
		}
		for _, work := range found.status.Approvals {
			commit := ""
			if w, known := state.Work(work); known && w.Task != nil {
				commit, found.steering[work] = w.Task.Commit, questions.SteeringText(w)
			}
			found.approvals[work] = commit
		}
		for _, w := range state.Requests() {
			found.requests[w.ID] = w.Task.Delivered.Delivery
		}
	})
	return found
}

// look adds messages for what is new since the last look, and removes those that no longer matter.
// It stores the outbox if it changed. Its error is journal.ErrUnavailable: try again later.
func (s *Sender) look() error {
	now := s.situation()
	s.mu.Lock()
	defer s.mu.Unlock()
	if now.seq <= s.out.Seq {
		return nil
	}
	// reading the ledger takes no time that matters, and nothing may be forgotten
	ctx := context.Background()
	requested, delivered, err := s.scan(ctx, now.seq)
	var asked []questions.Pending
	if err == nil {
		asked, err = s.newQuestions(ctx, now)
	}
	if errors.Is(err, journal.ErrUnavailable) {
		return err
	}
	if err != nil {
		s.warnOnce("ledger", "cannot read what to notify of", err)
		return nil
	}
	s.removeSettled(now)
	for i := range asked {
		s.add(questionMessage(&asked[i]))
	}
	s.addApprovals(now, requested)
	for _, work := range slices.Sorted(maps.Keys(delivered)) {
		if d, waits := now.requests[work]; waits {
			s.add(Message{Event: config.NotifyApproval, Seq: delivered[work], Title: work +
				" has a pull request", Text: "it waits to be merged: " + line(d.Request, maxText),
				Work: work, Commit: d.Commit, Request: d.Request})
		}
	}
	s.addStanding(now)
	s.out.Seq = now.seq
	s.save()
	return nil
}

// scan reads the events up to seq that were not looked at, and returns which of them requested a
// merge, and which delivered work, by work.
func (s *Sender) scan(ctx context.Context,
	seq uint64) (requested, delivered map[string]uint64, err error) {
	requested, delivered = map[string]uint64{}, map[string]uint64{}
	after := s.out.Seq
	if seq > maxScan && after == 0 {
		after = seq - maxScan
	}
	for e, err := range s.box.Events(ctx, after) {
		if err != nil {
			return nil, nil, err
		}
		if e.Seq > seq { // appended after the state was looked at
			break
		}
		switch e.Type {
		case rules.TypeMergeRequested:
			requested[e.Work] = e.Seq
		case rules.TypeDelivered:
			delivered[e.Work] = e.Seq
		case rules.TypeAgentSpent, rules.TypeAgentTurnEnded:
			s.out.Spent = e.Seq
		case rules.TypeLeaseGranted, rules.TypeCancelled:
			s.out.Moved = e.Seq
		case rules.TypePhaseChanged:
			s.out.Moved = e.Seq
			var changed rules.PhaseChanged
			if json.Unmarshal(e.Data, &changed) == nil && changed.To == signalbox.PhaseCompleted {
				s.out.Completed = e.Seq
			}
		}
	}
	return requested, delivered, nil
}

// removeSettled removes messages about questions that were answered, merges that were approved, and
// a run that continues.
func (s *Sender) removeSettled(now situation) {
	s.out.Pending = slices.DeleteFunc(s.out.Pending, func(p pending) bool {
		m := &p.Message
		switch {
		case m.Question != "":
			return !now.open[m.Question]
		case m.Request != "":
			d, waits := now.requests[m.Work]
			return !waits || d.Commit != m.Commit
		case m.Event == config.NotifyApproval:
			_, waits := now.approvals[m.Work]
			return !waits
		case m.Event == config.NotifyStuck:
			return now.status.Standing != rules.StandingStuck
		}
		return false
	})
}

// newQuestions returns the open questions that were asked since the last look.
func (s *Sender) newQuestions(ctx context.Context, now situation) ([]questions.Pending, error) {
	isNew := func(q rules.Question) bool { return q.Seq > s.out.Seq && q.Seq <= now.seq }
	if !slices.ContainsFunc(now.asked, isNew) {
		return nil, nil
	}
	// also those that were just answered: their details do no harm
	all, err := questions.List(ctx, s.box, true)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(all,
		func(q questions.Pending) bool { return q.ID == "" || !now.open[q.ID] || !isNew(q.Question) }), nil
}

func (s *Sender) addApprovals(now situation, requested map[string]uint64) {
	for _, work := range now.status.Approvals {
		seq, known := s.out.Approvals[work]
		if known && requested[work] <= seq {
			continue
		}
		subject := ""
		// the merge was requested before it needed approval, and perhaps others were too
		if seq = requested[work]; seq == 0 {
			seq, subject = now.seq, subjectID(work)
		}
		s.out.Approvals[work] = seq
		m := Message{ID: subject, Event: config.NotifyApproval, Seq: seq, Title: work + " needs your approval", Command: "signalbox approve " + work, Work: work, Commit: now.approvals[work]}
		if m.Text = work + " is ready to merge"; m.Commit != "" {
			m.Text = fmt.Sprintf("%s is ready to merge: commit %.7s", work, m.Commit)
		}
		m.Text += line(now.steering[work], maxText)
		s.add(m)
	}
	for work := range s.out.Approvals {
		if _, waits := now.approvals[work]; !waits {
			delete(s.out.Approvals, work)
		}
	}
}

// addStanding adds messages about the run as a whole.
func (s *Sender) addStanding(now situation) {
	st := now.status
	switch {
	case st.Standing == rules.StandingComplete && s.out.Completed > s.out.Done:
		s.out.Done = s.out.Completed
		s.add(Message{Event: config.NotifyDone, Seq: s.out.Completed, Title: "the plan is complete",
			Text: "all " + text.Count(st.Tasks, "task") + " of the plan are completed"})
	case st.Standing == rules.StandingStuck && !st.RunCancelled && s.out.Moved > s.out.Stuck:
		s.out.Stuck = s.out.Moved
		s.add(Message{Event: config.NotifyStuck, Seq: s.out.Moved, Title: "the run is stuck",
			Text: block(strings.Join(st.Reasons, "; "), maxText), Command: "signalbox work list"})
	}
	if now.windowEnd.After(s.out.Window) {
		s.out.Window = now.windowEnd
		s.add(Message{Event: config.NotifyBudget, Seq: cmp.Or(s.out.Spent, now.seq),
			Title: "the token window is used up",
			Text: "the run continues by itself at " +
				now.windowEnd.Local().Format("2006-01-02 15:04")})
	}
}

// add adds a message for the targets that want it. The caller sets ID only to what distinguishes it
// from others that the same event caused.
func (s *Sender) add(m Message) {
	m.Box, m.Project, m.Time = s.box.ID(), line(s.opts.Project, maxTitle),
		time.Now().UTC().Truncate(time.Second)
	m.ID = messageID(m.Box, m.Seq, m.Event) + m.ID
	m.fit()
	var targets []string
	for _, t := range s.targets {
		if t.wants(m.Event) {
			targets = append(targets, t.name)
		}
	}
	if s.out.add(m, targets) {
		s.log.Warn(fmt.Sprintf(
			"more than %d notifications could not be delivered; the oldest are dropped",
			maxPending))
	}
}

// save stores the outbox. If that fails, the message is sent nevertheless, and perhaps again after
// a restart.
func (s *Sender) save() {
	if err := s.out.write(filepath.Join(s.box.Dir, outboxName)); err != nil {
		s.warnOnce("outbox",
			"cannot store which notifications were delivered; they may be sent again", err)
	}
}
