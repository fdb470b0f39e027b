package render

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"signalbox"
	"signalbox/internal/core/box"
	"signalbox/internal/core/rules"
	"signalbox/internal/run/agent"
	"signalbox/internal/testkit/must"
)

// stage is a box in which a test plays the part of a crew, and another view of it that only reads.
type stage struct {
	t       *testing.T
	b, seen *box.Box
	n       int
	// openLater opens the box for reading an hour later, when all leases have expired.
	openLater func() *box.Box
}

// newStage returns a box with a plan of one task, T1, that can start.
func newStage(t *testing.T) *stage {
	dir := filepath.Join(t.TempDir(), box.FolderName)
	opts := &box.Options{KeyFile: filepath.Join(t.TempDir(), "key")}
	if _, err := box.Init(t.Context(), dir, "ann", opts); err != nil {
		t.Fatal(err)
	}
	settings := "agent: scripted\nagents:\n  scripted: {command: [scripted], format: plain}\n"
	must.Succeed(t, os.WriteFile(filepath.Join(dir, "signalbox.yaml"), []byte(settings),
		0o600))
	open := func(open func(context.Context, string, *box.Options) (*box.Box, error),
		opts *box.Options) *box.Box {
		b, err := open(t.Context(), dir, opts)
		must.Succeed(t, err)
		t.Cleanup(func() { b.Close() })
		return b
	}
	s := &stage{t: t, b: open(box.Open, opts)}
	policy := rules.Policy{Slots: 5, Limits: rules.DefaultLimits()}
	for _, role := range rules.DispatchRoles() {
		policy.Roles = append(policy.Roles, rules.RoleSlots{Role: role, Slots: 3})
	}
	s.do(rules.Configure{Policy: policy, Actor: "ann"})
	s.do(rules.LoadPlan{Plan: signalbox.Hash{1}, Name: "one", ID: "one", Source: "one.md",
		Tasks: []rules.PlanTask{{ID: "T1", Title: "only"}}, Actor: "ann"})
	base := s.dispatch(signalbox.RoleCI)
	s.do(rules.ReportChecks{Session: base.Session, Epoch: base.Lease.Epoch,
		Commit: "c000000000000000000000000000000000000000"})
	s.seen = open(box.OpenReadOnly, opts)
	s.openLater = func() *box.Box {
		later := *opts
		later.Now = func() time.Time { return time.Now().Add(time.Hour) }
		return open(box.OpenReadOnly, &later)
	}
	return s
}

func (s *stage) do(c rules.Command) rules.Answer {
	s.t.Helper()
	answer, err := s.b.Engine.Do(s.t.Context(), c)
	if err != nil {
		s.t.Fatalf("%#v: %v", c, err)
	}
	return answer
}

func (s *stage) dispatch(role signalbox.Role) rules.Answer {
	s.t.Helper()
	s.n++
	session := fmt.Sprintf("w-1.%d", s.n)
	return s.do(rules.Dispatch{Roles: []signalbox.Role{role}, Session: session, Actor: "crew",
		Lease: "l-" + session})
}

// start starts a developer.
func (s *stage) start() rules.Answer {
	s.t.Helper()
	a := s.dispatch(signalbox.RoleDeveloper)
	s.do(rules.StartAgent{Session: a.Session, Epoch: a.Lease.Epoch, Agent: "scripted"})
	return a
}

// end ends the turn of a developer with a signal at the end of its output.
func (s *stage) end(a rules.Answer, signal, output string) {
	s.t.Helper()
	blob, err := s.b.Engine.PutBlob(s.t.Context(), strings.NewReader(output))
	must.Succeed(s.t, err)
	row, _ := signalbox.LineSignalNamed(signal)
	s.do(rules.ReportSignal{Session: a.Session, Epoch: a.Lease.Epoch, Signal: signal, Named: "T1",
		Offset: int64(strings.LastIndex(output, row.Text)), Blob: blob,
		Turn: &rules.Turn{Output: blob, Bytes: int64(len(output)),
			Spent: rules.Spent{Tokens: 12_300, CostMicros: 210_000, Time: 98 * time.Second}}})
}

