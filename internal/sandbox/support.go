package sandbox

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"signalbox"
)

// The versions of Landlock that matter here.
const (
	abiTruncate = 3 // files cannot be emptied
	abiPorts    = 4 // TCP ports
	abiScopes   = 6 // signals and abstract sockets
	abiSockets  = 9 // named Unix sockets
)

// Support is what the system can enforce.
type Support struct {
	// System is the operating system, as in runtime.GOOS.
	System string `json:"system"`
	// Landlock is the version of Landlock's interface; zero means that there is none.
	Landlock int `json:"landlock,omitempty"`
	// Seccomp reports whether system calls can be filtered.
	Seccomp bool `json:"seccomp,omitempty"`
	// Namespaces reports whether a program can have its own processes and its own view of the
	// files.
	Namespaces bool `json:"namespaces,omitempty"`
	// Groups reports whether a program can have a control group, with which all of its processes
	// can be ended.
	Groups bool `json:"groups,omitempty"`
	// Why explains what is missing, if that is known.
	Why string `json:"why,omitempty"`
}

// Check returns an error if the system cannot enforce the policy.
func (s Support) Check(p *Policy) error {
	missing := s.Missing(p)
	if len(missing) == 0 || p.Mode == Warn {
		return nil
	}
	text := strings.Join(missing, "; ")
	if s.Why != "" {
		text += " (" + s.Why + ")"
	}
	hint := "set sandbox: warn to use what this system has, or sandbox: off to run without one; signalbox sandbox explain says what remains open"
	if server := p.Network.Server; len(missing) == 1 && server != nil && !server.Default &&
		!s.Forwards(p) {
		hint = "allow user namespaces (docs/explanation/security.md says how), " +
			"or replace network: model of the agent by on, or by ports such as [443]"
	}
	if !s.endsProcesses() && s.System == "linux" {
		hint = "allow user namespaces, or start signalbox in a control group of your own, as with systemd-run --user --scope -p Delegate=yes signalbox …;" +
			" or set sandbox.processes: watch to accept that; or " + hint
	}
	return &signalbox.Error{Code: signalbox.CodeFailed,
		Err: errors.New("the sandbox cannot be enforced here: " + text), Hint: hint}
}

// Forwards reports whether the program is limited to the server of its policy: by a network of
// its own, whose only way out is a connection that this system forwards.
func (s Support) Forwards(p *Policy) bool {
	return p.Restricted() && p.Network.Server != nil && s.System == "linux" && s.Namespaces
}

// Network returns what a program may do on the network of this system.
func (s Support) Network(p *Policy) string {
	if open := s.openServer(p); open != "" {
		return "on (" + open + ")"
	}
	return p.Network.String()
}

// openServer says why a program is not limited to the server of its policy, "" if it is.
func (s Support) openServer(p *Policy) string {
	if !p.Restricted() || p.Network.Server == nil || s.Forwards(p) {
		return ""
	}
	why := "without namespaces"
	switch {
	case s.System == "darwin":
		why = "with sandbox-exec, which knows only ports and this machine,"
	case s.System != "linux":
		why = "on " + s.System
	}
	return why + " the network cannot be limited to the model server " + p.Network.Server.Address()
}

// Notes returns what of a policy the system does not enforce, one sentence for each: what is
// Missing, and what was only a default.
func (s Support) Notes(p *Policy) []string {
	notes := s.Missing(p)
	if open := s.openServer(p); open != "" && p.Network.Server.Default {
		notes = append(notes, open)
	}
	return notes
}

// endsProcesses reports whether everything that a program starts is sure to end with it: in a
// namespace or in a control group.
func (s Support) endsProcesses() bool { return s.System == "linux" && (s.Namespaces || s.Groups) }

// Processes returns what becomes of the processes that a restricted program leaves behind.
func (s Support) Processes() Processes {
	if s.endsProcesses() {
		return EndProcesses
	}
	return WatchProcesses
}

