package transport

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"signalbox"
	"signalbox/internal/core/rules"
	"signalbox/internal/run/workspace"
	"signalbox/internal/testkit/must"
)

// forge records a bundle as another machine would. nil stores no blob.
func (s *stage) forge(work, commit string, bundle []byte, needs ...string) {
	s.t.Helper()
	c := rules.StoreCommits{Work: work, StoredCommit: rules.StoredCommit{Commit: commit,
		Bundle: signalbox.Hash{1}, Size: int64(max(1, len(bundle))), Needs: needs},
		Actor: "mallory"}
	if work == "" {
		c.Branch = "main"
	}
	if bundle != nil {
		digest, err := s.box.Engine.PutBlob(s.t.Context(), bytes.NewReader(bundle))
		must.Succeed(s.t, err)
		c.Bundle = digest
	}
	if _, err := s.box.Engine.Do(s.t.Context(), c); err != nil {
		s.t.Fatal(err)
	}
}

// bundleOf returns a bundle as signalbox writes it.
func (s *stage) bundleOf(commit string, needs ...string) []byte {
	s.t.Helper()
	var bundle bytes.Buffer
	must.Succeed(s.t, s.repo.WriteBundle(s.t.Context(), &bundle,
		workspace.Bundle{Commits: []string{commit},
			Needs: needs, Branch: "main"}))
	return bundle.Bytes()
}

// cloned returns the commit of a new clone, made from what the ledger has.
func (s *stage) cloned(name string) (string, error) {
	dir := filepath.Join(s.dir, name)
	if err := Clone(s.t.Context(), s.box, dir); err != nil {
		return "", err
	}
	s.git("-C", dir, "fsck", "--no-progress")
	return s.git("-C", dir, "rev-parse", "main"), nil
}

func (s *stage) publish(t carrier, work, commit string) {
	s.t.Helper()
	must.Succeed(s.t, t.publish(s.t.Context(), work, commit))
}

// One bundle that is unusable does not stop the sharing of commits: a machine that has them stores
// them again.
func TestUselessBundles(t *testing.T) {
	for name, tt := range map[string]struct {
		fault string
		// forge records a useless bundle of the commit second, which is on top of first.
		forge func(s *stage, first, second string)
	}{
		"garbage": {"it is not a git bundle",
			func(s *stage, first, second string) { s.forge("", second, []byte("garbage"), first) }},
		"lost": {"its blob is not in the ledger any more",
			func(s *stage, first, second string) { s.forge("", second, nil, first) }},
		"truncated": {"git index-pack", func(s *stage, first, second string) {
			bundle := s.bundleOf(second, first)
			s.forge("", second, bundle[:len(bundle)-30], first)
		}},
		"incomplete": {"git index-pack", func(s *stage, first, second string) {
			s.forge("", second, bytes.Replace(s.bundleOf(second, first), []byte("-"+first+" \n"),
				nil, 1))
		}},
		"forged prerequisite": {"which the ledger does not say",
			func(s *stage, first,
				second string) {
				s.forge("", second, s.bundleOf(second, first))
			}},
		"another commit": {"it is the bundle of",
			func(s *stage, first, second string) { s.forge("", second, s.bundleOf(first), first) }},
		"other refs": {"it contains \"refs/heads/evil\"", func(s *stage, first, second string) {
			s.forge("", second, bytes.Replace(s.bundleOf(second, first), []byte("\n\nPACK"),
				[]byte("\n"+second+" refs/heads/evil\n\nPACK"), 1), first)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			s := set(t, "")
			x := s.exchange()
			first := s.git("rev-parse", "main")
			s.publish(x.carrier, "", first)
			second := s.person("f", "second")
			tt.forge(s, first, second)

			// Without the commit, a machine continues with what it can get.
			if got, err := s.cloned("without"); err != nil || got != first {
				t.Errorf("cloned %s: %v, want %s", got, err, first)
			}
			rejected := all[rules.BundleRejected](s)
			if len(rejected) != 1 || rejected[0].Commit != second ||
				!strings.Contains(rejected[0].Fault, tt.fault) {
				t.Fatalf("rejected %+v", rejected)
			}
			reader := &bundles{box: s.box, repo: emptyRepo(t, s, "empty"), max: rules.MaxBundle}
			err := reader.obtain(t.Context(), "", second)
			if err == nil || !strings.Contains(err.Error(), second[:12]) ||
				strings.Contains(err.Error(), "\n") || !strings.Contains(err.Error(), tt.fault) ||
				!strings.Contains(signalbox.HintOf(err), "a machine that has the commit") {
				t.Errorf("a machine without the commit: %v (%s)", err, signalbox.HintOf(err))
			}

			// A machine that has it stores it again, once.
			for range 2 {
				must.Succeed(t, x.carrier.repair(t.Context()))
			}
			if log := s.log.String(); strings.Count(log,
				"this machine has stored the commit again") != 1 ||
				!strings.Contains(log, second[:12]) {
				t.Errorf("the log says:\n%s", log)
			}
			if got, err := s.cloned("with"); err != nil || got != second {
				t.Errorf("cloned %s: %v, want %s", got, err, second)
			}
			if refs := s.git("-C", filepath.Join(s.dir, "with"), "for-each-ref",
				"--format=%(refname)"); strings.Contains(refs, "evil") {
				t.Errorf("refs %s", refs)
			}
			third := s.person("f", "third")
			s.publish(x.carrier, "", third)
			if got, err := s.cloned("later"); err != nil || got != third {
				t.Errorf("cloned %s: %v, want %s", got, err, third)
			}
		})
	}
}