// live makes the file that a crew writes while its agent runs.
func (s *stage) live(session string) *os.File {
	s.t.Helper()
	name := agent.LiveTranscript(s.b.Dir, session)
	must.Succeed(s.t, os.MkdirAll(filepath.Dir(name), 0o700))
	file, err := os.Create(name)
	must.Succeed(s.t, err)
	s.t.Cleanup(func() { file.Close() })
	return file
}

// withoutTime removes the times and the session from headings.
func withoutTime(line string) string {
	if !strings.HasPrefix(line, "━━") {
		return line
	}
	fields := strings.Split(line, "  ")
	return strings.Join(fields[:2], "  ")
}

func TestLogOfEndedSessions(t *testing.T) {
	s := newStage(t)
	s.end(s.start(), "task_incomplete", "It is hard.\nTASK_INCOMPLETE: T1\n")
	a := s.start()
	s.end(a, "ready_for_review", "READY_FOR_REVIEW: T1\n")
	must.Succeed(t, s.seen.Engine.Refresh(t.Context()))
	var out strings.Builder
	must.Succeed(t, NewLog(&out, s.seen, "T1", LogOptions{}).Print(t.Context(), []int{0, 1}))
	var got []string
	for line := range strings.Lines(out.String()) {
		got = append(got, withoutTime(strings.TrimSuffix(line, "\n")))
	}
	want := []string{"━━ T1  developer scripted", "It is hard.", "✔ TASK_INCOMPLETE: T1", "── accepted TASK_INCOMPLETE · 12.3k tokens · $0.21 · 1m38s",
		"━━ T1  developer scripted, 2nd agent of its role", "✔ READY_FOR_REVIEW: T1",
		"── accepted READY_FOR_REVIEW · 12.3k tokens · $0.21 · 1m38s"}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	out.Reset()
	must.Succeed(t, NewLog(&out, s.seen, "T1", LogOptions{Raw: true}).Print(t.Context(),
		[]int{0, 1}))
	if got := out.String(); got != "It is hard.\nTASK_INCOMPLETE: T1\nREADY_FOR_REVIEW: T1\n" {
		t.Errorf("the raw output is %q", got)
	}
}

// The log shows what became of checks, merges and failed agents.
func TestLogSaysHowSessionsEnded(t *testing.T) {
	s := newStage(t)
	a := s.start()
	s.do(rules.ReportFailure{Session: a.Session, Epoch: a.Lease.Epoch, Cause: rules.FailCrash,
		Detail: "exit status 1: no model\nhint: set \x1b[31mone", Turn: &rules.Turn{Exit: 1}})
	s.end(s.start(), "ready_for_review", "READY_FOR_REVIEW: T1\n")
	a = s.dispatch(signalbox.RoleCI)
	s.do(rules.ReportChecks{Session: a.Session, Epoch: a.Lease.Epoch,
		Commit: "c100000000000000000000000000000000000000",
		Base:   "c000000000000000000000000000000000000000",
		Rows: []rules.CheckRow{{Check: "test", Environment: "local", Exit: 2},
			{Check: "vet", Environment: "local", Passed: true}}})
	s.end(s.start(), "ready_for_review", "READY_FOR_REVIEW: T1\n")
	a = s.dispatch(signalbox.RoleCI)
	s.do(rules.ReportChecks{Session: a.Session, Epoch: a.Lease.Epoch,
		Commit: "c100000000000000000000000000000000000000",
		Base:   "c000000000000000000000000000000000000000",
		Rows:   []rules.CheckRow{{Check: "test", Environment: "local", Passed: true}}})
	a = s.dispatch(signalbox.RoleCritic)
	s.do(rules.StartAgent{Session: a.Session, Epoch: a.Lease.Epoch, Agent: "scripted"})
	s.end(a, "review_passed", "REVIEW_PASSED: T1\n")
	a = s.dispatch(signalbox.RoleAuditor)
	s.do(rules.StartAgent{Session: a.Session, Epoch: a.Lease.Epoch, Agent: "scripted"})
	s.end(a, "audit_passed", "AUDIT_PASSED: T1\n")
	a = s.dispatch(signalbox.RoleMerger)
	s.do(rules.PrepareMerge{Session: a.Session, Epoch: a.Lease.Epoch,
		Commit: "0123456789000000000000000000000000000000"})
	s.do(rules.ReportMerge{Session: a.Session, Epoch: a.Lease.Epoch,
		Commit: "0123456789000000000000000000000000000000"})
	must.Succeed(t, s.seen.Engine.Refresh(t.Context()))
	var out strings.Builder
	must.Succeed(t, NewLog(&out, s.seen, "T1", LogOptions{}).Print(t.Context(),
		[]int{0, 2, 4, 7}))
	for _, want := range []string{"  ! hint: set  [31mone\n── failed: crash: exit status 1: no model · ", "\n  checks failed (1 of 2): test on local (exit status 2); see signalbox work show T1\n",
		"\n  checks passed (1 of 1); see signalbox work show T1\n", "\n  merged as 0123456\n"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is missing in\n%s", want, out.String())
		}
	}
}

