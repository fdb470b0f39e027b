package fault

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"signalbox"
	"signalbox/internal/core/box"
	"signalbox/internal/core/rules"
	"signalbox/internal/durable"
)

// claimChild claims each work item that it reads from standard input, in its own session, and
// prints the result.
func claimChild(ctx context.Context, args []string) error {
	b, err := box.Open(ctx, args[0], &box.Options{KeyFile: args[1]})
	if err != nil {
		return err
	}
	defer b.Close()
	fmt.Println("ready")
	for works := bufio.NewScanner(os.Stdin); works.Scan(); {
		answer, err := b.Engine.Do(ctx, claimOf(works.Text(), args[2]))
		refused := (*signalbox.Error)(nil)
		switch {
		case err == nil:
			fmt.Println("granted", answer.Lease.Epoch)
		case errors.As(err, &refused):
			fmt.Println("refused", refused.Code)
		default:
			return err
		}
	}
	return nil
}

func claimOf(work, session string) rules.Claim {
	return rules.Claim{Work: work, Role: signalbox.RoleDeveloper, Session: session, Actor: "tester",
		Lease: "l-" + session}
}

// TestOneClaimWins lets many processes claim the same work at the same time, repeatedly.
func TestOneClaimWins(t *testing.T) { onEachBackend(t, testOneClaimWins) }

func testOneClaimWins(t *testing.T, on backend) {
	claimers, rounds := on.times(8, 64), on.times(8, 300)
	s := on.newSite(t)
	b := s.open(t)
	var processes []*child
	for i := range claimers {
		processes = append(processes, startChild(t, "claim", s.box, s.keyFile,
			fmt.Sprintf("s-%d", i)))
	}
	for _, c := range processes {
		c.receive(t) // ready
	}
	epochs := map[string]uint64{}
	for round := range rounds {
		work := fmt.Sprintf("task-%d", round)
		openWork(t, b, work)
		for _, c := range processes {
			c.send(t, work)
		}
		refused, granted := 0, uint64(0)
		for _, c := range processes {
			line := c.receive(t)
			if line == fmt.Sprint("refused ", signalbox.CodeConflict) {
				refused++
			} else if _, err := fmt.Sscanf(line, "granted %d", &granted); err != nil {
				t.Errorf("%s: %s", work, line)
			}
		}
		if refused != claimers-1 || granted == 0 {
			t.Fatalf("%s: %d of %d claims were refused", work, refused, claimers)
		}
		epochs[work] = granted
	}
	for _, c := range processes {
		c.end(t)
	}
	checkGrants(t, s.mustVerify(t), epochs)
}

// checkGrants checks that the ledger has one grant for each work item, with the epoch from the
// answer.
func checkGrants(t *testing.T, events []signalbox.Event, epochs map[string]uint64) {
	t.Helper()
	granted := map[string]uint64{}
	for _, e := range events {
		if e.Type == rules.TypeLeaseGranted {
			if first, twice := granted[e.Work]; twice {
				t.Errorf("%s was granted in event %d and again in event %d", e.Work, first, e.Seq)
			}
			granted[e.Work] = e.Seq
		}
	}
	if len(granted) != len(epochs) {
		t.Errorf("the ledger has %d grants, want %d", len(granted), len(epochs))
	}
	for work, epoch := range epochs {
		if granted[work] != epoch {
			t.Errorf("%s: the ledger has epoch %d, the answer was %d", work, granted[work], epoch)
		}
	}
}

// TestOneClaimCommandWins does the same with commands. The writers' lock holds them back until all
// have started.
func TestOneClaimCommandWins(t *testing.T) {
	claimers := sized(6, 64)
	s := newSite(t)
	s.must(t, "work", "open", "task-1")
	lock, err := durable.Acquire(t.Context(), s.file("ledger.lock"))
	check(t, err)
	commands := make([]*exec.Cmd, claimers)
	answers := make([]strings.Builder, claimers)
	for i := range commands {
		commands[i] = s.command(t, "work", "claim", "task-1", "--role", "developer", "--json")
		commands[i].Stdout = &answers[i]
		check(t, commands[i].Start())
	}
	check(t, lock.Release())
	statuses := map[int]int{}
	epochs := map[string]uint64{}
	for i, cmd := range commands {
		if err := cmd.Wait(); err == nil {
			var answer struct{ Lease struct{ Epoch uint64 } }
			check(t, json.Unmarshal([]byte(answers[i].String()), &answer))
			epochs["task-1"] = answer.Lease.Epoch
		}
		statuses[cmd.ProcessState.ExitCode()]++
	}
	if statuses[0] != 1 || statuses[4] != claimers-1 {
		t.Errorf("exit statuses %v, want 0 once and 4 for the others", statuses)
	}
	checkGrants(t, s.mustVerify(t), epochs)
}