func emptyRepo(t *testing.T, s *stage, name string) *workspace.Repo {
	t.Helper()
	repo, err := workspace.NewClone(t.Context(), filepath.Join(s.dir, name), false)
	must.Succeed(t, err)
	return repo
}

// Nothing builds on a bundle of a commit that no machine has.
func TestBundleOfNoCommit(t *testing.T) {
	s := set(t, "")
	x := s.exchange()
	first := s.git("rev-parse", "main")
	s.publish(x.carrier, "", first)
	none := strings.Repeat("f", 40)
	s.forge("", none, []byte("garbage"), first)
	second := s.person("f", "second")
	s.publish(x.carrier, "", second)
	must.Succeed(t, x.carrier.repair(t.Context()))
	s.box.Engine.View(func(state *rules.State) {
		for _, stored := range state.StoredCommits("") {
			if slices.Contains(stored.Needs, none) {
				t.Errorf("%s builds on it", stored.Commit)
			}
		}
	})
	if got, err := s.cloned("clone"); err != nil || got != second {
		t.Errorf("cloned %s: %v, want %s", got, err, second)
	}
}

// A commit that a person made here, and that is not in the base, is not published only because
// another machine names it.
func TestPrivateCommitStaysPrivate(t *testing.T) {
	for name, forge := range map[string]func(s *stage, first, secret string){
		"stored": func(*stage, string, string) {},
		// A usable bundle that says that it contains the commit.
		"in a header": func(s *stage, first, secret string) {
			other := s.commitOn(first, "other")
			header := bytes.Replace(s.bundleOf(other, first), []byte("\n\nPACK"),
				[]byte("\n"+secret+" refs/signalbox/shared/"+secret+"\n\nPACK"), 1)
			s.forge("", other, header, first)
			s.forget(other)
		},
		// Bundles of a commit on top of it.
		"parent": func(s *stage, first, secret string) {
			other := s.commitOn(secret, "other")
			s.forge("", other, bytes.Replace(s.bundleOf(other, secret), []byte("-"+secret+" \n"),
				[]byte("-"+first+" \n"), 1), first)
			s.forget(other)
		},
		"needed": func(s *stage, first, secret string) {
			other := s.commitOn(secret, "other")
			s.forge("", other, s.bundleOf(other, secret), secret)
			s.forget(other)
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := set(t, "")
			x := s.exchange()
			first := s.git("rev-parse", "main")
			s.publish(x.carrier, "", first)
			secret := s.person("secret", "secret")
			s.git("reset", "-q", "--hard", first)
			s.forge("", secret, []byte("garbage"), first)
			forge(s, first, secret)
			var stored []rules.StoredCommit
			s.box.Engine.View(func(
				state *rules.State) {
				stored = slices.Clone(state.StoredCommits("")[1:])
			})
			for _, other := range stored[1:] {
				if err := x.carrier.obtain(t.Context(), "", other.Commit); err == nil {
					t.Logf("%.12s was read", other.Commit)
				}
			}
			for _, other := range stored {
				if _, err := s.box.Engine.Do(t.Context(), rules.RejectBundle{Commit: other.Commit,
					Bundle: other.Bundle, Fault: "garbage", Actor: "mallory"}); err != nil {
					t.Fatal(err)
				}
			}
			must.Succeed(t, x.carrier.repair(t.Context()))
			reader := &bundles{box: s.box, repo: emptyRepo(t, s, "empty"), max: rules.MaxBundle}
			wantPrivate := func() {
				t.Helper()
				// whatever it is in
				for _, other := range append(stored, rules.StoredCommit{Commit: secret}) {
					_ = reader.obtain(t.Context(), "", other.Commit)
				}
				if here, err := reader.repo.Has(t.Context(), secret); here || err != nil {
					t.Errorf("the commit was published: %t, %v", here, err)
				}
			}
			wantPrivate()
			second := s.person("f", "second")
			s.publish(x.carrier, "", second)
			must.Succeed(t, reader.obtain(t.Context(), "", second))
			wantPrivate()
		})
	}
}

