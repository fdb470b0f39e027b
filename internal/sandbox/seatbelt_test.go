package sandbox

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the profiles in testdata")

func TestSeatbeltProfile(t *testing.T) {
	base := Policy{Mode: Enforce, Read: []string{"/Users/ann/.nvm", "/Users/ann/p/.git"}, Write: []string{"/Users/ann/p/.signalbox/trees/T1", `/Users/ann/a "b" \c`},
		Fixed: []string{"/Users/ann/p/.signalbox/trees/T1/.git"}, Hidden: []string{"/Users/ann/p/.signalbox"}, Temp: "/Users/ann/p/.signalbox/tmp/s1"}
	for name, network := range map[string]Network{"on": {}, "none": {Off: true}, "ports": {Ports: []uint16{443, 8443}}} {
		p := base
		p.Network = network
		file := filepath.Join("testdata", "seatbelt-"+name+".sb")
		got := seatbeltProfile(&p)
		if *update {
			if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", file, diff)
		}
	}
}
