package crew

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"signalbox"
	"signalbox/internal/core/box"
	"signalbox/internal/core/rules"
	"signalbox/internal/run/agentsocket"
	"signalbox/internal/run/questions"
	"signalbox/internal/testkit/must"
)

// variables are those of an agent, which its script wrote to a file.
type variables map[string]string

func (s *stage) variables(name string) variables {
	s.t.Helper()
	env := variables{}
	for line := range strings.Lines(s.file(name)) {
		name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "=")
		env[name] = value
	}
	return env
}

// request returns a request of the agent.
func (v variables) request(call agentsocket.Call) agentsocket.Request {
	epoch, _ := strconv.ParseUint(v["SIGNALBOX_EPOCH"], 10, 64)
	return agentsocket.Request{Session: v["SIGNALBOX_SESSION"], Epoch: epoch,
		Secret: v["SIGNALBOX_SECRET"], Call: call, Work: v["SIGNALBOX_WORK"]}
}

// exit submits an exit signal over a socket, as the agent whose variables these are.
func (v variables) exit(socket, reason string) (agentsocket.Exit, error) {
	request := v.request(agentsocket.CallExit)
	request.Exit = []byte(
		`{"protocol":"apm2_agent_exit","version":"1.0.0","phase_completed":"IMPLEMENTATION","exit_reason":"` + reason + `"}`)
	var accepted agentsocket.Exit
	err := agentsocket.Invoke(context.Background(), socket, request, &accepted)
	return accepted, err
}

// wantRefused checks that a call was refused with a code and a text.
func wantRefused(t *testing.T, err error, code signalbox.Code, text string) {
	t.Helper()
	if signalbox.CodeOf(err) != code || !strings.Contains(err.Error(), text) {
		t.Errorf("got %v with code %d, want %q with code %d", err, signalbox.CodeOf(err), text,
			code)
	}
}

// reports is a script of developers that write their variables to a file, report, and wait.
const reports = `
on developer T*:
    run env > {task}.env
    signal CHECKPOINT: {task}
    wait for {task}.continue
`

// An exit signal that the agent submits counts when its turn ends: its work is saved first, and
// what the turn cost is recorded.
func TestSubmittedExit(t *testing.T) {
	s := set(t, scene{plan: task("T1"), options: Options{ExitSignals: true, LeaveQuestions: true}, script: reports + `
    write a.txt a
`})
	r := s.begin()
	s.awaitCheckpoint("T1")
	env := s.variables("T1.env")
	info, err := os.Stat(env["SIGNALBOX_SOCKET"])
	if err != nil || info.Mode() != os.ModeSocket|0o600 {
		t.Errorf("the socket: %v, %v", info, err)
	}
	folder, err := os.Stat(env["TMPDIR"])
	if err != nil || folder.Mode() != os.ModeDir|0o700 ||
		filepath.Dir(env["SIGNALBOX_SOCKET"]) != env["TMPDIR"] {
		t.Errorf("the temporary folder: %v, %v", folder, err)
	}
	accepted, err := env.exit(env["SIGNALBOX_SOCKET"], "completed")
	if err != nil || accepted.Work != "T1" || *accepted.NextPhase != signalbox.PhaseCIPending {
		t.Errorf("the exit signal: %+v, %v", accepted, err)
	}
	if w := s.work("T1"); w.Phase != signalbox.PhaseImplementation || w.Lease == nil {
		t.Errorf("T1 moved before the turn ended: %s, %v", w.Phase, w.Lease)
	}
	s.write("project/T1.continue", "")
	r.complete()
	heard := all[rules.SignalHeard](s, "T1")
	ended := all[rules.AgentTurnEnded](s, "T1")
	if i := slices.IndexFunc(heard,
		func(h recorded[rules.SignalHeard]) bool { return h.Body.Dialect == signalbox.DialectExit }); i < 0 ||
		heard[i].Session != env["SIGNALBOX_SESSION"] || ended[0].Seq >= heard[i].Seq ||
		!strings.Contains(s.text(heard[i].Body.Blob), `"exit_reason":"completed"`) {
		t.Errorf("heard %+v after the turns %+v", heard, ended)
	}
	if _, err := os.Lstat(env["TMPDIR"]); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the temporary folder after the session: %v", err)
	}
	_, err = env.exit(env["SIGNALBOX_SOCKET"], "completed")
	wantRefused(t, err, signalbox.CodeConflict, "stale lease: session '"+env["SIGNALBOX_SESSION"]+
		"' has ended")
}