// replace records a bundle that replaces others, whether or not it contains them.
func (s *stage) replace(commit string, bundle []byte, needs, replaces []string) {
	s.t.Helper()
	digest, err := s.box.Engine.PutBlob(s.t.Context(), bytes.NewReader(bundle))
	must.Succeed(s.t, err)
	c := rules.StoreCommits{StoredCommit: rules.StoredCommit{Commit: commit, Bundle: digest,
		Size: int64(len(bundle)), Needs: needs, Branch: "main"}, Replaces: replaces,
		Actor: "mallory"}
	if answer, err := s.box.Engine.Do(s.t.Context(), c); err != nil || answer.Repeated {
		s.t.Fatalf("stored: %+v, %v", answer, err)
	}
}

// A bundle that replaces others without containing them does not take the base away from new
// machines.
func TestBundleReplacesBase(t *testing.T) {
	none := strings.Repeat("f", 40)
	for name, forge := range map[string]func(s *stage, first, base string){
		"garbage": func(s *stage, first,
			base string) {
			s.replace(none, []byte("garbage"), nil, []string{first, base})
		},
		"before the first checks": func(s *stage, first,
			base string) {
			s.replace(none, []byte("garbage"), nil, []string{first, base})
		},
		"garbage for a need": func(s *stage, first,
			base string) {
			s.replace(none, []byte("garbage"), nil, []string{first})
		},
		"another commit": func(s *stage, first, base string) {
			other := s.commitOn(first, "other")
			s.replace(other, s.bundleOf(other), nil, []string{first, base})
			s.forget(other)
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := set(t, "")
			x := s.exchange()
			first := s.git("rev-parse", "main")
			s.publish(x.carrier, "", first)
			base := s.person("f", "base")
			s.publish(x.carrier, "", base)
			if name != "before the first checks" {
				s.checkBase()
			}
			forge(s, first, base)
			s.wantRepaired(x, base, "no usable bundle contained the base "+base[:12])
		})
	}
}

// After many rejections none is recorded any more. A machine that has the commit looks itself.
func TestOftenRejectedBundle(t *testing.T) {
	s := set(t, "")
	x := s.exchange()
	first := s.git("rev-parse", "main")
	s.publish(x.carrier, "", first)
	second := s.person("f", "second")
	s.forge("", second, []byte("garbage"), first)
	for i := range 10 {
		reject := rules.RejectBundle{Commit: second, Bundle: s.stored("", second).Bundle,
			Fault: "garbage", Actor: "mallory"}
		if answer, err := s.box.Engine.Do(t.Context(), reject); err != nil {
			t.Fatal(err)
		} else if answer.Repeated {
			break
		}
		s.replace(second, fmt.Appendf(nil, "garbage %d", i), []string{first}, []string{second})
	}
	s.wantRepaired(x, second, "this machine has stored the commit again")
}

