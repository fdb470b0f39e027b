package crew

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"signalbox"
	"signalbox/internal/config"
	"signalbox/internal/contain"
	"signalbox/internal/core/journal"
	"signalbox/internal/core/rules"
	"signalbox/internal/run/agent"
	"signalbox/internal/run/agentsocket"
	"signalbox/internal/run/prompts"
	"signalbox/internal/run/turnprompt"
	"signalbox/internal/run/workspace"
	"signalbox/internal/team"
	"signalbox/internal/tree/treeruns"
)

// turnRun is one turn of an agent: one run of its program. Its result is a turn.
type turnRun struct {
	*agentRun
	ws        *sessionWorkspace
	remaining time.Duration // until the role's timeout
	last      lastTurn

	name       string // of the agent
	configured config.Agent
	command    agent.Command
	key        string              // that its signals must have; "" if they need none
	resumes    *rules.Conversation // what it continues; nil if it starts a new session
	contained  *contain.Program
}

// do runs the agent's program once, saves what it changed, and reports what it said to the rules.
func (r *turnRun) do(ctx context.Context) (rules.Answer, *turn, error) {
	t, err := r.start(ctx)
	if err != nil {
		return rules.Answer{}, nil, err
	}
	// whatever the turn said, and whatever is in its working copy
	if left := leftBy(t.exit.Err); left != nil {
		ended := t.result()
		r.unreported = &ended
		return rules.Answer{}, nil, left
	}
	// Save before reporting, so that the work is there when others read that it is ready.
	if err := r.save(ctx, t); err != nil {
		return rules.Answer{}, nil, err
	}
	over := context.Cause(ctx)
	switch t.ending(over, r.resumes != nil) {
	case endInterrupted:
		if err := r.recordInterruption(t); err != nil && !errors.Is(err, errLeaseLost) {
			r.crew.log.Warn("cannot record an interrupted turn", "work", r.work, "error", err)
		}
		return rules.Answer{}, nil, over
	case endCapped:
		return rules.Answer{}, t, r.recordInterruption(t)
	case endTold:
		return rules.Answer{}, t, cmp.Or(r.recordInterruption(t), errTold)
	case endLeaseLost:
		return rules.Answer{}, nil, errLeaseLost
	case endNotResumed:
		_, err := r.submit(rules.EndTurn{Session: r.id, Epoch: r.epoch, Turn: t.result()})
		return rules.Answer{}, t, errors.Join(asLeaseLost(err), errNotResumed)
	}
	answer, err := r.report(t)
	return answer, t, err
}

// save saves and publishes what an author changed. If only an agent can make that possible, the
// turn says so.
func (r *turnRun) save(ctx context.Context, t *turn) error {
	err := r.retry(ctx, workspace.NeedsAgent, func() (err error) {
		if t.commit, err = r.ws.save(context.WithoutCancel(ctx), r.saveMessage(t)); err != nil {
			return err
		}
		if err = r.crew.exchange.PublishSaved(ctx, r.work, t.commit); err != nil &&
			ctx.Err() != nil {
			t.commit, err = "", nil // it stays here, and the turn is recorded without it
		}
		return err
	})
	left := t.commit
	if r.ws.state != nil {
		left = r.ws.state()
	}
	t.unchanged = left != "" && left == r.ws.start
	if !workspace.NeedsAgent(err) {
		return err
	}
	if t.cause == "" { // otherwise the next agent is told what to clean up
		t.rejectWorkspace(err)
	}
	return nil
}

// saveMessage returns what the commit says that a turn of an author ends with.
func (r *turnRun) saveMessage(t *turn) string {
	if t.signal.Name != signalbox.NameReadyForReview {
		return fmt.Sprintf("%s: %s", r.work, r.role)
	}
	return workspace.CommitMessage(r.work, mergeMessage(r.workItem()),
		body(decoded(t.signal.Body)).first("Summary", "text"))
}

