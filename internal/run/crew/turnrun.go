package crew

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"signalbox"
	"signalbox/internal/contain"
	"signalbox/internal/core/journal"
	"signalbox/internal/core/rules"
	"signalbox/internal/run/agent"
	"signalbox/internal/run/agentsocket"
	"signalbox/internal/run/turnprompt"
	"signalbox/internal/run/workspace"
	"signalbox/internal/team"
	"signalbox/internal/tree/treeruns"
)

// runTurn runs the agent's program once, saves what it changed, and reports what it said to the
// rules.
func (s *session) runTurn(ctx context.Context, ws *sessionWorkspace, remaining time.Duration,
	last lastTurn) (rules.Answer, *turn, error) {
	t, resumed, err := s.startTurn(ctx, ws, remaining, last)
	if err != nil {
		return rules.Answer{}, nil, err
	}
	// whatever the turn said, and whatever is in its working copy
	if left := leftBy(t.exit.Err); left != nil {
		ended := t.result()
		s.unreported = &ended
		return rules.Answer{}, nil, left
	}
	// Save before reporting, so that the work is there when others read that it is ready.
	if err := s.saveTurn(ctx, ws, t); err != nil {
		return rules.Answer{}, nil, err
	}
	over := context.Cause(ctx)
	switch t.ending(over, resumed) {
	case endInterrupted:
		if err := s.recordInterruption(t); err != nil && !errors.Is(err, errLeaseLost) {
			s.crew.log.Warn("cannot record an interrupted turn", "work", s.work, "error", err)
		}
		return rules.Answer{}, nil, over
	case endCapped:
		return rules.Answer{}, t, s.recordInterruption(t)
	case endLeaseLost:
		return rules.Answer{}, nil, errLeaseLost
	case endNotResumed:
		_, err := s.submit(rules.EndTurn{Session: s.id, Epoch: s.epoch, Turn: t.result()})
		return rules.Answer{}, t, errors.Join(asLeaseLost(err), errNotResumed)
	}
	answer, err := s.report(t)
	return answer, t, err
}

// saveTurn saves and publishes what an author changed. If only an agent can make that possible, the
// turn says so.
func (s *session) saveTurn(ctx context.Context, ws *sessionWorkspace, t *turn) error {
	err := s.retry(ctx, workspace.NeedsAgent, func() (err error) {
		if t.commit, err = ws.save(context.WithoutCancel(ctx), s.saveMessage(t)); err != nil {
			return err
		}
		if err = s.crew.exchange.PublishSaved(ctx, s.work, t.commit); err != nil &&
			ctx.Err() != nil {
			t.commit, err = "", nil // it stays here, and the turn is recorded without it
		}
		return err
	})
	if !workspace.NeedsAgent(err) {
		return err
	}
	if t.cause == "" { // otherwise the next agent is told what to clean up
		t.rejectWorkspace(err)
	}
	return nil
}

// saveMessage returns what the commit says that a turn of an author ends with.
func (s *session) saveMessage(t *turn) string {
	if t.signal.Name != signalbox.NameReadyForReview {
		return fmt.Sprintf("%s: %s", s.work, s.role)
	}
	return workspace.CommitMessage(s.work, mergeMessage(s.workItem()),
		body(decoded(t.signal.Body)).first("Summary", "text"))
}

// startTurn runs the agent's program once, with the prompt of the turn. resumed reports whether the
// program was to continue its session.
func (s *session) startTurn(ctx context.Context, ws *sessionWorkspace, remaining time.Duration,
	last lastTurn) (t *turn, resumed bool, err error) {
	name := s.agentName()
	configured := s.crew.box.Config.AgentNamed(name)
	command, err := agent.CommandFor(s.role, configured)
	if err != nil {
		return nil, false, err
	}
	if ws.steer != nil { // before each turn: what the agent tries out can change files
		if last.steering, err = ws.steer(ctx); err != nil {
			return nil, false, err
		}
	}
	key := s.crew.newKey()
	thread := s.resumable(ctx, ws, name, command, last)
	var prompt []byte
	err = s.crew.box.Engine.WhenAvailable(ctx, func() (err error) {
		prompt, s.told, err = s.crew.prompts.Build(ctx, turnprompt.Turn{Role: s.role, Work: s.work,
			Key: key,
			Dir: ws.dir, Diff: ws.diff, Steering: firstSteering(last.steering),
			CleanupNote: last.cleanupNote,
			Again:       last.again, Progressed: last.progressed, Output: last.output,
			Advice: showKey(last.advice, key), Resumed: thread != "", Parked: last.parked})
		return err
	})
	if err != nil {
		return nil, false, err
	}
	digest, err := s.put([]byte(hideKey(string(prompt), key)))
	if err != nil {
		return nil, false, err
	}
	contained := s.contain(name, configured, command, ws)
	finish := sync.OnceFunc(func() { s.finish(name, contained) })
	defer finish()
	recorded, err := s.job().Recorded(contained.Policy)
	if err != nil {
		return nil, false, err
	}
	if err := contained.Prepare(); err != nil {
		return nil, false, err
	}
	defer s.renewLogins(contained) // if the program does not start
	started, err := s.crew.box.Engine.DoPatiently(ctx, nil,
		rules.StartAgent{Session: s.id, Epoch: s.epoch, Agent: name, Prompt: digest,
			Sandbox: recorded, Resumes: thread, Format: command.Format})
	if err != nil {
		return nil, false, asLeaseLost(err)
	}
	s.started = true
	t, err = s.runProgram(ctx, command, key, agent.Values{
		Prompt: prompt, Dir: ws.dir, Start: s.startFolder(command, contained), Role: string(s.role),
		Task: s.work, Session: s.id, Model: configured.Model, Resume: thread,
		ScratchDir: s.temp, Base: contained.Base,
		Env: slices.Concat(contained.Env, s.environment(started.Attempt, ws)),
	}, contained, remaining)
	finish()
	if err != nil {
		// what the agent changed is kept, although its turn cannot be recorded
		if errors.Is(err, journal.ErrUnavailable) {
			_, saveErr := ws.save(context.WithoutCancel(ctx), s.work+
				": changes of an interrupted agent")
			err = errors.Join(err, saveErr)
		}
		return nil, false, err
	}
	return t, thread != "", nil
}