// A transcript is read in the format that was recorded when its session started, whatever the agent
// of that name is now. Older ledgers do not have it, and it is detected.
func TestLogReadsTheRecordedFormat(t *testing.T) {
	const json = `{"type":"system","subtype":"init","session_id":"s"}
{"type":"assistant","message":{"id":"m","role":"assistant","content":[{"type":"text","text":"I looked.\nTASK_INCOMPLETE: T1"}]},"session_id":"s"}
{"type":"result","subtype":"success","is_error":false,"result":"TASK_INCOMPLETE: T1","session_id":"s"}
`
	for _, tt := range []struct {
		name   string
		format signalbox.Format
		output string
		want   string
	}{
		// the agent of that name is plain now
		{"recorded", signalbox.FormatClaude, json, "\nI looked.\n"},
		{"detected", "", json, "\nI looked.\n"},
		{"plain", signalbox.FormatPlain, json, `{"type":"assistant"`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newStage(t)
			a := s.dispatch(signalbox.RoleDeveloper)
			s.do(rules.StartAgent{Session: a.Session, Epoch: a.Lease.Epoch, Agent: "scripted",
				Format: tt.format})
			s.end(a, "task_incomplete", tt.output)
			must.Succeed(t, s.seen.Engine.Refresh(t.Context()))
			var out strings.Builder
			must.Succeed(t, NewLog(&out, s.seen, "T1", LogOptions{}).Print(t.Context(),
				[]int{0}))
			if !strings.Contains(out.String(), tt.want) {
				t.Errorf("%q is missing in\n%s", tt.want, out.String())
			}
		})
	}
}

// Follow prints what a running agent writes at once, continues with the next session, and ends when
// the task is done.
func TestLogFollowsSessions(t *testing.T) {
	for _, raw := range []bool{false, true} {
		t.Run(fmt.Sprintf("raw=%t", raw), func(t *testing.T) {
			s := newStage(t)
			a := s.start()
			file := s.live(a.Session)
			r, w := io.Pipe()
			lines := bufio.NewScanner(r)
			next := func(want string) {
				t.Helper()
				if raw && (strings.HasPrefix(want, "━━") || strings.HasPrefix(want, "──")) {
					return
				}
				want = strings.TrimPrefix(want, "✔ ")
				if !raw && strings.Contains(want, "_") && !strings.HasPrefix(want, "──") {
					want = "✔ " + want
				}
				if !lines.Scan() {
					t.Fatalf("the log ends before %q", want)
				}
				if got := withoutTime(lines.Text()); got != want {
					t.Fatalf("got %q, want %q", got, want)
				}
			}
			ended := make(chan error, 1)
			go func() {
				err := NewLog(w, s.seen, "T1",
					LogOptions{Raw: raw, Poll: time.Millisecond}).Follow(t.Context(), 0)
				w.Close()
				ended <- err
			}()
			next("━━ T1  developer scripted")
			const words = "It is hard.\nStill.\nTASK_INCOMPLETE: T1\n"
			fmt.Fprint(file, "It is hard.\n")
			next("It is hard.")
			fmt.Fprint(file, "Still.\n")
			next("Still.")
			// The rest comes from the ledger, without a repetition.
			s.end(a, "task_incomplete", words)
			next("TASK_INCOMPLETE: T1")
			next("── accepted TASK_INCOMPLETE · 12.3k tokens · $0.21 · 1m38s")
			// An agent whose output is not in a file, as on another machine.
			a = s.start()
			next("━━ T1  developer scripted, 2nd agent of its role")
			if !raw {
				next("  (running; its output can be read here when its turn ends)")
			}
			s.end(a, "task_incomplete", "TASK_INCOMPLETE: T1\n")
			next("TASK_INCOMPLETE: T1")
			next("── accepted TASK_INCOMPLETE · 12.3k tokens · $0.21 · 1m38s")
			s.do(rules.Order{What: rules.OrderCancel, Work: "T1", Actor: "ann"})
			if lines.Scan() {
				t.Errorf("after the end: %q", lines.Text())
			}
			if err := <-ended; err != nil {
				t.Error(err)
			}
		})
	}
}

