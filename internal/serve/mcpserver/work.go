package mcpserver

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"signalbox"
	"signalbox/brief"
	"signalbox/internal/core/box"
	"signalbox/internal/core/rules"
	"signalbox/internal/run/stored"
	"signalbox/internal/serve/mcpserver/files"
	"signalbox/internal/serve/mcpserver/schema"
	"signalbox/internal/text"
)

type workInput struct {
	Work    string `json:"work"`
	Session string `json:"session"`
}

// workSnapshot is a work item.
type workSnapshot struct {
	head
	ID          string                    `json:"id"`
	Title       string                    `json:"title"`
	Phase       signalbox.Phase           `json:"phase"`
	Claimable   signalbox.Role            `json:"claimable_by" jsonschema:"empty if it cannot be claimed"`
	BlockedFrom *signalbox.Phase          `json:"blocked_from"`
	WaitsFor    *string                   `json:"waits_for"`
	Lease       *leaseView                `json:"lease"`
	Sessions    int                       `json:"sessions"`
	Last        schema.List[pastSession]  `json:"last_sessions"`
	BlockedBy   schema.List[string]       `json:"blocked_by"`
	Findings    schema.List[finding]      `json:"findings" jsonschema:"to be fixed"`
	Questions   schema.List[workQuestion] `json:"questions" jsonschema:"newest first"`
	LeftOut     bool                      `json:"left_out" jsonschema:"the file has more"`
}

// leaseView is a lease in an answer.
type leaseView struct {
	ID      string         `json:"id"`
	Epoch   uint64         `json:"epoch"`
	Session string         `json:"session"`
	Role    signalbox.Role `json:"role"`
	Expires time.Time      `json:"expires"`
}

func newLeaseView(l *signalbox.Lease) *leaseView {
	if l == nil {
		return nil
	}
	return &leaseView{l.ID, l.Epoch, l.Session, l.Role, l.Expires.UTC()}
}

type pastSession struct {
	Session string          `json:"session"`
	Role    signalbox.Role  `json:"role"`
	Phase   signalbox.Phase `json:"phase"`
	Ended   string          `json:"ended" jsonschema:"empty while it holds the work"`
}

type finding struct {
	Cause   string `json:"cause"`
	Summary string `json:"summary"`
}

type workQuestion struct {
	ID     string  `json:"id"`
	Text   string  `json:"text"`
	Answer *string `json:"answer" jsonschema:"null while it is open"`
}

func (s *workSnapshot) flags() (flags []brief.Flag) {
	if s.Problem != nil {
		return nil
	}
	if s.Phase == signalbox.PhaseBlocked {
		flags = append(flags, brief.Flag{Flag: "blocked", Severity: brief.Warning,
			Message: fmt.Sprintf("%s is blocked", s.ID)})
	}
	if len(s.Findings) > 0 {
		flags = append(flags, brief.Flag{Flag: "findings", Severity: brief.Warning,
			Message: fmt.Sprintf("%d finding%s to fix", len(s.Findings),
				text.Plural(len(s.Findings)))})
	}
	if s.Phase == signalbox.PhaseCompleted {
		flags = append(flags, brief.Flag{Flag: "completed", Severity: brief.Success,
			Message: fmt.Sprintf("%s is completed", s.ID)})
	}
	return flags
}

// fullWork is everything about a work item. It goes to the file of an answer.
type fullWork struct {
	rules.WorkView
	Opened    time.Time         `json:"opened"`
	WaitsFor  *string           `json:"waits_for"`
	Task      *rules.Task       `json:"task"`
	Questions []*rules.Question `json:"questions"`
}