// wantRepaired lets a crew repair bundles several times. It must say so once, and the base must be
// what a new machine gets.
func (s *stage) wantRepaired(x *Exchange, base, said string) {
	s.t.Helper()
	for range 3 {
		must.Succeed(s.t, x.carrier.repair(s.t.Context()))
	}
	if log := s.log.String(); strings.Count(log, said) != 1 {
		s.t.Errorf("the log says:\n%s", log)
	}
	if got, err := s.cloned("clone"); err != nil || got != base {
		s.t.Errorf("cloned %s: %v, want %s", got, err, base)
	}
}

// A machine that alone cannot use a bundle does not store it again and again.
func TestBundleOnlyUnusableHere(t *testing.T) {
	s := set(t, "")
	x := s.exchange()
	first := s.git("rev-parse", "main")
	s.publish(x.carrier, "", first)
	b := x.carrier.(*bundles)
	stored := s.stored("", first)
	b.failed = map[bundleKey]string{{first, stored.Bundle}: "git is too old"}
	for range 2 {
		must.Succeed(t, b.repair(t.Context()))
	}
	if log := s.log.String(); strings.Contains(log, "stored the commit again") {
		t.Errorf("the log says:\n%s", log)
	}
	if !b.isUnrepaired(stored) {
		t.Error("it will be tried again")
	}
}

// commitOn returns a new commit on top of another, which is on no branch.
func (s *stage) commitOn(parent, text string) string {
	s.t.Helper()
	return s.git("-c", "user.name=p", "-c", "user.email=p@example.com", "commit-tree", "-p", parent,
		"-m", text, parent+"^{tree}")
}

// forget removes a commit that is on no branch.
func (s *stage) forget(commit string) {
	s.t.Helper()
	s.git("prune", "--expire=now")
	if here, err := s.repo.Has(s.t.Context(), commit); here || err != nil {
		s.t.Fatalf("%s is still here: %v", commit, err)
	}
}

// Git refuses some objects, and lets their author choose what it says about them. Neither is used,
// and the sharing of commits continues.
func TestBundleThatGitRefuses(t *testing.T) {
	s := set(t, "")
	x := s.exchange()
	first := s.git("rev-parse", "main")
	s.publish(x.carrier, "", first)
	bad := s.person(".gitmodules",
		"[submodule \"../unable to write\"]\n\tpath = x\n\turl = https://example.com/x\n")
	if err := x.carrier.publish(t.Context(), "", bad); err == nil ||
		!strings.Contains(err.Error(), "other machines would refuse the commit "+bad[:12]) ||
		strings.Contains(err.Error(), "\n") {
		t.Errorf("published: %v", err)
	}
	s.forge("", bad, s.bundleOf(bad, first), first)
	reader := &bundles{box: s.box, repo: emptyRepo(t, s, "empty"), actor: "other",
		max: rules.MaxBundle}
	for range 2 {
		if err := reader.obtain(t.Context(), "", bad); err == nil ||
			!strings.Contains(err.Error(), "disallowed submodule name") {
			t.Errorf("obtained: %v", err)
		}
	}
	if got := all[rules.BundleRejected](s); len(got) != 1 || got[0].Commit != bad {
		t.Errorf("rejected %+v", got)
	}
	s.git("reset", "-q", "--hard", first)
	second := s.person("f", "second")
	s.publish(x.carrier, "", second)
	if err := reader.obtain(t.Context(), "", second); err != nil {
		t.Error(err)
	}
}

// A bundle that cannot be read now is skipped, not rejected, and tried again.
func TestUnreadableBundle(t *testing.T) {
	s := set(t, "")
	x := s.exchange()
	first := s.git("rev-parse", "main")
	s.publish(x.carrier, "", first)
	second := s.person("f", "second")
	s.publish(x.carrier, "", second)
	reader := &bundles{box: s.box, repo: emptyRepo(t, s, "empty"), actor: "other",
		max: rules.MaxBundle}
	full := errors.New("the disk is full")
	read := func(context.Context, io.Reader, string,
		[]string) error {
		return &workspace.UnreadableError{Err: full}
	}
	if err := reader.readBundle(t.Context(), s.stored("", second), read); !isMissing(err) ||
		!errors.Is(err, full) {
		t.Errorf("read: %v", err)
	}
	if got := all[rules.BundleRejected](s); len(got) > 0 {
		t.Errorf("rejected %+v", got)
	}
	if _, commit, err := reader.base(t.Context()); commit != first || err != nil {
		t.Errorf("base %s, %v: want %s", commit, err, first)
	}
	if err := reader.obtain(t.Context(), "", second); err != nil {
		t.Error(err)
	}
	if _, commit, err := reader.base(t.Context()); commit != second || err != nil {
		t.Errorf("base %s, %v: want %s", commit, err, second)
	}
}

