package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"signalbox/internal/testkit/must"
)

func TestParseErrors(t *testing.T) {
	for text, want := range map[string]string{
		"lease:\n  tll: 3m\n":               `line 2, column 3: unknown field "tll"`,
		"lease:\n  ttl: 3 weeks\n":          "line 2, column 8: lease.ttl: not a duration such as ",
		"lease:\n  ttl: 25h\n":              "line 2, column 8: lease.ttl: 25h0m0s is not between 1s and 24h0m0s",
		"lease: {ttl: -3m}\n":               "line 1, column 14: lease.ttl: -3m0s is not between 1s and 24h0m0s",
		"lease:\n  ttl: 5\n":                "line 2, column 8: ",
		"lease:\n  ttl: 3m\n  ttl: 4m\n":    "line 3, column 3: ",
		"lease: [\n":                        "line ",
		"checkpoint:\n  webhook: ftp://x\n": `line 2, column 12: checkpoint.webhook: "ftp://x" is not an address`,
		"checkpoint:\n  command: ['']\n":    "line 2, column 12: checkpoint.command: the name of the program is empty",
	} {
		_, err := Parse([]byte(text))
		if err == nil || !strings.HasPrefix(err.Error(), want) ||
			strings.Contains(err.Error(), "\n") {
			t.Errorf("%q: error %v, want one line that begins with %q", text, err, want)
		}
	}
}

func TestLoad(t *testing.T) {
	dir := t.TempDir()
	c, err := Load(dir)
	if diff := cmp.Diff(Default(), c); err != nil || diff != "" {
		t.Errorf("no file: %v, %s", err, diff)
	}
	name := filepath.Join(dir, FileName)
	must.Succeed(t, os.WriteFile(name, []byte("lease: {ttl: 1h}\n"), 0o600))
	if c, err = Load(dir); err != nil || c.Lease.TTL != time.Hour {
		t.Errorf("ttl 1h: %+v, %v", c, err)
	}
	must.Succeed(t, os.WriteFile(name, []byte("leases: {}\n"), 0o600))
	if _, err = Load(dir); err == nil ||
		!strings.HasPrefix(err.Error(), name+": line 1, column 1: ") {
		t.Errorf("unknown field: %v", err)
	}
	must.Succeed(t, os.WriteFile(name, []byte("checkpoint: {file: audit/checkpoint}\n"),
		0o600))
	if c, err = Load(dir); err != nil || c.Checkpoint.File != filepath.Join(dir, "audit",
		"checkpoint") {
		t.Errorf("a relative path: %+v, %v", c, err)
	}
	if _, err = Load(filepath.Join(name, "x")); err == nil {
		t.Error("a file in the place of the folder: no error")
	}
}