// The socket of a session serves that session only, and needs its secret and its lease.
func TestSocketOfAnotherSession(t *testing.T) {
	s := set(t, scene{plan: task("T1") + task("T2"), options: Options{ExitSignals: true, LeaveQuestions: true}, script: reports + `
    signal READY_FOR_REVIEW: {task}
`})
	r := s.begin()
	s.awaitCheckpoint("T1")
	s.awaitCheckpoint("T2")
	one, two := s.variables("T1.env"), s.variables("T2.env")
	socket := one["SIGNALBOX_SOCKET"]
	if socket == two["SIGNALBOX_SOCKET"] {
		t.Fatal("two sessions have one socket")
	}
	_, err := two.exit(socket, "blocked")
	wantRefused(t, err, signalbox.CodeFailed, "session '"+two["SIGNALBOX_SESSION"]+
		"' may not use the socket of session '"+one["SIGNALBOX_SESSION"]+"'")

	// Neither with the id of the session alone.
	thief := variables{"SIGNALBOX_SESSION": one["SIGNALBOX_SESSION"],
		"SIGNALBOX_EPOCH": one["SIGNALBOX_EPOCH"], "SIGNALBOX_SECRET": two["SIGNALBOX_SECRET"]}
	_, err = thief.exit(socket, "blocked")
	wantRefused(t, err, signalbox.CodeFailed, "wrong secret")
	for _, call := range []agentsocket.Call{agentsocket.CallShow, agentsocket.CallMCP, "claim"} {
		wantRefused(t, agentsocket.Invoke(t.Context(), socket, thief.request(call), nil),
			signalbox.CodeFailed, "wrong secret")
	}
	if refused := all[rules.SignalRefused](s, "T1"); len(refused) != 1 ||
		refused[0].Body.Reason != signalbox.ReasonWrongSecret {
		t.Errorf("refused: %+v", refused)
	}

	// Nor under another lease.
	stale := variables{"SIGNALBOX_SESSION": one["SIGNALBOX_SESSION"], "SIGNALBOX_EPOCH": two["SIGNALBOX_EPOCH"], "SIGNALBOX_SECRET": one["SIGNALBOX_SECRET"]}
	_, err = stale.exit(socket, "blocked")
	wantRefused(t, err, signalbox.CodeConflict, "stale lease")
	wantRefused(t, agentsocket.Invoke(t.Context(), socket, stale.request(agentsocket.CallShow),
		nil), signalbox.CodeConflict, "stale lease")

	// It sees its own work.
	var details questions.WorkDetails
	if err := agentsocket.Invoke(t.Context(), socket, one.request(agentsocket.CallShow),
		&details); err != nil || details.ID != "T1" {
		t.Errorf("its own work: %+v, %v", details, err)
	}
	for _, name := range []string{"T2", "T3", ""} {
		request := one.request(agentsocket.CallShow)
		request.Work = name
		wantRefused(t, agentsocket.Invoke(t.Context(), socket, request, &details),
			signalbox.CodeFailed, "may only see its own work, 'T1'")
	}
	wantRefused(t, agentsocket.Invoke(t.Context(), socket, one.request(agentsocket.CallTurn), nil),
		signalbox.CodeFailed, "its agent is not a tree")
	wantRefused(t, agentsocket.Invoke(t.Context(), socket, one.request("claim"), nil),
		signalbox.CodeUsage, "unknown call")
	wantRefused(t, agentsocket.Invoke(t.Context(), socket, one.request(agentsocket.CallMCP), nil),
		signalbox.CodeFailed, "does not serve MCP")

	// A lease that is revoked makes its calls stale.
	s.do(rules.Order{What: rules.OrderPause, Actor: "me"})
	s.do(rules.Release{Work: "T1", Reason: "it hangs", Actor: "me"})
	_, err = one.exit(socket, "completed")
	wantRefused(t, err, signalbox.CodeConflict, "stale lease")
	s.write("project/T1.continue", "")
	s.write("project/T2.continue", "")
	s.do(rules.Order{What: rules.OrderResume, Actor: "me"})
	r.complete("T1", "T2")
}