// stored returns a stored commit.
func (s *stage) stored(work, commit string) (found rules.StoredCommit) {
	s.t.Helper()
	s.box.Engine.View(func(state *rules.State) {
		for _, stored := range state.StoredCommits(work) {
			if stored.Commit == commit {
				found = stored
			}
		}
	})
	if found.Commit == "" {
		s.t.Fatalf("%s is not stored", commit)
	}
	return found
}

func TestHugeBundle(t *testing.T) {
	s := set(t, "")
	first := s.git("rev-parse", "main")
	small := &bundles{box: s.box, repo: s.repo, actor: "crew", max: 100}
	if err := small.publish(t.Context(), "", first); err == nil ||
		!strings.Contains(err.Error(), "has more than 100 bytes") ||
		!strings.Contains(signalbox.HintOf(err), "workspace.remote") {
		t.Errorf("published: %v", err)
	}
	s.publish(s.exchange().carrier, "", first)
	reader := &bundles{box: s.box, repo: emptyRepo(t, s, "empty"), max: 100}
	if err := reader.obtain(t.Context(), "", first); err == nil ||
		!strings.Contains(err.Error(), "limit 100") {
		t.Errorf("obtained: %v", err)
	}
	size := s.stored("", first).Size
	if want := fmt.Sprintf("it has %d bytes, limit 100",
		size); reader.fault(s.stored("", first)) != want {
		t.Errorf("fault %q, want %q", reader.fault(s.stored("", first)), want)
	}
}

// What is not an id never reaches git.
func TestHostileIDs(t *testing.T) {
	s := set(t, "")
	b := &bundles{box: s.box, repo: s.repo, actor: "crew", max: rules.MaxBundle}
	good := strings.Repeat("a", 40)
	for _, bad := range []string{"-" + good[1:], "--upload-pack=touch x", "HEAD", "", good[:39]} {
		for _, stored := range []rules.StoredCommit{{Commit: bad, Size: 1},
			{Commit: good, Needs: []string{good, bad}, Size: 1}} {
			if fault := b.fault(stored); !strings.Contains(fault,
				"is not the full id of a commit") {
				t.Errorf("%q: %q", bad, fault)
			}
		}
		if err := b.obtain(t.Context(), "", bad); err == nil {
			t.Errorf("%q was obtained", bad)
		}
		if err := b.publish(t.Context(), "", bad); err == nil {
			t.Errorf("%q was published", bad)
		}
	}
	done, cancel := context.WithCancel(t.Context())
	cancel()
	if err := b.obtain(done, "", good); !errors.Is(err, context.Canceled) &&
		signalbox.CodeOf(err) != signalbox.CodeNotFound {
		t.Errorf("cancelled: %v", err)
	}
}

// The chain stays short, and what is stored again is bounded.
func TestCombinedBundles(t *testing.T) {
	for name, size := range map[string]func(i int) int64{
		"equal":   func(int) int64 { return 1000 },
		"growing": func(i int) int64 { return int64(i + 1) },
		"mixed":   func(i int) int64 { return []int64{1, 100, 10_000, 7}[i%4] },
	} {
		t.Run(name, func(t *testing.T) {
			const first, steps = 1_000_000, 5000
			chain, written, added, longest := []rules.StoredCommit{{Size: first}}, int64(first),
				int64(first), 0
			for i := range steps {
				s, n := size(i), combined(chain)
				added += s
				for _, c := range chain[len(chain)-n:] {
					s += c.Size
				}
				chain = append(chain[:len(chain)-n], rules.StoredCommit{Size: s})
				written, longest = written+s, max(longest, len(chain))
			}
			if longest > 30 || written > 15*added {
				t.Errorf("%d bundles; %d bytes written for %d", longest, written, added)
			}
		})
	}
}
