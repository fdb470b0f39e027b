package sandbox

import (
	"slices"
	"strings"
	"testing"

	"signalbox"
)

func TestCheck(t *testing.T) {
	full := Support{System: "linux", Landlock: 7, Seccomp: true, Namespaces: true}
	for name, tt := range map[string]struct {
		change func(*Support, *Policy)
		want   string // a part of the error; "" means none
	}{
		"full":                         {func(*Support, *Policy) {}, ""},
		"no namespaces":                {func(s *Support, _ *Policy) { s.Namespaces = false }, ""},
		"no Landlock":                  {func(s *Support, _ *Policy) { s.Landlock = 0 }, "no Landlock"},
		"the reason":                   {func(s *Support, _ *Policy) { s.Landlock, s.Why = 0, "because" }, "(because)"},
		"Landlock 2":                   {func(s *Support, _ *Policy) { s.Landlock = 2 }, "Landlock 2, and 3 is needed"},
		"Landlock 3":                   {func(s *Support, _ *Policy) { s.Landlock = 3 }, ""},
		"Landlock 5, no namespaces":    {func(s *Support, _ *Policy) { s.Landlock, s.Namespaces = 5, false }, "without namespaces 6 is needed"},
		"Landlock 6, no namespaces":    {func(s *Support, _ *Policy) { s.Landlock, s.Namespaces = 6, false }, ""},
		"no seccomp":                   {func(s *Support, _ *Policy) { s.Seccomp = false }, "cannot be filtered"},
		"ports with Landlock 3":        {func(s *Support, p *Policy) { s.Landlock, p.Network.Ports = 3, []uint16{443} }, "needs Landlock 4"},
		"ports with Landlock 4":        {func(s *Support, p *Policy) { s.Landlock, p.Network.Ports = 4, []uint16{443} }, ""},
		"hidden folder":                {func(_ *Support, p *Policy) { p.Hidden = []string{"/x"} }, ""},
		"hidden folder, no namespaces": {func(s *Support, p *Policy) { s.Namespaces, p.Hidden = false, []string{"/x"} }, "cannot be hidden"},
		"warn":                         {func(s *Support, p *Policy) { s.Landlock, p.Mode = 0, Warn }, ""},
		"off":                          {func(s *Support, p *Policy) { s.Landlock, p.Mode = 0, Off }, ""},
		"another system":               {func(s *Support, _ *Policy) { *s = Support{System: "windows"} }, "no sandbox for windows"},
		"macOS":                        {func(s *Support, _ *Policy) { *s = Support{System: "darwin"} }, ""},
		"macOS without its program":    {func(s *Support, _ *Policy) { *s = Support{System: "darwin", Why: "gone"} }, "(gone)"},
		"macOS with a hidden folder":   {func(s *Support, p *Policy) { *s = Support{System: "darwin"}; p.Hidden = []string{"/x"} }, ""},
	} {
		s, p := full, Policy{Mode: Enforce}
		tt.change(&s, &p)
		err := s.Check(&p)
		switch {
		case tt.want == "" && err != nil:
			t.Errorf("%s: %v", name, err)
		case tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want) || signalbox.CodeOf(err) != signalbox.CodeFailed):
			t.Errorf("%s: error %v, want %q", name, err, tt.want)
		}
	}
	if err := full.Check(nil); err != nil {
		t.Errorf("no policy: %v", err)
	}
}

// The weaker the system, the longer the list of what remains open.
func TestOpen(t *testing.T) {
	p := &Policy{Mode: Enforce, Fixed: []string{"/x/.git"}, Network: Network{Off: true}}
	if open := (Support{System: "linux", Landlock: 7, Seccomp: true, Namespaces: true}).Open(p); len(open) != 0 {
		t.Errorf("with everything: %q", open)
	}
	open := (Support{System: "linux", Landlock: 7, Seccomp: true}).Open(p)
	if !slices.ContainsFunc(open, func(s string) bool { return strings.Contains(s, ".git") }) {
		t.Errorf("without namespaces: %q", open)
	}
	if none := (Support{System: "linux"}).Open(p); len(none) <= len(open) {
		t.Errorf("without anything: %q", none)
	}
	if off := (Support{System: "linux", Landlock: 7}).Open(&Policy{Mode: Off}); len(off) != 1 {
		t.Errorf("off: %q", off)
	}
}
