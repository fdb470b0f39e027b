package crew

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"signalbox"
	"signalbox/internal/config"
	"signalbox/internal/core/box"
	"signalbox/internal/core/rules"
	"signalbox/internal/process"
	"signalbox/internal/testkit/must"
)

// fakeProgram runs until it is stopped.
type fakeProgram struct {
	stopped     chan struct{}
	ends        <-chan struct{} // nil means that it ends as soon as it is stopped
	once        sync.Once
	mu          sync.Mutex
	grace       time.Duration // the shortest
	inputClosed bool
}

func (p *fakeProgram) Wait() process.Exit {
	<-p.stopped
	if p.ends != nil {
		<-p.ends
	}
	return process.Exit{}
}

func (p *fakeProgram) Stop(grace time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if grace == 0 {
		panic("stopped without grace")
	}
	if p.grace == 0 || grace < p.grace {
		p.grace = grace
	}
	p.once.Do(func() { close(p.stopped) })
}

func (p *fakeProgram) WriteLine(string) error { return errors.New("not interactive") }
func (p *fakeProgram) CloseInput()            { p.inputClosed = true }

// supervised is a program under supervision, in a synctest bubble.
type supervised struct {
	*supervisor
	program *fakeProgram
	began   time.Time
}

// boxIn returns a box in a folder, without a ledger.
func boxIn(dir string) *box.Box {
	return &box.Box{Ledger: &box.Ledger{Keys: box.Keys{Folder: box.Folder{Dir: dir}}}}
}

// agentOf returns an agent of a crew that works on T1.
func agentOf(c *Crew, role signalbox.Role) *agentRun {
	return &agentRun{session: &session{crew: c, role: role, work: "T1"}}
}

func supervise(role config.Role, linger time.Duration) *supervised {
	c := config.Default()
	c.Roles = map[signalbox.Role]config.Role{signalbox.RoleDeveloper: role}
	c.Limits.Silence = 3 * role.Checkpoint // zero: it may be silent
	a := agentOf(&Crew{box: &box.Box{Config: c},
		opts: Options{seams: seams{delays: defaultDelays()}}}, signalbox.RoleDeveloper)
	a.leased, a.unlease = context.WithCancel(context.Background())
	l := &listener{run: a, claims: claims{role: a.role, work: a.work},
		format: signalbox.FormatClaude, heard: time.Now(),
		checkpointed: make(chan struct{}, 1), turnEnded: make(chan struct{}, 1),
		mustPark: make(chan struct{}, 1)}
	p := &fakeProgram{stopped: make(chan struct{})}
	return &supervised{a.supervise(p, l, linger), p, time.Now()}
}

// want waits for the end of the program, and checks when and why it was stopped.
func (s *supervised) want(t *testing.T, ctx context.Context, remaining, after time.Duration,
	cause rules.FailCause) {
	t.Helper()
	if got := s.wait(ctx, remaining); got != cause {
		t.Errorf("cause %q, want %q", got, cause)
	}
	<-s.program.stopped
	if got := time.Since(s.began); got != after {
		t.Errorf("stopped after %s, want %s", got, after)
	}
	if s.program.grace != config.Default().Grace {
		t.Errorf("stopped with a grace of %s", s.program.grace)
	}
}

func TestStallWithoutOutput(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		supervise(config.Role{Checkpoint: time.Minute}, 0).want(t, t.Context(), time.Hour,
			3*time.Minute, rules.FailStall)
	})
}

// outputs makes the program print something at the given times.
func (s *supervised) outputs(at ...time.Duration) {
	for _, d := range at {
		time.AfterFunc(d, func() {
			s.listener.mu.Lock()
			defer s.listener.mu.Unlock()
			s.listener.heard = time.Now()
		})
	}
}

// Any output is a sign of life, not only a checkpoint.
func TestOutputResetsTheStallTimer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := supervise(config.Role{Checkpoint: time.Minute}, 0)
		s.outputs(2*time.Minute, 4*time.Minute)
		s.want(t, t.Context(), time.Hour, 7*time.Minute, rules.FailStall)
	})
}

