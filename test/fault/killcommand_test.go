package fault

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"signalbox"
	"signalbox/internal/core/rules"
)

// TestKillInit kills signalbox init at a random moment. Afterwards init and all other commands must
// work.
func TestKillInit(t *testing.T) {
	random := newRand(t)
	for range sized(5, 300) {
		s := emptySite(t)
		if random.IntN(2) == 0 {
			s.environment = []string{"SIGNALBOX_KEY=" + filepath.Join(s.home, "box.key")}
		}
		cmd := s.command(t, "init")
		check(t, cmd.Start())
		timer := time.AfterFunc(time.Duration(random.IntN(25_000))*time.Microsecond,
			func() { cmd.Process.Kill() })
		cmd.Wait()
		timer.Stop()
		checkInitAgain(t, s)
		if t.Failed() {
			return
		}
	}
}

// TestKillInitAt kills signalbox init as soon as a certain file appears, to hit moments that are
// too short for TestKillInit.
func TestKillInitAt(t *testing.T) {
	for _, name := range []string{"project/.signalbox", "project/.signalbox/.gitignore",
		"project/.signalbox/signalbox.yaml",
		"project/.signalbox/ledger.db.new", "project/.signalbox/ledger.db",
		"project/.signalbox/wake", "project/.signalbox/ledger.db-wal",
		"home/box.key", "project/.signalbox/key.pub", "project/.signalbox/checkpoint.tree",
		"project/.signalbox/checkpoint"} {
		t.Run(filepath.Base(name), func(t *testing.T) {
			for range sized(1, 20) {
				s := emptySite(t)
				s.environment = []string{"SIGNALBOX_KEY=" + filepath.Join(s.home, "box.key")}
				killWhenExists(t, s.command(t, "init"),
					filepath.Join(filepath.Dir(s.project), filepath.FromSlash(name)))
				checkInitAgain(t, s)
				if t.Failed() {
					return
				}
			}
		})
	}
}

// TestInitAfterKill creates the files that a killed init leaves at moments that are too short for
// the tests above.
func TestInitAfterKill(t *testing.T) {
	for _, tt := range []struct {
		name  string
		leave func(t *testing.T, s *site)
	}{
		{"temporary files", func(t *testing.T, s *site) {
			check(t, os.Mkdir(s.box, 0o700))
			for _, name := range []string{".tmp-1234567890", "ledger.lock", "ledger.db.new",
				"ledger.db.new-journal"} {
				check(t, os.WriteFile(s.file(name), nil, 0o600))
			}
		}},
		{"opened, public key not written", func(t *testing.T, s *site) {
			s.init(t)
			s.forget(t)
			check(t, os.Remove(s.file("key.pub")))
		}},
		{"opened, not signed", func(t *testing.T, s *site) {
			s.init(t)
			s.forget(t)
		}},
		{"signed, checkpoint not written", func(t *testing.T, s *site) {
			s.init(t)
			for _, name := range []string{"checkpoint", "checkpoint.tree"} {
				check(t, os.Remove(s.file(name)))
			}
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := emptySite(t)
			tt.leave(t, s)
			checkInitAgain(t, s)
		})
	}
}

// killWhenExists starts a command and kills it as soon as a file exists.
func killWhenExists(t *testing.T, cmd *exec.Cmd, name string) {
	t.Helper()
	check(t, cmd.Start())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		cmd.Wait()
	}()
	for {
		select {
		case <-ended:
			return
		default:
		}
		if _, err := os.Lstat(name); err == nil {
			cmd.Process.Kill()
			<-ended
			return
		}
	}
}

// checkInitAgain runs init after a killed init, and checks that the result is a working box.
func checkInitAgain(t *testing.T, s *site) {
	t.Helper()
	left, _ := filepath.Glob(filepath.Join(s.box, "*"))
	again := s.run(t, "init")
	switch {
	case again.status == 0:
	case again.status == 1 && strings.Contains(again.stderr, "a box already exists in .signalbox"):
	default:
		t.Errorf("init again: exit status %d\n%safter %q", again.status, again.stderr, left)
		return
	}
	s.must(t, "work", "open", "task-1")
	if text, err := os.ReadFile(s.file(".gitignore")); err != nil ||
		!strings.HasSuffix(string(text), "\n*\n") {
		t.Errorf(".gitignore lets the box into the repository: %q, %v, after %q", text, err, left)
	}
	if v := s.verifyCommand(t, 0); v.Events != 2 || v.Checkpoint.Size != 2 {
		t.Errorf("verify printed %+v, after %q", v, left)
	}
	// A host without the private key takes the public key from the box.
	worker := *s
	worker.home, worker.environment = t.TempDir(), nil
	if r := worker.run(t, "ledger", "verify"); r.status != 0 {
		t.Errorf("verify without the private key: exit status %d\n%safter %q", r.status, r.stderr,
			left)
	}
}

// TestKillExit kills signalbox work exit at a random moment. Submitting the signal again must
// succeed, and it counts once.
func TestKillExit(t *testing.T) {
	random := newRand(t)
	s := newSite(t)
	signal := exitSignal(signalbox.PhaseImplementation, signalbox.ExitCompleted)
	rounds := sized(5, 200)
	for i := range rounds {
		work, session := "task-"+strconv.Itoa(i), "s-"+strconv.Itoa(i)
		s.must(t, "work", "open", work)
		s.must(t, "work", "claim", work, "--role", "developer", "--session", session)
		cmd := s.command(t, "work", "exit", "--session", session)
		cmd.Stdin = strings.NewReader(signal)
		check(t, cmd.Start())
		timer := time.AfterFunc(time.Duration(random.IntN(20_000))*time.Microsecond,
			func() { cmd.Process.Kill() })
		cmd.Wait()
		timer.Stop()
		if r := s.exit(t, session); r.status != 0 {
			t.Fatalf("%s again: exit status %d\n%s", work, r.status, r.stderr)
		}
	}
	events := s.mustVerify(t)
	checkExitsComplete(t, events)
	counted := map[string]int{}
	for _, e := range events {
		if e.Type == rules.TypeAgentSessionCompleted {
			counted[e.Session]++
		}
	}
	if len(counted) != rounds {
		t.Errorf("%d sessions completed, want %d", len(counted), rounds)
	}
	for session, times := range counted {
		if times != 1 {
			t.Errorf("the signal of %s counted %d times", session, times)
		}
	}
}
