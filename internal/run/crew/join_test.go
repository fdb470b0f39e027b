package crew

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"signalbox/internal/config"
	"signalbox/internal/core/box"
	"signalbox/internal/run/project"
	"signalbox/internal/run/transport"
	"signalbox/internal/run/workspace"
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

// A machine joins a box with a token: it gets the repository through the ledger, works without the
// signing key, and what it did is signed when a machine that has the key signs again.
func TestJoin(t *testing.T) {
	pgserver.Need(t)
	server, err := pgserver.Start()
	must.Succeed(t, err)
	t.Cleanup(func() { server.Stop() })
	s := set(t, scene{plan: task("T1"), git: true,
		settings: fmt.Sprintf("journal: %q\n", server.Address)})
	s.run()
	if _, err := s.box.Sign(t.Context()); err != nil {
		t.Fatal(err)
	}
	without := &box.Options{KeyFile: filepath.Join(s.dir, "no-such-key")}
	dir := filepath.Join(s.dir, "second")
	joined, err := transport.Join(t.Context(), dir, s.invite(), without)
	must.Succeed(t, err)
	if !joined.Cloned || joined.ID != s.box.ID() ||
		joined.Box != filepath.Join(dir, box.FolderName) {
		t.Errorf("joined: %+v", joined)
	}

	m := *s // the second machine
	m.root = dir
	if text := m.file("T1.done"); text != "done\n" {
		t.Errorf("the clone has %q", text)
	}
	if dirty := m.git("status", "--porcelain"); dirty != "" {
		t.Errorf("the clone is not clean: %s", dirty)
	}
	must.Succeed(t, os.WriteFile(filepath.Join(joined.Box, config.FileName), []byte(s.settings()),
		0o600))
	if m.box, err = box.Open(t.Context(), joined.Box, without); err != nil {
		t.Fatal(err)
	}
	defer m.box.Close()
	repo, err := workspace.Find(t.Context(), dir, filepath.Join(joined.Box, workspace.TreesFolder))
	must.Succeed(t, err)
	m.project = project.Project{Root: dir, Repo: repo}
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
		t.Errorf("the first machine signed %+v of %d events (%v)", signed, m.box.Engine.Tail().Seq,
			err)
	}
	s.wantCompleted("T1", "T2")
}
