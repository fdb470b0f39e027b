package certificate

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"crypto/tls"

	"signalbox/internal/testkit/must"
)

func TestSelfSignedIsKept(t *testing.T) {
	dir := t.TempDir()
	first, err := SelfSigned(dir, []string{"0.0.0.0", "box.example"})
	must.Succeed(t, err)
	for _, name := range []string{"box.example", "localhost", "127.0.0.1"} {
		if err := first.Leaf.VerifyHostname(name); err != nil {
			t.Error(err)
		}
	}
	again, err := SelfSigned(dir, []string{"box.example"})
	if err != nil || Fingerprint(again) != Fingerprint(first) {
		t.Errorf("another certificate for the same name: %v", err)
	}
	other, err := SelfSigned(dir, []string{"other.example"})
	if err != nil || Fingerprint(other) == Fingerprint(first) ||
		other.Leaf.VerifyHostname("other.example") != nil {
		t.Errorf("no certificate for another name: %v", err)
	}
	info, err := os.Stat(filepath.Join(dir, fileName))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
}

func TestExpiringCertificatesAreReplaced(t *testing.T) {
	now := time.Now()
	for name, test := range map[string]struct {
		made time.Time
		want bool
	}{
		"new":          {now, true},
		"soon expired": {now.Add(-life + renewal - time.Hour), false},
		"expired":      {now.Add(-life - time.Hour), false},
		"not yet":      {now.Add(48 * time.Hour), false},
	} {
		data, err := generate([]string{"box.example"}, test.made)
		must.Succeed(t, err)
		pair, err := tls.X509KeyPair(data, data)
		must.Succeed(t, err)
		if got := usable(pair, []string{"box.example"}, now); got != test.want {
			t.Errorf("%s: usable is %t", name, got)
		}
	}
	if usable(tls.Certificate{}, nil, now) {
		t.Error("no certificate is usable")
	}
}
