package transport

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"signalbox"
	"signalbox/internal/core/box"
	"signalbox/internal/core/rules"
	"signalbox/internal/testkit/must"
	"signalbox/internal/testkit/pgserver"
)

// invite returns an invitation to the box, after its token was copied.
func (s *stage) invite() *box.Invitation {
	s.t.Helper()
	invitation, err := s.box.Invite("", "", time.Now().Add(time.Hour))
	if err == nil {
		invitation, err = box.ParseInvitation(invitation.Token(), time.Now())
	}
	must.Succeed(s.t, err)
	return invitation
}

// A machine cannot join before another has published the repository. Nothing is left behind, and it
// can join when that has happened.
func TestJoinBeforeTheFirstRun(t *testing.T) {
	pgserver.Need(t)
	server, err := pgserver.Start()
	must.Succeed(t, err)
	t.Cleanup(func() { server.Stop() })
	t.Run("bundles", func(t *testing.T) {
		testFirstJoin(t, fmt.Sprintf("journal: %q\n", server.Address+"&schema=bundles"), false)
	})
	t.Run("remote", func(t *testing.T) {
		remote := filepath.Join(t.TempDir(), "remote.git")
		if out, err := exec.Command("git", "init", "--quiet", "--bare",
			remote).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		testFirstJoin(t, fmt.Sprintf("journal: %q\nworkspace: {remote: %q}\n", server.Address+
			"&schema=remote", remote), true)
	})
}

func testFirstJoin(t *testing.T, settings string, remote bool) {
	s := set(t, settings)
	without := &box.Options{KeyFile: filepath.Join(s.dir, "no-such-key")}
	dir := filepath.Join(s.dir, "second")
	_, err := Join(t.Context(), dir, s.invite(), without)
	if signalbox.CodeOf(err) != signalbox.CodeNotFound || !strings.Contains(signalbox.HintOf(err),
		"on the machine that has the repository") {
		t.Errorf("before the repository is published: %v", err)
	}
	if left, _ := filepath.Glob(dir + "*"); len(left) > 0 {
		t.Fatalf("left behind: %v", left)
	}
	must.Succeed(t, Offer(t.Context(), s.box, s.repo, "me"))
	interrupted := filepath.Join(dir+joiningSuffix, clonedFolder, ".git") // an earlier attempt
	must.Succeed(t, os.MkdirAll(interrupted, 0o700))
	joined, err := Join(t.Context(), dir, s.invite(), without)
	if err != nil || !joined.Cloned || !joined.Repository {
		t.Fatalf("joined %+v: %v", joined, err)
	}
	if left, _ := filepath.Glob(filepath.Join(s.dir, "*"+joiningSuffix)); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	m := *s
	m.root = dir
	if here, there := s.git("rev-parse", "main"), m.git("rev-parse", "main"); here != there {
		t.Errorf("the clone has %s, want %s", there, here)
	}
	if invitation := s.invite(); remote { // so that the ledger does not know the repository
		invitation.NoRepository = true
		joined, err = Join(t.Context(), filepath.Join(s.dir, "third"), invitation, without)
		if err != nil || joined.Cloned || joined.Repository {
			t.Errorf("a box without a repository: %+v, %v", joined, err)
		}
	} else {
		s.testRefusedJoins(dir, without)
	}
}

// testRefusedJoins tries what must be refused, and checks that it changes nothing.
func (s *stage) testRefusedJoins(joined string, opts *box.Options) {
	t := s.t
	files := func(dir string) string {
		names, _ := filepath.Glob(filepath.Join(dir, "*"))
		hidden, _ := filepath.Glob(filepath.Join(dir, ".*"))
		return strings.Join(append(names, hidden...), "\n")
	}
	s.write("full/file", "mine")
	s.write("unrelated/file", "mine")
	other := *s
	other.root = filepath.Join(s.dir, "unrelated")
	other.git("init", "-q", "-b", "main")
	other.git("add", "-A")
	other.git("-c", "user.name=me", "-c", "user.email=me@localhost", "commit", "-q", "-m", "start")
	changed := func(change func(*box.Invitation)) *box.Invitation {
		i := s.invite()
		change(i)
		return i
	}
	for _, tt := range []struct {
		name, dir  string
		invitation *box.Invitation
		want       string
		code       signalbox.Code
	}{
		{"a folder with a box", joined, s.invite(), "a box already exists", signalbox.CodeFailed},
		{"a folder with files", filepath.Join(s.dir, "full"), s.invite(), "is not a clone",
			signalbox.CodeFailed},
		{"another repository", filepath.Join(s.dir, "unrelated"), s.invite(),
			"does not have the commit", signalbox.CodeFailed},
		{"another box", filepath.Join(s.dir, "new"),
			changed(func(i *box.Invitation) { i.Box = "box-other" }), "belongs to " + s.box.ID(),
			signalbox.CodeUnverified},
		{"a forged checkpoint", filepath.Join(s.dir, "new"),
			changed(func(i *box.Invitation) { i.Checkpoint = []byte("forged\n1\nx\n") }),
			"checkpoint", signalbox.CodeUnverified},
		{"no such ledger", filepath.Join(s.dir, "new"),
			changed(func(i *box.Invitation) { i.Journal = strings.Replace(i.Journal, "=bundles", "=other", 1) }), "", signalbox.CodeUnverified},
	} {
		before := files(s.dir) + files(tt.dir)
		_, err := Join(t.Context(), tt.dir, tt.invitation, opts)
		if err == nil || !strings.Contains(err.Error(), tt.want) ||
			signalbox.CodeOf(err) != tt.code {
			t.Errorf("%s: error %v", tt.name, err)
		}
		if after := files(s.dir) + files(tt.dir); after != before {
			t.Errorf("%s: before\n%s\nafter\n%s", tt.name, before, after)
		}
	}

	clone := filepath.Join(s.dir, "clone")
	s.git("clone", "-q", joined, clone)
	got, err := Join(t.Context(), clone, s.invite(), opts)
	if err != nil || got.Cloned || !got.Repository {
		t.Errorf("a clone: %+v, %v", got, err)
	}
	if _, err := s.box.Engine.Do(t.Context(), rules.OpenWork{Work: "w", Actor: "me"}); err != nil {
		t.Error(err)
	}
}