// errNotResumed means that the program could not continue its session, and a new one must be
// started.
var errNotResumed = errors.New("the agent program did not continue its session")

// resumable returns the session of the agent program that the next turn continues, "" if it starts
// a new one. The agent must be the same, and the files must be as it left them: what it remembers
// of others would be wrong. Only authors continue. Whoever judges has run what the author wrote,
// which could have changed the conversation, and starts again; the prompt has what it asked for.
func (s *session) resumable(ctx context.Context, ws *sessionWorkspace, name string,
	command agent.Command, last lastTurn) string {
	c := s.workItem().Task.Conversation
	if c == nil || !s.role.IsAuthor() || command.Resume == nil || last.again || last.noResume ||
		c.Agent != name || c.Role != s.role || !rules.IsConversation(c.ID) {
		return ""
	}
	if c.Epoch == s.epoch { // this session was parked; its folder is still the same
		if !last.parked {
			return ""
		}
		commit, err := ws.save(ctx, s.work+": changes of a parked agent")
		if err != nil || commit != c.Commit {
			return ""
		}
		return c.ID
	}
	// Only authors have a folder that stays. If signalbox was killed, it is not known what the
	// folder had then, and no one else works in it.
	if ws.commit == "" || c.Commit != "" && c.Commit != ws.commit {
		return ""
	}
	return c.ID
}

// environment tells the agent, and the programs it starts, who it is.
func (s *session) environment(attempt int, ws *sessionWorkspace) []string {
	all := []string{
		"SIGNALBOX_SESSION=" + s.id, "SIGNALBOX_BOX=" + s.crew.box.Dir,
		"SIGNALBOX_ROLE=" + string(s.role),
		"SIGNALBOX_SECRET=" + s.secret, "SIGNALBOX_WORK=" + s.work,
		fmt.Sprintf("SIGNALBOX_EPOCH=%d", s.epoch),
		fmt.Sprintf("SIGNALBOX_ATTEMPT=%d", attempt),
		agentsocket.Variable + "=" + s.socket,
		"GIT_NO_REPLACE_OBJECTS=1", // a reviewer's git shows the commits as they are
	}
	if ws.diff != "" {
		all = append(all, DiffVariable+"="+ws.diff)
	}
	if copied := s.crew.box.Config.Team; copied != "" {
		all = append(all, team.Variable+"="+copied)
	}
	return all
}

// startFolder returns the folder in which a program that judges is started if that must not be its
// workspace: its home folder, which is new. It is "" if the program can start in its workspace.
func (s *session) startFolder(command agent.Command, contained *contain.Program) string {
	if s.role.IsAuthor() || !command.Elsewhere {
		return ""
	}
	return contained.Home()
}

// finish removes what was only for one start of the agent's program. Recorded runs of trees are
// kept.
func (s *session) finish(name string, contained *contain.Program) {
	if !s.role.IsAuthor() {
		if err := treeruns.Keep(s.crew.box.Dir, s.work,
			contain.AgentHome(string(s.role), name)); err != nil {
			s.crew.log.Warn("cannot keep the recorded runs of trees", "work", s.work, "error", err)
		}
	}
	if err := contained.Finish(); err != nil {
		s.crew.log.Warn("cannot remove the home folder of an agent", "work", s.work, "error", err)
	}
}

// recordInterruption records the output and the cost of a turn that the end of the run or a cap cut
// short. Its signals do not count: the work is released, and what the agent changed stays in its
// working copy.
func (s *session) recordInterruption(t *turn) error {
	ended := t.result()
	ended.Interrupted, ended.Cap = true, t.cap
	_, err := s.submit(rules.EndTurn{Session: s.id, Epoch: s.epoch, Turn: ended})
	return asLeaseLost(err)
}
