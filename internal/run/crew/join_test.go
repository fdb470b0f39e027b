package crew

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"signalbox"
	"signalbox/internal/config"
	"signalbox/internal/core/box"
	"signalbox/internal/core/rules"
	"signalbox/internal/run/workspace"
	"signalbox/internal/testkit/pgserver"
)

// invite returns an invitation to the box, after its token was copied.
func (s *stage) invite() *box.Invitation {
	s.t.Helper()
	invitation, err := s.box.Invite("", "", time.Now().Add(time.Hour))
	if err == nil {
		invitation, err = box.ParseInvitation(invitation.Token(), time.Now())
	}
	if err != nil {
		s.t.Fatal(err)
	}
	return invitation
}

// A machine joins a box with a token: it gets the repository through the ledger, works without the signing key, and what it did is signed when a machine that
// has the key signs again.
func TestJoin(t *testing.T) {
	pgserver.Need(t)
	server, err := pgserver.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Stop() })
	s := set(t, scene{plan: task("T1"), git: true, settings: fmt.Sprintf("journal: %q\n", server.Address)})
	s.run()
	if _, err := s.box.Sign(t.Context()); err != nil {
		t.Fatal(err)
	}
	without := &box.Options{KeyFile: filepath.Join(s.dir, "no-such-key")}
	dir := filepath.Join(s.dir, "second")
	if err := os.MkdirAll(filepath.Join(dir+joiningSuffix, clonedFolder, ".git"), 0o700); err != nil { // an attempt that was interrupted
		t.Fatal(err)
	}
	joined, err := Join(t.Context(), dir, s.invite(), without)
	if err != nil {
		t.Fatal(err)
	}
	if !joined.Cloned || joined.ID != s.box.ID() || joined.Box != filepath.Join(dir, box.FolderName) {
		t.Errorf("joined: %+v", joined)
	}
	if left, _ := filepath.Glob(filepath.Join(s.dir, "*"+joiningSuffix)); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}

	m := *s // the second machine
	m.root = dir
	if text := m.file("T1.done"); text != "done\n" {
		t.Errorf("the clone has %q", text)
	}
	if dirty := m.git("status", "--porcelain"); dirty != "" {
		t.Errorf("the clone is not clean: %s", dirty)
	}
	if err := os.WriteFile(filepath.Join(joined.Box, config.FileName), []byte(s.settings()), 0o600); err != nil {
		t.Fatal(err)
	}
	if m.box, err = box.Open(t.Context(), joined.Box, without); err != nil {
		t.Fatal(err)
	}
	defer m.box.Close()
	repo, err := workspace.Find(t.Context(), dir, filepath.Join(joined.Box, workspace.TreesFolder))
	if err != nil {
		t.Fatal(err)
	}
	m.project = Project{Root: dir, Repo: repo}
	m.load(task("T1") + task("T2"))
	m.run()
	if err := m.box.SignAndPublish(t.Context()); !errors.Is(err, box.ErrNoKey) {
		t.Errorf("signing without the key: %v", err)
	}
	m.wantCompleted("T1", "T2")
	if verified, err := m.box.Verify(t.Context(), box.VerifyOptions{}); err != nil || !verified.OK {
		t.Errorf("on the second machine: %+v, %v", verified, err)
	}

	signed, err := s.box.Sign(t.Context())
	if err != nil || signed.Size != m.box.Engine.Tail().Seq {
		t.Errorf("the first machine signed %+v of %d events (%v)", signed, m.box.Engine.Tail().Seq, err)
	}
	s.wantCompleted("T1", "T2")

	s.testRefusedJoins(dir, without)
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
		{"a folder with files", filepath.Join(s.dir, "full"), s.invite(), "is not a clone", signalbox.CodeFailed},
		{"another repository", filepath.Join(s.dir, "unrelated"), s.invite(), "does not have the commit", signalbox.CodeFailed},
		{"another box", filepath.Join(s.dir, "new"), changed(func(i *box.Invitation) { i.Box = "box-other" }), "belongs to " + s.box.ID(), signalbox.CodeUnverified},
		{"a forged checkpoint", filepath.Join(s.dir, "new"), changed(func(i *box.Invitation) { i.Checkpoint = []byte("forged\n1\nx\n") }), "checkpoint", signalbox.CodeUnverified},
		{"no such ledger", filepath.Join(s.dir, "new"), changed(func(i *box.Invitation) { i.Journal += "&schema=other" }), "", signalbox.CodeUnverified},
	} {
		before := files(s.dir) + files(tt.dir)
		_, err := Join(t.Context(), tt.dir, tt.invitation, opts)
		if err == nil || !strings.Contains(err.Error(), tt.want) || signalbox.CodeOf(err) != tt.code {
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

// A machine cannot join before another has published the repository. Nothing is left behind, and it can join when that has happened.
func TestJoinBeforeTheFirstRun(t *testing.T) {
	pgserver.Need(t)
	server, err := pgserver.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Stop() })
	t.Run("bundles", func(t *testing.T) {
		testFirstJoin(t, fmt.Sprintf("journal: %q\n", server.Address+"&schema=bundles"), false)
	})
	t.Run("remote", func(t *testing.T) {
		remote := filepath.Join(t.TempDir(), "remote.git")
		if out, err := exec.Command("git", "init", "--quiet", "--bare", remote).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		testFirstJoin(t, fmt.Sprintf("journal: %q\nworkspace: {remote: %q}\n", server.Address+"&schema=remote", remote), true)
	})
}

func testFirstJoin(t *testing.T, settings string, remote bool) {
	s := set(t, scene{plan: task("T1"), git: true, settings: settings})
	without := &box.Options{KeyFile: filepath.Join(s.dir, "no-such-key")}
	dir := filepath.Join(s.dir, "second")
	_, err := Join(t.Context(), dir, s.invite(), without)
	if signalbox.CodeOf(err) != signalbox.CodeNotFound || !strings.Contains(signalbox.HintOf(err), "on the machine that has the repository") {
		t.Errorf("before the repository is published: %v", err)
	}
	if left, _ := filepath.Glob(dir + "*"); len(left) > 0 {
		t.Fatalf("left behind: %v", left)
	}
	if found, err := Offer(t.Context(), s.box, s.root, "me"); !found || err != nil {
		t.Fatalf("found %t: %v", found, err)
	}
	joined, err := Join(t.Context(), dir, s.invite(), without)
	if err != nil || !joined.Cloned || !joined.Repository {
		t.Fatalf("joined %+v: %v", joined, err)
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
	}
}
