package crew

import (
	"cmp"
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"sync/atomic"
	"time"

	"signalbox"
	"signalbox/internal/contain"
	"signalbox/internal/core/rules"
	"signalbox/internal/run/agentsocket"
	"signalbox/internal/run/exitsignal"
	"signalbox/internal/run/questions"
	"signalbox/internal/tree/turnlog"
	"signalbox/transcript"
)

// AgentSession is the session of an agent that this process runs.
type AgentSession struct {
	ID, Work string
	Role     signalbox.Role
	Epoch    uint64
	// Secret is that of the session's lease.
	Secret string
}

// socket serves the calls of an agent's processes. They reach the box only through it, and only as
// the session of the agent.
type socket struct {
	*agentRun
	server *agentsocket.Server
	// temp is the private folder for temporary files of the session's agent, and path that of the
	// socket, which is in it.
	temp, path  string
	listening   atomic.Pointer[listener] // to the running turn; nil if there is none
	turnSignals atomic.Int64             // that the agent reported
}

// openSocket creates the temporary folder of the session and serves the socket in it. The caller
// closes it.
func (a *agentRun) openSocket() (*socket, error) {
	temp, err := a.crew.makeTemp(a.id)
	if err != nil {
		return nil, err
	}
	s := &socket{agentRun: a, temp: temp, path: filepath.Join(temp, socketName)}
	if s.server, err = agentsocket.Listen(s.path, s.handleCall); err != nil {
		s.removeTemp()
		return nil, fmt.Errorf("serve the socket of the agent: %w", err)
	}
	return s, nil
}

func (s *socket) close() {
	s.server.Close() // removing the folder removes the socket, too
	s.removeTemp()
}

func (s *socket) removeTemp() {
	if err := contain.RemoveAll(s.temp); err != nil {
		s.crew.log.Warn("cannot remove the temporary files of an agent", "work", s.work, "error",
			err)
	}
}

// handleCall answers a request of the agent's processes.
func (s *socket) handleCall(ctx context.Context,
	r agentsocket.Request) (agentsocket.Reply, error) {
	if r.Session != s.id {
		return agentsocket.Reply{}, signalbox.CodeFailed.Errorf("use the "+
			agentsocket.Variable+" of your own session",
			"session '%s' may not use the socket of session '%s'", r.Session, s.id)
	}
	if r.Call == agentsocket.CallExit {
		accepted, err := s.acceptExit(ctx, r)
		return agentsocket.Reply{Result: accepted}, err
	}
	if err := s.checkCall(r); err != nil {
		return agentsocket.Reply{}, err
	}
	switch r.Call {
	case agentsocket.CallShow:
		details, err := s.showWork(ctx, r.Work)
		return agentsocket.Reply{Result: details}, err
	case agentsocket.CallTurn:
		return agentsocket.Reply{}, s.recordTurn(ctx, r.Turn)
	case agentsocket.CallMCP:
		if s.crew.opts.MCP == nil {
			return agentsocket.Reply{}, signalbox.CodeFailed.Errorf("",
				"this run does not serve MCP to its agents")
		}
		agent := AgentSession{ID: s.id, Work: s.work, Role: s.role, Epoch: s.epoch, Secret: s.secret}
		return agentsocket.Reply{Stream: func(ctx context.Context, conn io.ReadWriter) error {
			return s.crew.opts.MCP(ctx, s.crew.box, agent, conn)
		}}, nil
	}
	return agentsocket.Reply{}, signalbox.CodeUsage.Errorf("",
		"unknown call %q", r.Call)
}

// checkCall refuses a call without the secret of the lease, or under a lease that is over.
func (s *socket) checkCall(r agentsocket.Request) error {
	if subtle.ConstantTimeCompare([]byte(r.Secret), []byte(s.secret)) != 1 {
		return &signalbox.Error{Code: signalbox.CodeFailed,
			Hint: "an agent's process has the secret in SIGNALBOX_SECRET",
			Err: &rules.RefusedError{Reason: signalbox.ReasonWrongSecret,
				Msg: fmt.Sprintf("wrong secret: session '%s' needs the secret of its lease", s.id)}}
	}
	lease := s.workItem().LiveLease(time.Now())
	if lease == nil || lease.Epoch != s.epoch || cmp.Or(r.Epoch, s.epoch) != s.epoch {
		return agentsocket.Stale(s.id)
	}
	return nil
}

