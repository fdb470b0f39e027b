package progress

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	"signalbox/internal/core/rules"
	"signalbox/internal/run/crew"
	"signalbox/internal/run/inspect/render"
	"signalbox/internal/run/questions"
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

// command returns the command of the rules for a decision.
func (s *screen) command(d decision) rules.Command {
	switch d.action {
	case actAnswer:
		return rules.AnswerQuestion{Question: d.question, Answer: d.text, Actor: s.o.Actor}
	case actApprove:
		return rules.Order{What: rules.OrderApprove, Work: d.work, Commit: d.commit, Actor: s.o.Actor}
	case actReject, actRework:
		return rules.Rework{Work: d.work, Text: d.text, Actor: s.o.Actor, Reject: d.action == actReject}
	case actTell:
		return rules.Tell{Work: d.work, Text: d.text, Actor: s.o.Actor}
	}
	return rules.Order{What: rules.OrderResume, Work: d.work, Actor: s.o.Actor}
}

// refused returns why a decision would be refused whatever its text is, nil if it would not.
func (s *screen) refused(d decision) (err error) {
	if d.text == "" {
		d.text = "text"
	}
	s.b.Engine.View(func(state *rules.State) { err = rules.Decide(state, time.Now(), s.command(d)).Err })
	return err
}

// carryOut carries out a decision, as the commands of signalbox do.
func (s *screen) carryOut(d decision) tea.Cmd {
	return func() tea.Msg {
		said, err := s.do(context.Background(), d)
		return decidedMsg{d, said, err}
	}
}

func (s *screen) do(ctx context.Context, d decision) (said string, err error) {
	var a rules.Answer
	about := d.work
	switch c := s.command(d).(type) {
	case rules.Rework:
		if a, err = crew.Rework(ctx, s.b, c); err == nil {
			said = render.SentBack(s.b, a) + render.StillWaits(d.work, a)
		}
	case rules.Tell:
		if a, err = crew.Tell(ctx, s.b, c); err == nil {
			said = render.Told(s.b, a) + render.StillWaits(d.work, a)
		}
	case rules.AnswerQuestion:
		if a, err = s.b.Engine.Do(ctx, c); err == nil {
			return render.Answered(d.question, a), nil
		}
	case rules.Order:
		if a, err = s.b.Engine.Do(ctx, c); err == nil {
			said = render.Ordered(c.What, a) + render.StillWaits(d.work, a)
		}
	}
	if err != nil {
		return "", err
	}
	if about == "" {
		about = "the run"
	}
	return about + ": " + said, nil
}

// prepare finds what the user should know before a decision.
func (s *screen) prepare(d decision) tea.Cmd {
	return func() tea.Msg {
		about, commit, err := s.about(context.Background(), d)
		return aboutMsg{d, strings.Split(text.PrintableLines(about), "\n"), commit, err}
	}
}

func (s *screen) about(ctx context.Context, d decision) (about, commit string, err error) {
	switch d.action {
	case actAnswer:
		list, err := questions.List(ctx, s.b, false)
		if err != nil {
			return "", "", err
		}
		for i := range list {
			if list[i].ID == d.question {
				return render.AboutQuestion(&list[i]), "", nil
			}
		}
		return "", "", errors.New(d.question + " is not open any more")
	case actApprove:
		change, err := crew.ChangeOf(ctx, s.b, s.o.Root, d.work)
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
	about, err = render.AboutTask(ctx, s.b, s.o.Root, d.work)
	return about, "", err
}