// start runs the agent's program once, with the prompt of the turn.
func (r *turnRun) start(ctx context.Context) (t *turn, err error) {
	r.name = r.agentName()
	r.configured = r.crew.box.Config.AgentNamed(r.name)
	if r.command, err = agent.CommandFor(r.role, r.configured); err != nil {
		return nil, err
	}
	if r.ws.steer != nil { // before each turn: what the agent tries out can change files
		if r.last.steering, err = r.ws.steer(ctx); err != nil {
			return nil, err
		}
	}
	r.key = r.crew.newKey()
	thread := ""
	if r.resumes = r.resumable(ctx); r.resumes != nil {
		thread = r.resumes.ID
	}
	prompt, err := r.prompt(ctx)
	if err != nil {
		return nil, err
	}
	digest, err := r.put([]byte(hideKey(string(prompt), r.key)))
	if err != nil {
		return nil, err
	}
	r.contained = r.contain()
	finish := sync.OnceFunc(r.finish)
	defer finish()
	recorded, err := r.job().Recorded(r.contained.Policy)
	if err != nil {
		return nil, err
	}
	if err := r.contained.Prepare(); err != nil {
		return nil, err
	}
	defer r.renewLogins() // if the program does not start
	started, err := r.crew.box.Engine.DoPatiently(ctx, nil,
		rules.StartAgent{Session: r.id, Epoch: r.epoch, Agent: r.name, Prompt: digest,
			Sandbox: recorded, Resumes: thread, Format: r.command.Format})
	if err != nil {
		return nil, asLeaseLost(err)
	}
	r.started = true
	t, err = r.runProgram(ctx, agent.Values{
		Prompt: prompt, Dir: r.ws.dir, Start: r.startFolder(), Role: string(r.role),
		Task: r.work, Session: r.id, Model: r.configured.Model, Resume: thread,
		ScratchDir: r.socket.temp, Base: r.contained.Base,
		Env: slices.Concat(r.contained.Env, r.environment(started.Attempt)),
	})
	finish()
	if t != nil {
		t.vendor = r.crew.box.Config.VendorOf(r.name, t.used.reportedModel)
	}
	if err != nil {
		// what the agent changed is kept, although its turn cannot be recorded
		if errors.Is(err, journal.ErrUnavailable) {
			_, saveErr := r.ws.save(context.WithoutCancel(ctx), r.work+
				": changes of an interrupted agent")
			err = errors.Join(err, saveErr)
		}
		return nil, err
	}
	return t, nil
}

// prompt builds the prompt of the turn.
func (r *turnRun) prompt(ctx context.Context) (prompt []byte, err error) {
	last := r.last
	err = r.crew.box.Engine.WhenAvailable(ctx, func() (err error) {
		prompt, r.told, err = r.crew.prompts.Build(ctx, turnprompt.Turn{Role: r.role, Work: r.work,
			Key: r.key, Dir: r.ws.dir, Diff: r.ws.diff, Steering: firstSteering(last.steering),
			CleanupNote: last.cleanupNote,
			Again:       last.again, Progressed: last.progressed, Output: last.output,
			Advice: showKey(last.advice, r.key), Resumed: r.resumption()})
		return err
	})
	return prompt, err
}

// errTold means that words of the human interrupted the turn, and the next one has them.
var errTold = errors.New("there is a message for the agent")

// errNotResumed means that the program could not continue its session, and a new one must be
// started.
var errNotResumed = errors.New("the agent program did not continue its session")

// resumable returns the session of the agent program that the next turn continues, nil if it starts
// a new one. The agent must be the same, and the files must be as it left them, but for the base
// that is merged into them: what it remembers of others would be wrong. Only authors continue.
// Whoever judges has run what the author wrote, which could have changed the conversation, and
// starts again; the prompt has what it asked for.
func (r *turnRun) resumable(ctx context.Context) *rules.Conversation {
	if !r.role.IsAuthor() || r.command.Resume == nil || r.last.noResume {
		return nil
	}
	task := r.workItem().Task
	// The first was interrupted, or waits; the second ended, and the work has come back.
	for _, c := range []*rules.Conversation{task.Conversation, task.AuthorConversation} {
		if c != nil && c.Agent == r.name && c.Role == r.role && rules.IsConversation(c.ID) &&
			r.isAsLeft(ctx, c) {
			return c
		}
	}
	return nil
}