// TestStaleExit submits exit signals under leases that are over, several at the same time.
func TestStaleExit(t *testing.T) {
	for _, tt := range []struct {
		name string
		lose func(t *testing.T, s *site, epoch string)
	}{
		{"released", func(t *testing.T, s *site, epoch string) {
			s.must(t, "work", "release", "task-1", "--session", "first", "--epoch", epoch)
			s.must(t, "work", "claim", "task-1", "--role", "developer", "--session", "second")
		}},
		{"revoked", func(t *testing.T, s *site, _ string) {
			s.must(t, "work", "release", "task-1", "--reason", "it hangs")
			s.must(t, "work", "claim", "task-1", "--role", "developer", "--session", "second")
		}},
		{"expired", func(t *testing.T, s *site, _ string) {
			s.must(t, "work", "claim", "--next", "--wait", "--role", "developer", "--session",
				"second")
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t)
			s.must(t, "work", "open", "task-1")
			ttl := "1m"
			if tt.name == "expired" {
				ttl = "1s"
			}
			var claimed struct{ Lease struct{ Epoch uint64 } }
			s.mustJSON(t, &claimed, "work", "claim", "task-1", "--role", "developer", "--session",
				"first", "--ttl", ttl, "--json")
			epoch := fmt.Sprint(claimed.Lease.Epoch)
			tt.lose(t, s, epoch)
			sendStale(t, s, epoch)
			checkRefusedOnce(t, s)
		})
	}
}

// sendStale submits the first session's signal from several processes at once.
func sendStale(t *testing.T, s *site, epoch string) {
	var sending sync.WaitGroup
	for i := range sized(4, 8) {
		args := []string{"work", "exit", "--session", "first"}
		if i%2 == 0 {
			args = append(args, "--epoch", epoch)
		}
		cmd := s.command(t, args...)
		sending.Go(func() {
			r := finish(t, cmd, strings.NewReader(exitSignal(signalbox.PhaseImplementation,
				signalbox.ExitCompleted)))
			if r.status != 4 {
				t.Errorf("%v: exit status %d, want 4", args, r.status)
			}
			r.checkStderr(t, args, "signalbox: stale lease: epoch "+epoch+
				" of work 'task-1' is over, epoch * is live",
				"hint: claim the work again; the signal under the old lease was ignored")
		})
	}
	sending.Wait()
}

func checkRefusedOnce(t *testing.T, s *site) {
	t.Helper()
	recorded := 0
	for _, e := range s.mustVerify(t) {
		switch e.Type {
		case rules.TypeSignalRefused:
			var refused rules.SignalRefused
			check(t, json.Unmarshal(e.Data, &refused))
			if e.Session != "first" || refused.Reason != signalbox.ReasonStaleLease {
				t.Errorf("event %d refuses a signal of session %s: %s", e.Seq, e.Session,
					refused.Reason)
			}
			recorded++
		case rules.TypePhaseChanged, rules.TypeAgentSessionCompleted:
			t.Errorf("event %d is a %s: a stale signal moved the work", e.Seq, e.Type)
		}
	}
	if recorded != 1 {
		t.Errorf("the refusal is recorded %d times, want once", recorded)
	}
	if r := s.exit(t, "second"); r.status != 0 {
		t.Errorf("the holder's own signal: exit status %d\n%s", r.status, r.stderr)
	}
}

// exitSignal returns an exit signal as agents write it.
func exitSignal(phase signalbox.Phase, reason signalbox.ExitReason) string {
	text, err := json.Marshal(signalOf(phase, reason))
	if err != nil {
		panic(err) // cannot happen: it is a struct of strings
	}
	return string(text)
}

func signalOf(phase signalbox.Phase, reason signalbox.ExitReason) signalbox.ExitSignal {
	return signalbox.ExitSignal{Protocol: signalbox.ExitProtocol, Version: "1.0.0",
		PhaseCompleted: phase, ExitReason: reason}
}