// What the agent wrote counts more than what was submitted, which could be by code that the agent
// tests. A submitted exit signal is recorded beside the verdict in the agent's reply: as completion
// if both agree, as refused otherwise.
func TestWrittenVerdictCountsMore(t *testing.T) {
	for reason, want := range map[string]string{"completed": "completed",
		"blocked": "refused as superseded"} {
		t.Run(reason, func(t *testing.T) {
			s := set(t, scene{plan: task("T1"), options: Options{ExitSignals: true, LeaveQuestions: true}, script: reports + `
    signal READY_FOR_REVIEW: {task}
`})
			r := s.beginAuthors()
			s.awaitCheckpoint("T1")
			env := s.variables("T1.env")
			if _, err := env.exit(env["SIGNALBOX_SOCKET"], reason); err != nil {
				t.Error(err)
			}
			s.write("project/T1.continue", "")
			r.ready()
			got := ""
			for range all[rules.AgentSessionCompleted](s, "T1") {
				got += "completed"
			}
			for _, r := range all[rules.SignalRefused](s, "T1") {
				got += "refused as " + string(r.Body.Reason)
			}
			if got != want {
				t.Errorf("got %s, want %s", got, want)
			}
			for _, h := range all[rules.SignalHeard](s, "T1") {
				if h.Body.Dialect == signalbox.DialectExit &&
					!strings.Contains(s.text(h.Body.Blob), `"exit_reason":"completed"`) {
					t.Errorf("heard %s", s.text(h.Body.Blob))
				}
			}
		})
	}
}

// A critic that rejects over its socket, and whose tests then submit a pass over the same one, has
// said nothing. Both are recorded.
func TestContradictingExits(t *testing.T) {
	s := set(t, scene{plan: task("T1"), options: Options{ExitSignals: true, LeaveQuestions: true}, script: `
on critic T1 attempt 1:
    run env > T1.env
    signal CHECKPOINT: {task}
    wait for T1.continue
`})
	r := s.begin()
	s.awaitCheckpoint("T1")
	env := s.variables("T1.env")
	submit := func(reason, notes string) error {
		request := env.request(agentsocket.CallExit)
		request.Exit = fmt.Appendf(nil,
			`{"protocol":"apm2_agent_exit","version":"1.0.0","phase_completed":"REVIEW","exit_reason":%q,"notes":%q}`, reason, notes)
		return agentsocket.Invoke(t.Context(), env["SIGNALBOX_SOCKET"], request, nil)
	}
	if err := errors.Join(submit("error", "a backdoor"),
		submit("error", "a backdoor")); err != nil {
		t.Errorf("a signal and its repetition: %v", err)
	}
	wantRefused(t, submit("completed", "all is well"), signalbox.CodeFailed,
		"ambiguous: 'error' and 'completed' were submitted in one turn")
	for range 3 { // which does not fill the ledger
		wantRefused(t, submit("completed", "all is well"), signalbox.CodeFailed, "ambiguous")
	}
	refused := all[rules.SignalRefused](s, "T1")
	var said []string
	for _, r := range refused {
		if r.Body.Said != signalbox.NameExit || r.Body.Reason != signalbox.ReasonAmbiguous ||
			r.Session != env["SIGNALBOX_SESSION"] {
			t.Errorf("refused %+v", r)
		}
		said = append(said, s.text(r.Body.Blob))
	}
	if len(said) != 2 || !strings.Contains(said[0], "a backdoor") ||
		!strings.Contains(said[1], "all is well") {
		t.Errorf("recorded %q", said)
	}
	s.write("project/T1.continue", "")
	r.end()
	for _, heard := range all[rules.SignalHeard](s, "T1") {
		if heard.Body.Dialect == signalbox.DialectExit {
			t.Errorf("heard %+v", heard)
		}
	}
	unknown := only[rules.UnknownSignalRecovery](s, "T1")
	if !strings.Contains(unknown.Body.Advice, "Several exit signals were submitted") {
		t.Errorf("the turn: %+v", unknown.Body)
	}
}

