// Package sandbox describes what a program may do on this machine, and makes the system enforce it
// for the calling thread and everything that the thread starts.
//
// A Policy is data: which files may be read and written, and which network may be used. Support is
// what the system can enforce. Package process starts programs under a policy; this package starts
// none.
package sandbox

import (
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
)

// Mode is what happens if the system cannot enforce a policy.
type Mode string

const (
	Enforce Mode = "enforce" // the program is not started
	Warn    Mode = "warn"    // it is started with what the system can enforce
	Off     Mode = "off"     // nothing is enforced
)

// Modes returns all modes.
func Modes() []Mode { return []Mode{Enforce, Warn, Off} }

// Processes is what becomes of the processes that a program leaves behind when it ends.
type Processes string

const (
	// EndProcesses are sure to end with the program. Enforce needs a system that has a way to do
	// that: namespaces or control groups.
	EndProcesses Processes = "end"
	// WatchProcesses are looked for and ended. One that hides well enough may be left, which is
	// reported if it is noticed.
	WatchProcesses Processes = "watch"
)

// AllProcesses returns all values of Processes.
func AllProcesses() []Processes { return []Processes{EndProcesses, WatchProcesses} }

// DefaultProcesses is the limit of processes if none is configured. It is no more than what keeps a
// program from using up the ids of processes of the whole machine.
const DefaultProcesses = 10_000

// Policy is what a program may do. All paths are absolute. A path that does not exist is ignored.
type Policy struct {
	Mode Mode `json:"mode"`
	// Read are files and folders that may be read and executed.
	Read []string `json:"read,omitempty"`
	// Write are files and folders that may also be changed.
	Write []string `json:"write,omitempty"`
	// Fixed are files and folders in a folder of Write that may be read, but not changed, replaced
	// or removed. One that does not exist cannot be created: where there are namespaces, the caller
	// puts an empty folder there while the program runs.
	Fixed []string `json:"fixed,omitempty"`
	// Hidden are files and folders in a folder of Read or Write that may not be read.
	Hidden []string `json:"hidden,omitempty"`
	// Layers show what is in other folders in folders of Write. They need namespaces.
	Layers []Layer `json:"layers,omitempty"`
	// Links exist for the program only. Without namespaces there are none.
	Links []Link `json:"links,omitempty"`
	// Temp is the program's own folder for temporary files. It may be changed, and is also /tmp
	// where the system allows it.
	Temp    string  `json:"temp,omitempty"`
	Network Network `json:"network"`
	// Processes is what must become of processes that the program leaves behind; "" means
	// EndProcesses.
	Processes Processes `json:"processes,omitempty"`
	Limits    Limits    `json:"limits,omitzero"`
}

// Layer shows what is in other folders in a folder that may be changed, below what that has itself.
// Only the folder is changed: what a program changes of the others is copied into it first, and
// what it removes is only hidden.
type Layer struct {
	Path string `json:"path"`
	// Below are the other folders. What is in one of them covers what is in those after it.
	Below []string `json:"below"`
	// Only are the folders in Path that show others, relative to it; none means all of Path.
	Only []string `json:"only,omitempty"`
	// Work is a folder on the file system of Path, for the system.
	Work string `json:"work"`
}

// Link is a symbolic link. It is in a folder that programs can neither change nor see otherwise.
type Link struct {
	Path   string `json:"path"`
	Target string `json:"target"`
}

// Network is what a program may do on the network.
type Network struct {
	// Off forbids all networks, also the one of this machine.
	Off bool `json:"off,omitempty"`
	// Ports are the only TCP ports that may be connected to and listened on; other protocols are
	// forbidden. Empty means no limit.
	Ports []uint16 `json:"ports,omitempty"`
	// Server is the only server that may be reached; nil means no limit. Package process forwards
	// connections to it. Everything else is a loopback network of the program's own.
	Server *Server `json:"server,omitempty"`
}

// Server is where a program's model is.
type Server struct {
	Scheme string `json:"scheme"` // http or https: which proxy of the user is for it
	Host   string `json:"host"`   // a name or an IP address
	Port   uint16 `json:"port"`
	// Default reports that no setting asks for this limit. A system that cannot enforce it does
	// not refuse the program, but runs it without the limit, and Support.Notes says so.
	Default bool `json:"default,omitempty"`
}

// Address returns the host and the port, for net.Dial.
func (s *Server) Address() string { return net.JoinHostPort(s.Host, strconv.Itoa(int(s.Port))) }

// Limits are what a program and everything that it starts may use together. Zero means no limit.
type Limits struct {
	Memory    int64 `json:"memory,omitempty"` // bytes
	Processes int   `json:"processes,omitempty"`
	// CPU is in thousandths of a core.
	CPU int `json:"cpu,omitempty"`
}

// String returns on, none, the server, or the ports.
func (n Network) String() string {
	switch {
	case n.Off:
		return "none"
	case n.Server != nil:
		return "model server " + n.Server.Address() + " only"
	case len(n.Ports) > 0:
		return "TCP ports " + formatPorts(n.Ports)
	}
	return "on"
}

// formatPorts formats a list of ports. Those in a row are a range, such as 20000-20009.
func formatPorts(ports []uint16) string {
	var parts []string
	for i := 0; i < len(ports); {
		end := i + 1
		for end < len(ports) && ports[end] == ports[end-1]+1 {
			end++
		}
		if end-i < 3 {
			end = i + 1
			parts = append(parts, fmt.Sprint(ports[i]))
		} else {
			parts = append(parts, fmt.Sprintf("%d-%d", ports[i], ports[end-1]))
		}
		i = end
	}
	return "[" + strings.Join(parts, " ") + "]"
}

// Restricted reports whether a thread would be restricted at all.
func (p *Policy) Restricted() bool { return p != nil && p.Mode != Off && p.Mode != "" }

// writable returns all paths that may be changed.
func (p *Policy) writable() []string {
	all := slices.Clone(p.Write)
	if p.Temp != "" {
		all = append(all, p.Temp)
	}
	return all
}