// acceptExit accepts an exit signal for the end of the turn. The agent is still at work, and its
// changes must be saved before others read that the work has moved on. So it is only decided now
// whether the signal would be accepted; a refusal is recorded at once.
func (s *socket) acceptExit(ctx context.Context, r agentsocket.Request) (agentsocket.Exit, error) {
	if !s.crew.opts.ExitSignals {
		return agentsocket.Exit{}, &signalbox.Error{Code: signalbox.CodeFailed,
			Err:  transcript.ErrExitDisabled,
			Hint: "ask your operator to start the run with " + signalbox.ExitFlag + "=true"}
	}
	epoch, caller := cmp.Or(r.Epoch, s.epoch), &rules.Caller{Secret: rules.HashSecret(r.Secret)}
	signal, err := transcript.ParseExit(r.Exit)
	var decision rules.Decision
	if err == nil {
		exit := rules.Exit{Session: s.id, Epoch: epoch, Signal: *signal, Ref: r.Ref, Caller: caller}
		_, exit.Notes = rules.LongNotes(signal) // they are stored at the end of the turn
		s.crew.box.Engine.View(
			func(state *rules.State) { decision = rules.Decide(state, time.Now(), exit) })
		err = decision.Err
	}
	submission := exitsignal.Submission{Session: s.id, Epoch: epoch, Data: r.Exit, Ref: r.Ref,
		Caller: caller}
	answer := decision.Answer
	if err == nil && !answer.Repeated {
		listener, running := s.listening.Load(), false
		if listener != nil {
			submission.Contradicts, running = listener.submitExit(signal, r.Exit)
		}
		if !running {
			return agentsocket.Exit{}, agentsocket.Stale(s.id)
		}
	}
	if err != nil || submission.Contradicts != nil {
		answer, err = exitsignal.Submit(ctx, s.crew.box, submission)
	}
	if err != nil {
		return agentsocket.Exit{}, err
	}
	done := answer.Completed
	return agentsocket.Exit{Work: done.WorkID, PhaseCompleted: done.PhaseCompleted,
		ExitReason: done.ExitReason, NextPhase: done.NextPhase}, nil
}

// maxTurnSignals is how many turn signals a session records, so that an agent cannot fill the
// ledger.
const maxTurnSignals = 1000

// recordTurn records a turn signal of an agent that is a behaviour tree.
func (s *socket) recordTurn(ctx context.Context, report *turnlog.Report) error {
	refuse := func(err error) error { return &signalbox.Error{Code: signalbox.CodeFailed, Err: err} }
	switch {
	case s.crew.box.Config.AgentNamed(s.agentName()).Tree == "":
		return refuse(fmt.Errorf(
			"session '%s' may not report turn signals: its agent is not a tree", s.id))
	case report == nil:
		return refuse(errors.New("there is no turn signal"))
	case s.turnSignals.Add(1) > maxTurnSignals:
		return refuse(fmt.Errorf("session '%s' has reported %d turn signals, which is the limit",
			s.id, maxTurnSignals))
	}
	return report.Put(ctx, s.crew.box.Engine, s.id)
}

// showWork returns the session's work. The agent may not see other work.
func (s *socket) showWork(ctx context.Context, name string) (questions.WorkDetails, error) {
	var w *rules.Work
	s.crew.box.Engine.View(func(state *rules.State) { w, _ = state.Find(name) })
	if w == nil || w.ID != s.work {
		return questions.WorkDetails{}, signalbox.CodeFailed.Errorf("",
			"session '%s' may only see its own work, '%s'", s.id, s.work)
	}
	return questions.Details(ctx, s.crew.box, w)
}
