package sandbox

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"signalbox/internal/testkit/must"
)

var update = flag.Bool("update", false, "write the profiles in testdata")

func TestSeatbeltProfile(t *testing.T) {
	base := Policy{Mode: Enforce, Read: []string{"/Users/ann/.nvm", "/Users/ann/p/.git"},
		Write:  []string{"/Users/ann/p/.signalbox/trees/T1", `/Users/ann/a "b" \c`},
		Fixed:  []string{"/Users/ann/p/.signalbox/trees/T1/.git"},
		Hidden: []string{"/Users/ann/p/.signalbox"}, Temp: "/Users/ann/p/.signalbox/tmp/s1"}
	for name, network := range map[string]Network{"on": {}, "none": {Off: true},
		"ports": {Ports: []uint16{443, 8443}}} {
		p := base
		p.Network = network
		file := filepath.Join("testdata", "seatbelt-"+name+".sb")
		got := seatbeltProfile(&p)
		if *update {
			must.Succeed(t, os.WriteFile(file, []byte(got), 0o644))
		}
		want, err := os.ReadFile(file)
		must.Succeed(t, err)
		if diff := cmp.Diff(string(want), got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", file, diff)
		}
	}
}

// A profile names what links lead to, also for what does not exist yet, because macOS compares
// that.
func TestSeatbeltResolvesLinks(t *testing.T) {
	root, err := filepath.EvalSymlinks(t.TempDir())
	must.Succeed(t, err)
	for _, folder := range []string{"private/tmp", "private/box/trees", "private/lib"} {
		must.Succeed(t, os.MkdirAll(filepath.Join(root, folder), 0o700))
	}
	for name, to := range map[string]string{"tmp": "private/tmp", "box": "private/box",
		"lib": "private/lib", "loop": "loop"} {
		must.Succeed(t, os.Symlink(to, filepath.Join(root, name)))
	}
	in := func(name string) string { return filepath.Join(root, name) }
	got := seatbeltProfile(&Policy{Mode: Enforce, Read: []string{in("lib"), in("loop/x")},
		Write: []string{in("box/trees")}, Fixed: []string{in("box/trees/.git")},
		Hidden: []string{in("box")}, Temp: in("tmp/new/session")})
	for _, want := range []string{
		"(allow file-read* (subpath \"" + in("private/lib") + "\"))",
		"(allow file-read* file-write* (subpath \"" + in("private/tmp/new/session") + "\"))",
		"(deny file-write* (subpath \"" + in("private/box/trees/.git") + "\"))",
		// in a hidden folder
		"(deny file-read* file-write* (subpath \"" + in("private/box") +
			"\"))\n(allow file-read* file-write* (subpath \"" + in("private/box/trees") + "\"))",
		"(allow network* (subpath \"" + in("private/tmp/new/session") + "\"))",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%s is missing in\n%s", want, got)
		}
	}
	for _, link := range []string{"tmp", "box", "lib"} {
		if strings.Contains(got, "\""+in(link)) {
			t.Errorf("the link %s is named in\n%s", link, got)
		}
	}
}
