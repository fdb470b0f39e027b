package signalbox

import (
	"os/exec"
	"strings"
	"testing"
)

func TestCheckCommit(t *testing.T) {
	t.Parallel()
	for _, good := range []string{strings.Repeat("0a", 20), strings.Repeat("f9", 32)} {
		if err := CheckCommit(good); err != nil {
			t.Error(err)
		}
	}
	for _, bad := range []string{"", "a", "HEAD", "main", "0a0a0a0", strings.Repeat("0A", 20),
		strings.Repeat("0g", 20), strings.Repeat("a", 41), strings.Repeat("a", 39),
		"-" + strings.Repeat("a", 39), "--upload-pack=" + strings.Repeat("a", 26),
		strings.Repeat("a", 39) + "\n", strings.Repeat("a", 38) + "^0",
		strings.Repeat("a", 1<<20)} {
		if err := CheckCommit(bad); err == nil || len(err.Error()) > 600 {
			t.Errorf("%.100q: %.700v", bad, err)
		}
	}
}

func TestCheckBranch(t *testing.T) {
	t.Parallel()
	good := []string{"main", "fix/counter", "a.b", "a./b", "feature-1", "größe", "@x", "x@", "a{b",
		"HEAD/x", "signalbox/T1"}
	bad := []string{"", "-", "-x", "--upload-pack=x", ".a", "a/.b", "a.lock", "a.lock/b", "a..b",
		"a b", "a~1", "a^", "a:b", "a?", "a*", "a[", "a\\b", "a\x7f", "a\nb", "a\tb",
		"/a", "a/", "a//b", "a.", "a@{1}", "@", "HEAD", "a\xff"}
	_, noGit := exec.LookPath("git")
	for i, name := range append(good, bad...) {
		err := CheckBranch(name)
		if isGood := i < len(good); isGood != (err == nil) {
			t.Errorf("%q: %v", name, err)
		}
		if noGit == nil && err == nil {
			if out, err := exec.Command("git", "check-ref-format", "--branch",
				name).CombinedOutput(); err != nil {
				t.Errorf("git refuses %q: %s", name, out)
			}
		}
	}
}