// Missing returns what Enforce needs for a policy and the system does not have, one sentence for
// each.
func (s Support) Missing(p *Policy) (missing []string) {
	if !p.Restricted() {
		return nil
	}
	add := func(format string,
		args ...any) {
		missing = append(missing, fmt.Sprintf(format, args...))
	}
	if open := s.openServer(p); open != "" && !p.Network.Server.Default {
		add("%s", open)
	}
	if len(p.Layers) > 0 && !s.Namespaces {
		add("without namespaces a folder cannot be shown below another one (%s)", p.Layers[0].Path)
	}
	if s.System == "darwin" {
		if !s.Seatbelt() {
			add("there is no sandbox-exec")
		}
		return missing
	}
	if s.System != "linux" {
		add("there is no sandbox for %s", s.System)
		return missing
	}
	switch need := s.landlockNeeded(); {
	case s.Landlock == 0:
		add("the kernel has no Landlock")
	case s.Landlock < need && s.Namespaces:
		add("the kernel has Landlock %d, and %d is needed", s.Landlock, need)
	case s.Landlock < need:
		add("the kernel has Landlock %d, and without namespaces %d is needed", s.Landlock, need)
	}
	if !s.Seccomp {
		add("system calls cannot be filtered")
	}
	if !s.endsProcesses() && p.Processes != WatchProcesses {
		add("without namespaces and without a control group a process can outlive its program")
	}
	if len(p.Network.Ports) > 0 && s.Landlock < abiPorts {
		add("limiting TCP ports needs Landlock %d", abiPorts)
	}
	if folder := slices.IndexFunc(p.Fixed, isFolder); folder >= 0 && !s.Namespaces {
		add("without namespaces a folder cannot be protected in another (%s)", p.Fixed[folder])
	}
	if len(p.Hidden) > 0 && !s.Namespaces {
		add("without namespaces a file or folder cannot be hidden in another folder (%s)",
			strings.Join(p.Hidden, ", "))
	}
	return missing
}

func isFolder(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

func (s Support) landlockNeeded() int {
	if s.Namespaces {
		return abiTruncate
	}
	return abiScopes
}

// Seatbelt reports whether the sandbox is that of macOS.
func (s Support) Seatbelt() bool { return s.System == "darwin" && s.Why == "" }

// String names the parts of the system that enforce a policy.
func (s Support) String() string {
	var layers []string
	if s.Landlock > 0 {
		layers = append(layers, fmt.Sprint("landlock ", s.Landlock))
	}
	if s.Seccomp {
		layers = append(layers, "seccomp")
	}
	if s.Namespaces {
		layers = append(layers, "namespaces")
	}
	if s.Groups && !s.Namespaces { // with namespaces they are for limits only
		layers = append(layers, "control groups")
	}
	if s.Seatbelt() {
		layers = append(layers, "sandbox-exec")
	}
	return strings.Join(layers, ", ")
}

// Open returns what remains possible on this system although the policy forbids it, one sentence
// for each.
func (s Support) Open(p *Policy) (open []string) {
	if !p.Restricted() {
		return []string{"everything: there is no sandbox"}
	}
	add := func(when bool, sentence string) {
		if when {
			open = append(open, sentence)
		}
	}
	add(!s.endsProcesses(), "a process can outlive its program: one that "+s.escape())
	if s.System != "linux" {
		return append(open, s.Notes(p)...)
	}
	alone := p.Network.Off || s.Forwards(p) // in a network of its own
	add(s.Landlock == 0 && !s.Namespaces, "all files can be read and changed")
	add(s.Landlock == 0, "processes of other programs can be inspected as the system allows")
	add(s.Landlock < abiTruncate && !s.Namespaces, "files that may be read can be emptied")
	add(s.Landlock < abiScopes && !s.Namespaces, "other processes of the same user can be ended")
	add(s.Landlock < abiScopes && !alone, "abstract Unix sockets of other programs can be reached")
	add(!s.Namespaces, "mode, owner, times and attributes of the user's files can be changed (not their content)")
	add(!s.Namespaces && len(p.Fixed) > 0,
		"the tree's .git file can be replaced, which has no effect on signalbox's own git commands, and so can a team's configuration in a shared folder, which then needs trust again")
	add(!s.Namespaces && len(p.Hidden) > 0,
		"folders and credentials of signalbox, in folders that may be read or changed, can be read and changed like these")
	add(!s.Namespaces, "the names and sizes of all files, and the command lines of running programs, can be read")
	add(len(p.Network.Ports) > 0 && s.Landlock < abiPorts, "all TCP ports can be reached")
	add(!s.Seccomp, "system calls are not filtered")
	add(s.openServer(p) != "", s.openServer(p))
	add(!alone && len(p.Network.Ports) == 0,
		"all hosts can be reached, including this machine and your local network")
	return open
}

// escape returns how a process can outlive its program.
func (s Support) escape() string {
	if s.System == "linux" {
		return "is replaced by another faster than it can be found"
	}
	return "leaves its process group"
}