// Following ends with the context, and changes nothing on the ledger, also if a lease has expired:
// that is for a run to record.
func TestLogFollowIsReadOnly(t *testing.T) {
	s := newStage(t)
	s.start()
	before := s.b.Engine.Tail()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	seen := s.openLater()
	r, w := io.Pipe()
	go func() {
		err := NewLog(w, seen, "T1", LogOptions{Poll: time.Millisecond}).Follow(ctx, 0)
		w.Close()
		ended <- err
	}()
	lines := bufio.NewScanner(r)
	if !lines.Scan() || !strings.Contains(lines.Text(), "T1") {
		t.Errorf("it begins with %q", lines.Text())
	}
	s.do(rules.OpenWork{Work: "w1", Actor: "ann"})
	if err := seen.Engine.Wait(t.Context(), before.Seq); err != nil { // until it has followed
		t.Error(err)
	}
	cancel()
	for lines.Scan() {
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if err := s.b.Engine.Refresh(t.Context()); err != nil || s.b.Engine.Tail().Seq != before.Seq+1 {
		t.Errorf("the ledger has grown from %d to %d: %v", before.Seq, s.b.Engine.Tail().Seq, err)
	}
}

func TestLogOfARedactedTranscript(t *testing.T) {
	s := newStage(t)
	s.end(s.start(), "ready_for_review", "secret\nREADY_FOR_REVIEW: T1\n")
	blob, err := s.b.Engine.PutBlob(t.Context(),
		strings.NewReader("secret\nREADY_FOR_REVIEW: T1\n"))
	if err == nil {
		_, err = s.b.Redact(t.Context(), rules.RedactBlob{Blob: blob, Reason: "a password",
			Actor: "ann"})
	}
	if err == nil {
		err = s.seen.Engine.Refresh(t.Context())
	}
	must.Succeed(t, err)
	var out strings.Builder
	must.Succeed(t, NewLog(&out, s.seen, "T1", LogOptions{}).Print(t.Context(), []int{0}))
	if got := out.String(); !strings.Contains(got, "was redacted by ann") ||
		!strings.Contains(got, "── accepted READY_FOR_REVIEW") || strings.Contains(got, "secret") {
		t.Error(got)
	}
}

// Of a long transcript only the end is read: of a turn that has ended, and of one that is running.
func TestLogOfTheEnd(t *testing.T) {
	s := newStage(t)
	a := s.start()
	var output strings.Builder
	for i := range 100_000 {
		fmt.Fprintf(&output, "word %d\n", i)
	}
	output.WriteString("READY_FOR_REVIEW: T1\n")
	file := s.live(a.Session)
	io.WriteString(file, output.String())
	for _, running := range []bool{true, false} {
		if !running {
			s.end(a, "ready_for_review", output.String())
		}
		var out strings.Builder
		must.Succeed(t, NewLog(&out, s.b, "T1", LogOptions{Tail: 100}).Print(t.Context(),
			[]int{0}))
		lines := strings.Split(out.String(), "\n")
		if len(lines) < 5 || lines[1] != "… 1.1 MB before this: signalbox logs T1" ||
			lines[2] != "word 99993" ||
			!strings.Contains(out.String(), "word 99999\n✔ READY_FOR_REVIEW: T1\n") {
			t.Errorf("running %t: %s", running, out.String())
		}
	}
}
