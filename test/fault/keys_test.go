package fault

import (
	"fmt"
	"os"
	"runtime"
	"testing"
)

// TestKeyOpenToOthers gives others the right to read the signing key: it is not used any more, but nothing else stops.
func TestKeyOpenToOthers(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("files have no such modes here")
	}
	s := newLedger(t)
	check(t, os.Chmod(s.keyFile, 0o644))
	says := fmt.Sprintf("other users can read the signing key %s (mode 0644), so signalbox does not use it", s.keyFile)
	hint := "run chmod 600 on it; if someone may have read it, its signatures no longer prove anything"
	s.doesNotSign(t, says, hint)
	if v := s.verifyCommand(t, 0); v.Events != tamperEvents+1 || v.Checkpoint == nil || v.Checkpoint.Size != tamperEvents {
		t.Errorf("verify says %s", printed(v))
	}
	s.mustFail(t, 1, says, hint, "ledger", "checkpoint")
	check(t, os.Chmod(s.keyFile, 0o600))
	s.signsAgain(t)
}

// doesNotSign checks that a command is carried out without being signed, with a warning.
func (s *site) doesNotSign(t *testing.T, says, hint string) {
	t.Helper()
	args := []string{"work", "open", "more"}
	r := s.run(t, args...)
	if r.status != 0 {
		t.Errorf("%v: exit status %d", args, r.status)
	}
	r.says(t, args, "warning: what was done is recorded, but: "+says, "hint: "+hint)
	s.must(t, "work", "list")
}

func (s *site) signsAgain(t *testing.T) {
	t.Helper()
	s.must(t, "ledger", "checkpoint")
	if v := s.verifyCommand(t, 0); v.Events != tamperEvents+1 || v.Checkpoint == nil || v.Checkpoint.Size != tamperEvents+1 {
		t.Errorf("afterwards verify says %s", printed(v))
	}
}

// TestKeyGone is a host that does not have the key, as plain workers do not: it works without signing, and says nothing about it.
func TestKeyGone(t *testing.T) {
	s := newLedger(t)
	away := s.keyFile + ".away"
	check(t, os.Rename(s.keyFile, away))
	args := []string{"work", "open", "more"}
	if r := s.run(t, args...); r.status != 0 || r.stderr != "" {
		t.Errorf("%v: exit status %d\n%s", args, r.status, r.stderr)
	}
	s.mustFail(t, 3, "the signing key is not on this host: no file "+s.keyFile,
		"sign on the host where the box was created, or set SIGNALBOX_KEY to the key's file", "ledger", "checkpoint")
	if v := s.verifyCommand(t, 0); v.Events != tamperEvents+1 || v.Checkpoint == nil || v.Checkpoint.Size != tamperEvents {
		t.Errorf("verify says %s", printed(v))
	}
	check(t, os.Rename(away, s.keyFile))
	s.signsAgain(t)
}

// TestKeyOfAnotherBox names the key of another box.
func TestKeyOfAnotherBox(t *testing.T) {
	s, other := newLedger(t), newSite(t)
	s.environment = []string{"SIGNALBOX_KEY=" + other.keyFile}
	says := fmt.Sprintf("cannot use the signing key %s: it belongs to signalbox/*, not to signalbox/*", other.keyFile)
	hint := "restore the file from a copy, or set SIGNALBOX_KEY to the right one"
	s.doesNotSign(t, says, hint)
	s.mustFail(t, 1, says, hint, "ledger", "checkpoint")
	s.environment = nil
	s.signsAgain(t)
}