// A program that only repeats a request is stopped long before one that says nothing: its server
// does not answer, and another agent can work. One that works again is not.
func TestRepeatedRequests(t *testing.T) {
	for name, test := range map[string]struct {
		repeats, answered time.Duration // when it begins to repeat, and to work again
		after             time.Duration
	}{
		"no server":     {time.Minute, 0, 3 * time.Minute},
		"a late answer": {time.Minute, 150 * time.Second, 32*time.Minute + 30*time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := supervise(config.Role{Checkpoint: 10 * time.Minute}, 0)
				say := func(at time.Duration, message string) {
					time.AfterFunc(at, func() {
						s.listener.mu.Lock()
						defer s.listener.mu.Unlock()
						s.listener.stream.Retrying = message
						s.listener.noteLife()
					})
				}
				say(test.repeats, "Reconnecting... waiting for network")
				if test.answered > 0 {
					say(test.answered, "")
				}
				s.want(t, t.Context(), time.Hour, test.after, rules.FailStall)
			})
		})
	}
}

// A plain program may keep its output until the end, so only its timeout applies.
func TestPlainProgramsDoNotStall(t *testing.T) {
	for _, format := range []signalbox.Format{signalbox.FormatPlain, signalbox.FormatAuto} {
		synctest.Test(t, func(t *testing.T) {
			s := supervise(config.Role{Checkpoint: time.Minute}, 0)
			s.listener.format = format
			s.want(t, t.Context(), time.Hour, time.Hour, rules.FailTimeout)
		})
	}
}

// A checkpoint in the output reaches the supervisor at once, not when its body is complete.
func TestCheckpointInTheOutput(t *testing.T) {
	for text, want := range map[string]int{
		"CHECKPOINT: T1\n":        1,
		"CHECKPOINT: T2\n":        0, // of another task
		"I send CHECKPOINT: T1\n": 0,
		"READY_FOR_REVIEW: T1\n":  0,
	} {
		c := &Crew{opts: Options{seams: seams{delays: &delays{quiet: time.Hour}}},
			box: boxIn(t.TempDir())}
		l, err := newListener(agentOf(c, signalbox.RoleDeveloper), signalbox.FormatPlain, false,
			"")
		must.Succeed(t, err)
		if _, err := l.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
		l.close()
		if got := len(l.checkpointed); got != want {
			t.Errorf("%q: %d checkpoints, want %d", text, got, want)
		}
	}
}

// A program that only reports that it tries a request again shows no sign of life.
func TestRetriesAreSilence(t *testing.T) {
	c := &Crew{opts: Options{seams: seams{delays: &delays{quiet: time.Hour}}},
		box: boxIn(t.TempDir())}
	l, err := newListener(agentOf(c, signalbox.RoleDeveloper), signalbox.FormatCodex, false, "")
	must.Succeed(t, err)
	defer l.close()
	for _, write := range []struct {
		line string
		life bool
	}{
		{`{"type":"turn.started"}`, true},
		{`{"type":"error","message":"Reconnecting... 1/5"}`, false},
		{`{"type":"error","message":"Reconnecting... 2/5"}`, false},
		{`{"type":"item.started","item":{"id":"a","type":"reasoning"}}`, true},
	} {
		l.heard = time.Time{}
		if _, err := l.Write([]byte(write.line + "\n")); err != nil {
			t.Fatal(err)
		}
		if l.heard.IsZero() == write.life {
			t.Errorf("%s: a sign of life: %t", write.line, !write.life)
		}
	}
}

// An agent that asks an expert is parked only when its request is complete: the stream has been
// silent for a while.
func TestPartialExpertRequest(t *testing.T) {
	dir := t.TempDir()
	for _, interactive := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			c := &Crew{opts: Options{seams: seams{delays: &delays{quiet: time.Second}}},
				box: boxIn(dir)}
			l, err := newListener(agentOf(c, signalbox.RoleDeveloper),
				signalbox.FormatPlain, interactive, "")
			must.Succeed(t, err)
			defer l.close()
			l.Write([]byte("EXPERT_REQUEST\n"))
			time.AfterFunc(900*time.Millisecond,
				func() { l.Write([]byte("Target Agent: database\n")) })
			began := time.Now()
			<-l.mustPark
			if took := time.Since(began); took != 2*time.Second {
				t.Errorf("parked after %s, want 2s", took)
			}
		})
	}
}

