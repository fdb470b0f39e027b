package mcpserver

import (
	"context"
	"fmt"
	"time"

	"signalbox"
	"signalbox/brief"
	"signalbox/internal/core/box"
	"signalbox/internal/core/rules"
	"signalbox/internal/serve/mcpserver/files"
	"signalbox/internal/serve/mcpserver/schema"
	"signalbox/internal/text"
)

// listInput has the filters of list_work. Empty fields match everything.
type listInput struct {
	Phase signalbox.Phase `json:"phase"`
	Role  signalbox.Role  `json:"claimable_by"`
	Held  string          `json:"held_by"`
}

// listSnapshot is the matching work.
type listSnapshot struct {
	head
	Total     int                     `json:"total"`
	Matching  int                     `json:"matching"`
	Shown     int                     `json:"shown" jsonschema:"the file has the rest"`
	Claimable int                     `json:"claimable" jsonschema:"by you"`
	Phases    phaseCounts             `json:"phases"`
	Work      schema.List[listedWork] `json:"work" jsonschema:"at most 10"`
}

// listedWork is a work item in a list.
type listedWork struct {
	ID        string          `json:"id"`
	Title     string          `json:"title"`
	Phase     signalbox.Phase `json:"phase"`
	Claimable signalbox.Role  `json:"claimable_by" jsonschema:"empty if it cannot be claimed"`
	HeldBy    *string         `json:"held_by"`
}

func (s *listSnapshot) flags() (flags []brief.Flag) {
	switch {
	case s.Problem != nil:
	case s.Matching == 0:
		flags = append(flags, brief.Flag{Flag: "no_work", Severity: brief.Info,
			Message: "No work matches"})
	case s.Shown < s.Matching:
		flags = append(flags, brief.Flag{Flag: "list_shortened", Severity: brief.Info,
			Message: fmt.Sprintf("%d of %d are shown; the file has all of them", s.Shown,
				s.Matching)})
	}
	return flags
}

func (s *Server) addListWork() {
	add(s, definition{
		name: "list_work", title: "List work", readOnly: true,
		description: "Lists work items, those that you may claim first, otherwise in the order they were opened. Shows at most 10; the file has all of them.",
		input: schema.Object(
			schema.Choice("phase", signalbox.Phases(), "Only work in this phase."),
			schema.Choice("claimable_by", claimRoles(), "Only work that this role may claim now."),
			schema.ID("held_by", "Only work that this session holds."),
		),
	}, func(ctx context.Context,
		in listInput) (found listSnapshot, err error) {
		now := s.opts.Now()
		var all []rules.WorkView
		client := clientFrom(ctx)
		err = s.view(ctx, func(b *box.Box, state *rules.State) {
			found, all = in.find(state, now, s.shows,
				func(w *rules.Work) bool { return client.mayClaim(b, state, w, now) })
		})
		if err == nil && found.Shown < found.Matching {
			found.attachment = &files.Attachment{Prefix: "work", Result: all}
		}
		return found, err
	})
}

// claimRoles returns the roles that can claim work.
func claimRoles() (roles []signalbox.Role) {
	seen := map[signalbox.Role]bool{"": true}
	for _, phase := range signalbox.Phases() {
		if role := phase.ClaimableBy(); !seen[role] {
			seen[role] = true
			roles = append(roles, role)
		}
	}
	return roles
}

// find returns the snapshot and the full list. shows reports whether the caller may see a work
// item, and mayClaim whether it may claim one that is not held.
func (in listInput) find(state *rules.State, now time.Time, shows,
	mayClaim func(*rules.Work) bool) (found listSnapshot, all []rules.WorkView) {
	var free, others schema.List[listedWork]
	for w := range state.Works() {
		if !shows(w) {
			continue
		}
		found.Total++
		listed := listedWork{ID: w.ID, Title: oneLine(w.Title, maxTitle), Phase: w.Phase}
		if lease := w.LiveLease(now); lease != nil {
			listed.HeldBy = &lease.Session
		} else {
			listed.Claimable = claimable(state, w, now)
		}
		if in.Phase != "" && w.Phase != in.Phase || in.Role != "" && listed.Claimable != in.Role ||
			in.Held != "" && (listed.HeldBy == nil || *listed.HeldBy != in.Held) {
			continue
		}
		found.Matching++
		found.Phases.count(w.Phase)
		all = append(all, w.View(now))
		if listed.HeldBy == nil && mayClaim(w) {
			found.Claimable++
			free = append(free, listed)
		} else if len(others) < maxListed {
			others = append(others, listed)
		}
	}
	found.Work = append(free[:min(len(free), maxListed)], others...)
	found.Work = found.Work[:min(len(found.Work), maxListed)]
	found.Shown = len(found.Work)
	found.Verdict = found.verdict(in)
	return found, all
}

func (s *listSnapshot) verdict(in listInput) string {
	switch {
	case s.Total == 0:
		return "There is no work yet: add some with open_work, or run a plan"
	case s.Matching == 0:
		return fmt.Sprintf("None of the %d work items matches: try another phase or role", s.Total)
	case s.Claimable > 0:
		first := s.Work[0]
		return fmt.Sprintf("%d of %d can be claimed: claim %s as %s", s.Claimable, s.Matching,
			first.ID, first.Claimable)
	case in.Held != "":
		return fmt.Sprintf("Session %s holds %d work item%s: finish what it holds", in.Held,
			s.Matching, text.Plural(s.Matching))
	}
	return fmt.Sprintf("%d work item%s, none that you can claim now: try again later", s.Matching,
		text.Plural(s.Matching))
}