func (s *Server) addGetWork() {
	add(s, definition{
		name: "get_work", title: "Look at one work item", readOnly: true,
		description: "Returns a work item: its phase, who holds it or may claim it, what it waits for, findings to fix, and questions with their answers.",
		input: schema.Object(schema.Work("work", "Id, or PLAN/TASK.").Require(),
			callerSessionArgument()),
	}, func(ctx context.Context,
		in workInput) (found workSnapshot, err error) {
		caller, err := s.callerSessions(ctx, in.Session)
		if err != nil {
			return found, err
		}
		now, unknown := s.opts.Now(), error(nil)
		var full *fullWork
		client := clientFrom(ctx)
		err = s.withReadableBox(ctx, func(b *box.Box) error {
			b.Engine.View(func(state *rules.State) {
				var w *rules.Work
				if unknown = caller.check(s, state); unknown == nil {
					w, unknown = s.findWork(state, in.Work)
				}
				if unknown == nil {
					found, full = s.workFrom(state, w, caller, client.mayClaim(b, state, w, now),
						now)
				}
			})
			if unknown != nil {
				return nil
			}
			return stored.ReadNotes(ctx, b, &full.WorkView)
		})
		if err = cmp.Or(err, unknown); err == nil && found.LeftOut {
			found.attachment = &files.Attachment{Prefix: "work_item", Result: full}
		}
		return found, err
	})
}

func unknownWork(work string) error {
	return problemf("unknown_work", "call list_work to see all work", "unknown work '%s'", work)
}

// workFrom returns the snapshot and the full form of a work item.
func (s *Server) workFrom(state *rules.State, w *rules.Work, caller callerSessions, mayClaim bool,
	now time.Time) (workSnapshot, *fullWork) {
	full := &fullWork{WorkView: w.View(now), Opened: w.Opened, Task: w.Task,
		Questions: []*rules.Question{}}
	short := workSnapshot{ID: w.ID, Title: oneLine(w.Title, 3*maxTitle), Phase: w.Phase,
		Lease: newLeaseView(full.Lease), Sessions: len(full.Sessions)}
	short.LeftOut = short.Title != w.Title || w.Task != nil
	if full.Lease == nil {
		short.Claimable = claimable(state, w, now)
	}
	if w.Phase == signalbox.PhaseBlocked {
		short.BlockedFrom = &w.BlockedFrom
		short.waitFor(w.Notes)
		short.LeftOut = short.LeftOut || w.NotesBlob != (signalbox.Hash{})
	}
	for _, t := range full.Sessions[max(0, len(full.Sessions)-maxShort):] {
		past := pastSession{Session: t.Session, Role: t.Role, Phase: t.Phase}
		if t.Ended != nil {
			past.Ended = string(*t.Ended)
		}
		short.Last = append(short.Last, past)
	}
	short.LeftOut = short.LeftOut || len(full.Sessions) > maxShort
	if w.Task != nil {
		short.addTask(state, w, full)
	} else if w.Checks != nil && w.Checks.Finding != nil {
		short.addFindings(*w.Checks.Finding)
	}
	full.WaitsFor = short.WaitsFor
	short.Verdict = s.workVerdict(&short, caller, mayClaim, w.Task != nil)
	return short, full
}

func (s *workSnapshot) waitFor(reason string) {
	if reason != "" {
		text := oneLine(reason, 3*maxTitle)
		s.WaitsFor = &text
		s.LeftOut = s.LeftOut || text != reason
	}
}

// addTask adds what is known about the task of the work item.
func (s *workSnapshot) addTask(state *rules.State, w *rules.Work, full *fullWork) {
	if s.Claimable == "" && s.Lease == nil && !w.Done() {
		s.waitFor(state.Reason(w))
	}
	s.BlockedBy = w.Task.Blockers[:min(len(w.Task.Blockers), maxListed)]
	s.addFindings(w.Task.Findings[max(0, len(w.Task.Findings)-maxShort):]...)
	for _, q := range state.Questions() {
		if q.Work == w.ID {
			full.Questions = append(full.Questions, q)
		}
	}
	for i := len(full.Questions) - 1; i >= 0 && len(s.Questions) < maxShort; i-- {
		q := full.Questions[i]
		about := workQuestion{ID: q.ID, Text: oneLine(q.Text, 2*maxTitle)}
		if !q.Open() {
			answer := oneLine(q.Answer, 2*maxTitle)
			about.Answer = &answer
		}
		s.Questions = append(s.Questions, about)
	}
}

