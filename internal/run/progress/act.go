package progress

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	tea "charm.land/bubbletea/v2"

	"signalbox/internal/core/rules"
	"signalbox/internal/run/changes"
	"signalbox/internal/run/inspect/render"
	"signalbox/internal/run/questions"
	"signalbox/internal/run/steer"
	"signalbox/internal/text"
)

// Messages about decisions.
type (
	// aboutMsg has what the user should know before a decision.
	aboutMsg struct {
		decision decision
		lines    []string
		commit   string // that is shown
		err      error
	}
	// decidedMsg says what a decision did.
	decidedMsg struct {
		decision decision
		said     string
		err      error
	}
)

// refused returns why a decision would be refused whatever its text is, nil if it would not.
func (s *screen) refused(d decision) error {
	d.Actor = s.o.Actor
	return steer.Decision(d).Refused(s.b)
}

// carryOut carries out a decision, as the commands of signalbox do.
func (s *screen) carryOut(d decision) tea.Cmd {
	return func() tea.Msg {
		said, err := s.do(context.Background(), d)
		return decidedMsg{d, said, err}
	}
}

func (s *screen) do(ctx context.Context, d decision) (said string, err error) {
	d.Actor = s.o.Actor
	a, err := steer.Decision(d).Do(ctx, s.b)
	if err != nil {
		return "", err
	}
	switch d.What {
	case steer.Answer:
		return render.Answered(d.Question, a), nil
	case steer.Reject, steer.Rework:
		said = render.SentBack(s.b, a)
	case steer.Tell:
		said = render.Told(s.b, a)
	default:
		said = render.Ordered(d.What, a)
	}
	return cmp.Or(d.Work, "the run") + ": " + said + render.StillWaits(d.Work, a), nil
}

// prepare finds what the user should know before a decision.
func (s *screen) prepare(d decision) tea.Cmd {
	return func() tea.Msg {
		about, commit, err := s.about(context.Background(), d)
		return aboutMsg{d, strings.Split(text.PrintableLines(about), "\n"), commit, err}
	}
}

func (s *screen) about(ctx context.Context, d decision) (about, commit string, err error) {
	switch d.What {
	case steer.Answer:
		list, err := questions.List(ctx, s.b, false)
		if err != nil {
			return "", "", err
		}
		for i := range list {
			if list[i].ID == d.Question {
				return render.AboutQuestion(&list[i]), "", nil
			}
		}
		return "", "", errors.New(d.Question + " is not open any more")
	case rules.OrderApprove:
		change, err := changes.Of(ctx, s.b, s.o.Root, d.Work)
		if err != nil {
			return "", "", fmt.Errorf("what the commit changes is not known: %w", err)
		}
		lines := []string{change.Title, fmt.Sprintf("commit %.12s", change.Commit)}
		if steering := change.AboutSteering(); steering != "" {
			lines = append(lines, steering)
		}
		lines = append(append(lines, ""), render.DiffStat(change, 72)...)
		switch {
		case !change.Known:
			lines = append(lines, "the files that it changes are not known")
		case len(change.Files) == 0:
			lines = append(lines, "no file is changed")
		}
		return strings.Join(lines, "\n"), change.Commit, nil
	}
	about, err = render.AboutTask(ctx, s.b, s.o.Root, d.Work)
	return about, "", err
}
