package sandbox

import (
	"slices"
	"strings"
	"testing"

	"signalbox"
)

func TestCheck(t *testing.T) {
	full := Support{System: "linux", Landlock: 7, Seccomp: true, Namespaces: true, Groups: true}
	for name, tt := range map[string]struct {
		change func(*Support, *Policy)
		want   string // a part of the error; "" means none
	}{
		"full":          {func(*Support, *Policy) {}, ""},
		"no namespaces": {func(s *Support, _ *Policy) { s.Namespaces = false }, ""},
		"no groups":     {func(s *Support, _ *Policy) { s.Groups = false }, ""},
		"nothing ends processes": {func(s *Support,
			_ *Policy) {
			s.Groups, s.Namespaces = false, false
		},
			"a process can outlive its program"},
		"processes are watched": {func(s *Support,
			p *Policy) {
			s.Groups, s.Namespaces, p.Processes = false, false, WatchProcesses
		}, ""},
		"no Landlock": {func(s *Support, _ *Policy) { s.Landlock = 0 },
			"no Landlock"},
		"the reason": {func(s *Support,
			_ *Policy) {
			s.Landlock, s.Why = 0, "because"
		}, "(because)"},
		"Landlock 2": {func(s *Support, _ *Policy) { s.Landlock = 2 },
			"Landlock 2, and 3 is needed"},
		"Landlock 3": {func(s *Support, _ *Policy) { s.Landlock = 3 }, ""},
		"Landlock 5, no namespaces": {func(s *Support,
			_ *Policy) {
			s.Landlock, s.Namespaces = 5, false
		}, "without namespaces 6 is needed"},
		"Landlock 6, no namespaces": {func(s *Support,
			_ *Policy) {
			s.Landlock, s.Namespaces = 6, false
		}, ""},
		"no seccomp": {func(s *Support, _ *Policy) { s.Seccomp = false },
			"cannot be filtered"},
		"ports with Landlock 3": {func(s *Support,
			p *Policy) {
			s.Landlock, p.Network.Ports = 3, []uint16{443}
		}, "needs Landlock 4"},
		"ports with Landlock 4": {func(s *Support,
			p *Policy) {
			s.Landlock, p.Network.Ports = 4, []uint16{443}
		}, ""},
		"hidden folder": {func(_ *Support, p *Policy) { p.Hidden = []string{"/x"} },
			""},
		"hidden folder, no namespaces": {func(s *Support,
			p *Policy) {
			s.Namespaces, p.Hidden = false, []string{"/x"}
		}, "cannot be hidden"},
		"warn": {func(s *Support,
			p *Policy) {
			s.Landlock, p.Mode = 0, Warn
		}, ""},
		"off": {func(s *Support,
			p *Policy) {
			s.Landlock, p.Mode = 0, Off
		}, ""},
		"another system": {func(s *Support,
			_ *Policy) {
			*s = Support{System: "windows"}
		}, "no sandbox for windows"},
		"macOS": {func(s *Support,
			_ *Policy) {
			*s = Support{System: "darwin"}
		}, ""},
		"macOS without its program": {func(s *Support,
			_ *Policy) {
			*s = Support{System: "darwin", Why: "gone"}
		}, "(gone)"},
		"macOS with a hidden folder": {func(s *Support,
			p *Policy) {
			*s = Support{System: "darwin"}
			p.Hidden = []string{"/x"}
		}, ""},
		"one server": {func(_ *Support,
			p *Policy) {
			p.Network.Server = &Server{Host: "m", Port: 1}
		}, ""},
		"one server, no namespaces": {func(s *Support,
			p *Policy) {
			s.Namespaces, p.Network.Server = false, &Server{Host: "m", Port: 1}
		},
			"limited to the model server m:1"},
		"one server on macOS": {func(s *Support, p *Policy) {
			*s, p.Network.Server = Support{System: "darwin"}, &Server{Host: "m", Port: 1}
		}, "with sandbox-exec"},
		"one server by default": {func(s *Support, p *Policy) {
			s.Namespaces, p.Network.Server = false, &Server{Host: "m", Port: 1, Default: true}
		}, ""},
		"one server, warn": {func(s *Support, p *Policy) {
			s.Namespaces, p.Mode, p.Network.Server = false, Warn, &Server{Host: "m", Port: 1}
		}, ""},
	} {
		s, p := full, Policy{Mode: Enforce}
		tt.change(&s, &p)
		err := s.Check(&p)
		switch {
		case tt.want == "" && err != nil:
			t.Errorf("%s: %v", name, err)
		case tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want) ||
			signalbox.CodeOf(err) != signalbox.CodeFailed):
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
	if open := (Support{System: "linux", Landlock: 7, Seccomp: true, Namespaces: true}).Open(
		p); len(open) != 0 {
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

// A policy with one server says where it is enforced and where not: in what remains open, in the
// notes, and as the network.
func TestOneServer(t *testing.T) {
	const limited = "the network cannot be limited to the model server m.example:443"
	for name, tt := range map[string]struct {
		support   Support
		mode      Mode
		isDefault bool
		network   string
		open      []string // parts of the sentences that must be there
		notes     int
	}{
		"enforced": {Support{System: "linux", Landlock: 3, Seccomp: true, Namespaces: true},
			Enforce, true, "model server m.example:443 only", nil, 0},
		"by default": {Support{System: "linux", Landlock: 7, Seccomp: true, Groups: true}, Enforce,
			true, "on (without namespaces " + limited + ")",
			[]string{limited, "all hosts can be reached"}, 1},
		"by setting": {Support{System: "linux", Landlock: 7, Seccomp: true, Groups: true}, Warn,
			false, "on (without namespaces " + limited + ")",
			[]string{limited, "all hosts can be reached"}, 1},
		"macOS": {Support{System: "darwin"}, Enforce, true,
			"on (with sandbox-exec, which knows only ports and this machine, " + limited + ")",
			[]string{limited}, 1},
		"no sandbox": {Support{System: "linux"}, Off, true, "model server m.example:443 only",
			[]string{"everything"}, 0},
		"other": {Support{System: "plan9"}, Warn, true, "on (on plan9 " + limited + ")",
			[]string{limited}, 2},
	} {
		p := &Policy{Mode: tt.mode,
			Network: Network{Server: &Server{Scheme: "https", Host: "m.example", Port: 443,
				Default: tt.isDefault}}}
		if got := tt.support.Network(p); got != tt.network {
			t.Errorf("%s: network %q, want %q", name, got, tt.network)
		}
		open := strings.Join(tt.support.Open(p), "\n")
		for _, part := range tt.open {
			if !strings.Contains(open, part) {
				t.Errorf("%s: %q does not say %q", name, open, part)
			}
		}
		if tt.open == nil && open != "" {
			t.Errorf("%s: open %q", name, open)
		}
		if notes := tt.support.Notes(p); len(notes) != tt.notes {
			t.Errorf("%s: notes %q", name, notes)
		}
	}
}