// Signals that would move the work alike, but say something else to the next reader, contradict
// each other, too.
func TestSubmittedExitIsNotReplaced(t *testing.T) {
	l := &listener{}
	signal := func(notes string) *signalbox.ExitSignal {
		return &signalbox.ExitSignal{ExitReason: signalbox.ExitBlocked, Notes: &notes}
	}
	for _, c := range []struct {
		notes        string
		contradicted bool
	}{{"a backdoor", false}, {"a backdoor", false}, {"nothing to see", true}, {"a backdoor", true}} {
		if _, running := l.submitExit(signal(c.notes), nil); !running ||
			l.claims.contradicted != c.contradicted || *l.claims.submitted.Signal.Notes != "a backdoor" {
			t.Errorf("after %q: running %v, contradicted %v, kept %q", c.notes, running,
				l.claims.contradicted, *l.claims.submitted.Signal.Notes)
		}
	}
}

// An agent that fails after it submitted an exit signal has not passed.
func TestSubmittedExitOfACrash(t *testing.T) {
	s := set(t, scene{plan: task("T1"), options: Options{ExitSignals: true, LeaveQuestions: true}, script: strings.Replace(reports, "T*:", "T* attempt 1:", 1) + `
    exit-code 7
`})
	r := s.beginAuthors()
	s.awaitCheckpoint("T1")
	env := s.variables("T1.env")
	if _, err := env.exit(env["SIGNALBOX_SOCKET"], "completed"); err != nil {
		t.Error(err)
	}
	s.write("project/T1.continue", "")
	r.ready()
	if failed := only[rules.AgentFailed](s,
		"T1"); failed.Body.Detail != "exit status 7 after an exit signal" {
		t.Errorf("failed: %+v", failed.Body)
	}
}

// Exit signals that are disabled cannot be submitted, whatever the agent's environment says.
func TestSubmittedExitIsDisabled(t *testing.T) {
	s := set(t, scene{plan: task("T1"), script: reports + "    signal READY_FOR_REVIEW: {task}\n"})
	r := s.beginAuthors()
	s.awaitCheckpoint("T1")
	env := s.variables("T1.env")
	_, err := env.exit(env["SIGNALBOX_SOCKET"], "completed")
	wantRefused(t, err, signalbox.CodeFailed, "disabled")
	s.write("project/T1.continue", "")
	r.ready()
}

