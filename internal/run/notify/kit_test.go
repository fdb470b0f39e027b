package notify

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"signalbox"
	"signalbox/internal/config"
	"signalbox/internal/core/box"
	"signalbox/internal/core/rules"
	"signalbox/internal/run/plan"
	"signalbox/internal/run/planload"
	"signalbox/internal/testkit/must"
	"signalbox/internal/testkit/output"
)

// childVariable makes this test binary send the notifications of a box until its standard input
// ends. Its value is the folder of the box.
const childVariable = "NOTIFY_TEST_BOX"

func TestMain(m *testing.M) {
	dir := os.Getenv(childVariable)
	if dir == "" {
		os.Exit(m.Run())
	}
	b, err := box.Open(context.Background(), dir, nil)
	if err != nil {
		panic(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	go func() {
		io.Copy(io.Discard, os.Stdin)
		stop()
	}()
	for _, f := range New(b, Options{Project: "app", Getenv: os.Getenv, Environ: os.Environ()}).Run(
		ctx) {
		fmt.Println(f.Target, f.Messages, f.Err)
	}
	b.Close()
}

// startChild sends the notifications of a box in another process. It ends when the returned pipe is
// closed.
func startChild(t *testing.T, dir string) (*exec.Cmd, io.Closer) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childVariable+"="+dir)
	stdin, err := cmd.StdinPipe()
	must.Succeed(t, err)
	must.Succeed(t, cmd.Start())
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	return cmd, stdin
}

// patience is how long a test waits for something that should happen at once.
const patience = 2 * time.Minute

// kit is a box with a plan.
type kit struct {
	t        *testing.T
	box      *box.Box
	sessions int
	log      output.Buffer
}

// newKit returns a box whose configuration is settings, with a plan of the tasks. In a shared
// workspace tasks are completed without a merge.
func newKit(t *testing.T, settings string, shared bool, tasks ...string) *kit {
	t.Helper()
	dir := filepath.Join(t.TempDir(), box.FolderName)
	options := &box.Options{KeyFile: filepath.Join(t.TempDir(), "box.key")}
	if _, err := box.Init(t.Context(), dir, "ann", options); err != nil {
		t.Fatal(err)
	}
	must.Succeed(t, os.WriteFile(filepath.Join(dir, config.FileName), []byte(settings),
		0o600))
	b, err := box.Open(t.Context(), dir, options)
	must.Succeed(t, err)
	t.Cleanup(func() { b.Close() })
	text := "# A plan\n"
	for _, id := range tasks {
		text += fmt.Sprintf(
			"\n#### Task %s: title\n\n**Work**: do\n\n**Acceptance Criteria**:\n\n- [ ] done\n", id)
	}
	p, err := plan.Parse("plan.md", []byte(text), nil)
	must.Succeed(t, err)
	if _, err := planload.Load(t.Context(), b, p, []byte(text),
		planload.Options{Actor: "ann", Source: "plan.md", ID: "plan", Shared: shared}); err != nil {
		t.Fatal(err)
	}
	return &kit{t: t, box: b}
}

// do executes a command that must succeed.
func (k *kit) do(c rules.Command) rules.Answer {
	k.t.Helper()
	answer, err := k.box.Engine.Do(k.t.Context(), c)
	if err != nil {
		k.t.Fatalf("%T: %v", c, err)
	}
	return answer
}

// turn dispatches the next work, and reports a signal for it. If name is "" it reports what moves
// the work on.
func (k *kit) turn(name string, fields rules.SignalFields, spent rules.Spent) rules.Answer {
	k.t.Helper()
	k.sessions++
	session := fmt.Sprintf("s-%d", k.sessions)
	granted := k.do(rules.Dispatch{Roles: rules.DispatchRoles(), Session: session, Actor: "crew",
		Lease: fmt.Sprintf("l-%d", k.sessions)})
	epoch := granted.Lease.Epoch
	if granted.Lease.Role == signalbox.RoleCI {
		answer := k.do(rules.ReportChecks{Session: session, Epoch: epoch,
			Commit: "abc1234000000000000000000000000000000000"})
		if name != "" {
			return k.turn(name, fields, spent)
		}
		return answer
	}
	k.do(rules.StartAgent{Session: session, Epoch: epoch, Agent: "a"})
	if name == "" {
		name = map[signalbox.Role]string{signalbox.RoleDeveloper: signalbox.NameReadyForReview,
			signalbox.RoleCritic:  signalbox.NameReviewPassed,
			signalbox.RoleAuditor: signalbox.NameAuditPassed}[granted.Lease.Role]
	}
	return k.do(rules.ReportSignal{Session: session, Epoch: epoch, Signal: name,
		Named: granted.Work, Fields: fields,
		Turn: &rules.Turn{Commit: "abc1234000000000000000000000000000000000", Spent: spent}})
}

// ask makes an agent ask a question.
func (k *kit) ask(text string) {
	k.t.Helper()
	k.turn(signalbox.NameDivineClarification, rules.SignalFields{Summary: text}, rules.Spent{})
}

// advance lets agents work until nothing can be dispatched.
func (k *kit) advance() {
	k.t.Helper()
	for {
		possible := false
		k.box.Engine.View(func(
			s *rules.State) {
			possible = s.CanDispatch(rules.DispatchRoles(), 0, time.Now())
		})
		if !possible {
			return
		}
		k.turn("", rules.SignalFields{}, rules.Spent{})
	}
}

// sender returns a Sender with short pauses.
func (k *kit) sender(environ ...string) *Sender {
	getenv := func(name string) string {
		for _, entry := range environ {
			if value, ok := strings.CutPrefix(entry, name+"="); ok {
				return value
			}
		}
		return ""
	}
	return New(k.box, Options{Project: "app", Getenv: getenv,
		Environ: append(os.Environ(), environ...), Log: slog.New(slog.NewTextHandler(&k.log, nil)),
		delays: &delays{look: 0, lock: time.Millisecond, retry: time.Millisecond,
			most: time.Millisecond, drain: patience, send: patience}})
}

// send runs a Sender until everything is delivered or cannot be.
func (k *kit) send(environ ...string) []Failure {
	k.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return k.sender(environ...).Run(ctx)
}

// request is a request that a server got.
type request struct {
	path   string
	header http.Header
	body   []byte
}

// receiver is a server that gets notifications, and answers with the status that answer returns for
// the n-th request, from 1; nil means 200.
func receiver(t *testing.T, answer func(n int) int) (*httptest.Server, <-chan request) {
	t.Helper()
	got := make(chan request, 100)
	n := 0
	var mu sync.Mutex
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got <- request{r.URL.Path, r.Header, body}
		mu.Lock()
		defer mu.Unlock()
		n++
		w.Header().Set("Location", "/redirected")
		if answer != nil {
			w.WriteHeader(answer(n))
		}
	}))
	t.Cleanup(server.Close)
	return server, got
}

// next returns the next request.
func next(t *testing.T, got <-chan request) request {
	t.Helper()
	select {
	case r := <-got:
		return r
	case <-time.After(patience):
		t.Fatal("no notification arrived")
	}
	panic("unreachable")
}

// wantNone fails if there are more requests.
func wantNone(t *testing.T, got <-chan request) {
	t.Helper()
	select {
	case r := <-got:
		t.Fatalf("another notification: %s", r.body)
	default:
	}
}