// isAsLeft reports whether the folder is as a conversation left it.
func (r *turnRun) isAsLeft(ctx context.Context, c *rules.Conversation) bool {
	if c.Epoch == r.epoch { // the session has not ended, so the folder is the same
		switch {
		case r.last.again: // nobody could work in it since, and what is in it may need cleaning up
			return true
		case !r.last.parked && !r.last.told:
			return false
		}
		commit, err := r.ws.save(ctx, r.work+": changes of a parked agent")
		return err == nil && commit == c.Commit
	}
	// Only authors have a folder that stays. If signalbox was killed, it is not known what the
	// folder had then, and no one else works in it.
	return r.ws.commit != "" && (c.Commit == "" || c.Commit == r.ws.commit || r.isCombined(c))
}

// isCombined reports whether the folder has what a conversation left, with the base merged into it
// for the checks.
func (r *turnRun) isCombined(c *rules.Conversation) bool {
	t := r.workItem().Task
	return t.Saved != nil && t.Saved.Commit == c.Commit && t.Commit == r.ws.commit &&
		c.Commit != r.ws.commit
}

// resumption returns what the agent must know about the conversation that it continues, nil if it
// starts a new one.
func (r *turnRun) resumption() *prompts.Resumption {
	c := r.resumes
	if c == nil {
		return nil
	}
	task := r.workItem().Task
	back := c.Epoch != r.epoch && task.Conversation != c
	return &prompts.Resumption{Back: back, Waited: r.last.parked, Told: r.last.told,
		Again:    r.last.again,
		TimedOut: back && task.Timeouts[r.role] > 0,
		Merged:   !r.last.again && task.Conflict == nil && (r.ws.merged || r.isCombined(c))}
}

// environment tells the agent, and the programs it starts, who it is.
func (r *turnRun) environment(attempt int) []string {
	all := []string{
		"SIGNALBOX_SESSION=" + r.id, "SIGNALBOX_BOX=" + r.crew.box.Dir,
		"SIGNALBOX_ROLE=" + string(r.role),
		"SIGNALBOX_SECRET=" + r.secret, "SIGNALBOX_WORK=" + r.work,
		fmt.Sprintf("SIGNALBOX_EPOCH=%d", r.epoch),
		fmt.Sprintf("SIGNALBOX_ATTEMPT=%d", attempt),
		agentsocket.Variable + "=" + r.socket.path,
		"GIT_NO_REPLACE_OBJECTS=1", // a reviewer's git shows the commits as they are
	}
	if r.ws.diff != "" {
		all = append(all, DiffVariable+"="+r.ws.diff)
	}
	if copied := r.crew.box.Config.Team; copied != "" {
		all = append(all, team.Variable+"="+copied)
	}
	return all
}

// startFolder returns the folder in which a program that judges is started if that must not be its
// workspace: its home folder, which is new. It is "" if the program can start in its workspace.
func (r *turnRun) startFolder() string {
	if r.role.IsAuthor() || !r.command.Elsewhere {
		return ""
	}
	return r.contained.Home()
}

// finish removes what was only for one start of the agent's program. Recorded runs of trees are
// kept.
func (r *turnRun) finish() {
	if !r.role.IsAuthor() {
		if err := treeruns.Keep(r.crew.box.Dir, r.work,
			contain.AgentHome(string(r.role), r.name)); err != nil {
			r.crew.log.Warn("cannot keep the recorded runs of trees", "work", r.work, "error", err)
		}
	}
	if err := r.contained.Finish(); err != nil {
		r.crew.log.Warn("cannot remove the home folder of an agent", "work", r.work, "error", err)
	}
}

// recordInterruption records the output and the cost of a turn that the end of the run or a cap cut
// short. Its signals do not count: the work is released, and what the agent changed stays in its
// working copy.
func (r *turnRun) recordInterruption(t *turn) error {
	ended := t.result()
	ended.Interrupted, ended.Cap = true, t.cap
	_, err := r.submit(rules.EndTurn{Session: r.id, Epoch: r.epoch, Turn: ended})
	return asLeaseLost(err)
}