// An expert request is ignored if the agent already waits for a file.
func TestExpertRequestWhileParked(t *testing.T) {
	for _, parked := range []bool{false, true} {
		c := &Crew{opts: Options{seams: seams{delays: defaultDelays()}},
			box: boxIn(t.TempDir())}
		l, err := newListener(agentOf(c, signalbox.RoleDeveloper), signalbox.FormatPlain, false,
			"")
		must.Succeed(t, err)
		l.parked = parked
		l.collect([]signalbox.Signal{{Name: signalbox.NameExpertRequest,
			Dialect: signalbox.DialectLine}})
		l.close()
		if ends := len(l.mustPark) > 0; ends == parked {
			t.Errorf("parked is %v, and the request ends the turn: %v", parked, ends)
		}
	}
}

// The transcript is bounded, but all output counts and is scanned.
func TestTranscriptIsBounded(t *testing.T) {
	c := &Crew{opts: Options{seams: seams{delays: &delays{quiet: time.Hour}}},
		box: boxIn(t.TempDir())}
	l, err := newListener(agentOf(c, signalbox.RoleDeveloper), signalbox.FormatPlain, false, "")
	must.Succeed(t, err)
	defer l.close()
	l.bytes = maxTranscript - 3
	for _, text := range []string{"12345\n", "READY_FOR_REVIEW: T1\n", "\n\nmore\n"} {
		if _, err := l.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	if info, err := l.file.Stat(); err != nil || info.Size() != 3 {
		t.Errorf("stored %d bytes, want 3: %v", info.Size(), err)
	}
	if l.bytes != maxTranscript-3+34 || l.err != nil {
		t.Errorf("%d bytes, %v", l.bytes, l.err)
	}
}

func TestOutputDoesNotExtendTheTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := supervise(config.Role{Checkpoint: time.Minute}, 0)
		for at := range 10 {
			s.outputs(time.Duration(at) * time.Minute)
		}
		s.want(t, t.Context(), 5*time.Minute+time.Second, 5*time.Minute+time.Second,
			rules.FailTimeout)
	})
}

// A program that keeps running after the end of its turn is stopped, and that is not a failure.
func TestLinger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := supervise(config.Role{}, 15*time.Second)
		for at := range 3 { // more output after the end of the turn does not extend the time
			time.AfterFunc(time.Minute+time.Duration(at)*10*time.Second,
				func() { s.listener.reportEnd(1) })
		}
		s.want(t, t.Context(), time.Hour, 75*time.Second, "")
		if !s.lingered {
			t.Error("it was not stopped because it lingered")
		}
	})
}

// A program that continues after something that looked like the end of its turn is not stopped.
func TestNoLingerWhileTheTurnContinues(t *testing.T) {
	for name, resume := range map[string]time.Duration{"before the time is over": 10 * time.Minute,
		"just when it is over": time.Minute + 14*time.Second} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := supervise(config.Role{}, 15*time.Second)
				time.AfterFunc(time.Minute, func() { s.listener.reportEnd(1) })
				time.AfterFunc(time.Minute+time.Second, func() { s.listener.reportEnd(0) })
				time.AfterFunc(resume, func() { s.listener.reportEnd(2) })
				s.want(t, t.Context(), time.Hour, resume+15*time.Second, "")
			})
		})
	}
}

// reportEnd sets what the stream has reported: the end of a turn, or with 0 that the turn
// continues.
func (l *listener) reportEnd(turn int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.stream.Ended = turn > 0; l.stream.Ended {
		l.turns = turn
		trySend(l.turnEnded)
	}
}

// An agent that must wait gets its input closed, and 10 seconds to end.
func TestParkedAgentIsStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := supervise(config.Role{}, 0)
		time.AfterFunc(time.Minute, func() { trySend(s.listener.mustPark) })
		s.want(t, t.Context(), time.Hour, 70*time.Second, "")
		if !s.program.inputClosed {
			t.Error("its input is still open")
		}
	})
}

func TestSessionEndStopsTheAgent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		s := supervise(config.Role{}, 0)
		time.AfterFunc(time.Minute, func() { cancel(errLeaseLost) })
		s.want(t, ctx, time.Hour, time.Minute, "")
	})
}
