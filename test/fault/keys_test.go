package fault

import (
	"fmt"
	"os"
	"runtime"
	"testing"
)

// TestKeyReadableByOthers makes the signing key readable by other users. Commands no longer sign,
// but still work.
func TestKeyReadableByOthers(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("Windows has no file modes")
	}
	s := newLedger(t)
	check(t, os.Chmod(s.keyFile, 0o644))
	failure := fmt.Sprintf(
		"other users can read the signing key %s (mode 0644), so signalbox does not use it",
		s.keyFile)
	hint := "run chmod 600 on it; if someone may have read it, its signatures no longer prove anything"
	s.checkNotSigned(t, failure, hint)
	if v := s.verifyCommand(t, 0); v.Events != tamperEvents+1 || v.Checkpoint.Size != tamperEvents {
		t.Errorf("verify printed %s", asJSON(v))
	}
	s.mustFail(t, 1, failure, hint, "ledger", "checkpoint")
	check(t, os.Chmod(s.keyFile, 0o600))
	s.checkSignsAgain(t)
}

// checkNotSigned checks that a command succeeds, but warns that it could not sign.
func (s *site) checkNotSigned(t *testing.T, failure, hint string) {
	t.Helper()
	args := []string{"work", "open", "more"}
	r := s.run(t, args...)
	if r.status != 0 {
		t.Errorf("%v: exit status %d", args, r.status)
	}
	r.checkStderr(t, args, "warning: the change is recorded, but: "+failure, "hint: "+hint)
	s.must(t, "work", "list")
}

// checkSignsAgain checks that the box signs again, including the event of checkNotSigned.
func (s *site) checkSignsAgain(t *testing.T) {
	t.Helper()
	s.must(t, "ledger", "checkpoint")
	if v := s.verifyCommand(t, 0); v.Events != tamperEvents+1 ||
		v.Checkpoint.Size != tamperEvents+1 {
		t.Errorf("afterwards verify printed %s", asJSON(v))
	}
}

// TestKeyMissing works on a host that lacks the key, as worker hosts usually do. Commands do not
// sign, without a warning.
func TestKeyMissing(t *testing.T) {
	s := newLedger(t)
	away := s.keyFile + ".away"
	check(t, os.Rename(s.keyFile, away))
	args := []string{"work", "open", "more"}
	if r := s.run(t, args...); r.status != 0 || r.stderr != "" {
		t.Errorf("%v: exit status %d\n%s", args, r.status, r.stderr)
	}
	s.mustFail(t, 3, "the signing key is not on this host: no file "+s.keyFile,
		"sign on the host where the box was created, or set SIGNALBOX_KEY to the key's file",
		"ledger", "checkpoint")
	if v := s.verifyCommand(t, 0); v.Events != tamperEvents+1 || v.Checkpoint.Size != tamperEvents {
		t.Errorf("verify printed %s", asJSON(v))
	}
	check(t, os.Rename(away, s.keyFile))
	s.checkSignsAgain(t)
}

// TestKeyOfAnotherBox configures the key of another box.
func TestKeyOfAnotherBox(t *testing.T) {
	s, other := newLedger(t), newSite(t)
	s.environment = []string{"SIGNALBOX_KEY=" + other.keyFile}
	failure := fmt.Sprintf(
		"cannot use the signing key %s: it belongs to signalbox/*, not to signalbox/*",
		other.keyFile)
	hint := "restore the file from a copy, or set SIGNALBOX_KEY to the right one"
	s.checkNotSigned(t, failure, hint)
	s.mustFail(t, 1, failure, hint, "ledger", "checkpoint")
	s.environment = nil
	s.checkSignsAgain(t)
}