func (s *workSnapshot) addFindings(findings ...rules.Finding) {
	for _, f := range findings {
		s.Findings = append(s.Findings, finding{f.Cause, oneLine(f.Summary, 2*maxTitle)})
	}
}

func (s *Server) workVerdict(w *workSnapshot, caller callerSessions, mayClaim,
	planned bool) string {
	switch {
	case w.Lease != nil && caller.owns(w.Lease.Session):
		return fmt.Sprintf("You hold %s in %s as session %s under epoch %d until %s: work on it, %s", w.ID, w.Phase, w.Lease.Session, w.Lease.Epoch,
			w.Lease.Expires.Format(time.RFC3339), s.howToEnd(planned))
	case w.Lease != nil:
		return fmt.Sprintf("%s is in %s, held by session %s until %s: leave it", w.ID, w.Phase,
			w.Lease.Session, w.Lease.Expires.Format(time.RFC3339))
	case w.Claimable != "" && mayClaim:
		return fmt.Sprintf("%s is in %s and free: claim it as %s", w.ID, w.Phase, w.Claimable)
	case w.Claimable != "":
		return fmt.Sprintf("%s is in %s and free, but not for you: it waits for another %s", w.ID,
			w.Phase, w.Claimable)
	case w.Phase == signalbox.PhaseCompleted:
		return fmt.Sprintf("%s is completed: there is nothing to do", w.ID)
	case w.WaitsFor != nil:
		return fmt.Sprintf("%s is in %s and cannot be claimed: %s", w.ID, w.Phase, *w.WaitsFor)
	}
	return fmt.Sprintf("%s is in %s and cannot be claimed now: do other work", w.ID, w.Phase)
}

type openInput struct {
	Work  string          `json:"work"`
	Title string          `json:"title"`
	Phase signalbox.Phase `json:"phase"`
	Actor string          `json:"actor"`
}

// openSnapshot is a new work item.
type openSnapshot struct {
	head
	Work  string          `json:"work"`
	Phase signalbox.Phase `json:"phase"`
	Seq   uint64          `json:"seq"`
}

func (s *Server) addOpenWork() {
	add(s, definition{
		name: "open_work", title: "Add a work item", idempotent: true,
		description: "Adds a work item outside any plan. An id that already exists is rejected, so that a repeated call adds nothing.",
		input: schema.Object(
			schema.ID("work", "A new id: letters, digits, '.', '_' and '-'.").Require(),
			schema.Text("title", 1000, "One line about the work."),
			schema.Choice("phase",
				[]signalbox.Phase{signalbox.PhaseDraft, signalbox.PhaseImplementation},
				"The first phase.").Default(signalbox.PhaseImplementation),
			schema.ID("actor", "Your name."),
		),
	}, func(ctx context.Context,
		in openInput) (opened openSnapshot, err error) {
		if err := s.operatorOnly("open work"); err != nil {
			return opened, err
		}
		actor, err := clientFrom(ctx).actor(in.Actor)
		if err != nil {
			return opened, err
		}
		answer, err := s.do(ctx, rules.OpenWork{Work: in.Work, Title: in.Title, Phase: in.Phase,
			Actor: actor})
		opened.Work, opened.Phase, opened.Seq = in.Work, answer.Phase, answer.Seq
		if signalbox.CodeOf(err) == signalbox.CodeConflict {
			err = &problem{"work_exists", err, "claim it, or choose another id"}
		}
		opened.Verdict = fmt.Sprintf("%s is open in %s: claim it as %s", in.Work, answer.Phase,
			answer.Phase.ClaimableBy())
		return opened, err
	})
}