// The agent's MCP server is served for its session, and ends with it.
func TestMCPOfASession(t *testing.T) {
	var served AgentSession
	ended := make(chan struct{})
	s := set(t, scene{plan: task("T1"),
		options: Options{MCP: func(ctx context.Context, _ *box.Box, agent AgentSession,
			conn io.ReadWriter) error {
			served = agent
			io.WriteString(conn, "hello\n")
			<-ctx.Done()
			close(ended)
			return nil
		}}, script: reports + "    signal READY_FOR_REVIEW: {task}\n"})
	r := s.begin()
	s.awaitCheckpoint("T1")
	env := s.variables("T1.env")
	conn, err := agentsocket.Connect(t.Context(), env["SIGNALBOX_SOCKET"],
		env.request(agentsocket.CallMCP))
	must.Succeed(t, err)
	defer conn.Close()
	hello := make([]byte, len("hello\n"))
	if _, err := io.ReadFull(conn, hello); string(hello) != "hello\n" {
		t.Errorf("got %q, %v", hello, err)
	}
	s.write("project/T1.continue", "")
	if more, err := io.ReadAll(conn); len(more) > 0 {
		t.Errorf("got %q, %v", more, err)
	}
	<-ended
	r.end()
	epoch, _ := strconv.ParseUint(env["SIGNALBOX_EPOCH"], 10, 64)
	want := AgentSession{ID: env["SIGNALBOX_SESSION"], Work: "T1", Role: signalbox.RoleDeveloper,
		Epoch: epoch, Secret: env["SIGNALBOX_SECRET"]}
	if served != want {
		t.Errorf("served %+v, want %+v", served, want)
	}
}

// A configured folder for temporary files is used.
func TestConfiguredTempFolder(t *testing.T) {
	s := set(t, scene{plan: task("T1"),
		script: "on developer T1:\n    run env > T1.env\n    signal READY_FOR_REVIEW: {task}\n"})
	other := filepath.Join(s.dir, "other")
	own := s.box.Config.Agents["player"]
	own.Env = map[string]string{"TMPDIR": other}
	maps.Copy(own.Env, s.box.Config.Agents["player"].Env)
	s.box.Config.Agents["player"] = own
	s.run()
	if env := s.variables("T1.env"); env["TMPDIR"] != other {
		t.Errorf("TMPDIR is %s", env["TMPDIR"])
	}
}

// A box whose path is too long for a socket uses a folder elsewhere.
func TestTempOfALongPath(t *testing.T) {
	s := set(t, scene{plan: task("T1")})
	c := &Crew{box: boxIn(filepath.Join(s.dir, strings.Repeat("x", 100)))}
	session := box.NewID("w") + ".1" // random, because tests share the folder
	dir, err := c.makeTemp(session)
	must.Succeed(t, err)
	defer os.RemoveAll(dir)
	if filepath.Base(dir) != "signalbox-"+session ||
		len(dir) > agentsocket.MaxPath-len(socketName) {
		t.Errorf("got %s", dir)
	}
	if info, err := os.Stat(dir); err != nil || info.Mode() != os.ModeDir|0o700 {
		t.Errorf("the folder: %v, %v", info, err)
	}
	if _, err := c.makeTemp(session); !errors.Is(err, os.ErrExist) {
		t.Errorf("a folder that exists: %v", err)
	}
	owner, _, _ := strings.Cut(session, ".")
	if err := c.removeTemps(owner); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("after its crew was killed: %v", err)
	}
}

// The temporary folders of a killed crew are removed, also those that contain read-only folders,
// and no others.
func TestTempOfAKilledCrew(t *testing.T) {
	s := set(t, scene{plan: task("T1")})
	p := s.startPeer()
	c := &Crew{box: s.box}
	mine, err := c.makeTemp(p.owner.ID() + ".1")
	must.Succeed(t, err)
	others, err := c.makeTemp(p.owner.ID() + "0.1")
	must.Succeed(t, err)
	locked := filepath.Join(mine, "cache", "locked")
	must.Succeed(t, errors.Join(os.MkdirAll(filepath.Join(locked, "a"), 0o755),
		os.Chmod(locked, 0o555)))
	s.write("elsewhere/kept", "")
	must.Succeed(t, os.Symlink(filepath.Join(s.dir, "elsewhere"),
		filepath.Join(mine, "link")))
	p.die()
	next, err := New(t.Context(), s.box, s.project, nil)
	must.Succeed(t, err)
	defer next.Close()
	if _, err := os.Lstat(mine); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the folder of the killed crew: %v", err)
	}
	for _, kept := range []string{others, filepath.Join(s.dir, "elsewhere", "kept")} {
		if _, err := os.Lstat(kept); err != nil {
			t.Error(err)
		}
	}
}
