// Package sandbox describes what a program may do on this machine, and makes the system enforce it for the calling thread and
// everything that the thread starts.
//
// A Policy is data: which files may be read and written, and which network may be used. Support is what the system can enforce.
// Package process starts programs under a policy; this package starts none.
package sandbox

import (
	"fmt"
	"slices"
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

// Policy is what a program may do. All paths are absolute. A path that does not exist is ignored.
type Policy struct {
	Mode Mode `json:"mode"`
	// Read are files and folders that may be read and executed.
	Read []string `json:"read,omitempty"`
	// Write are files and folders that may also be changed.
	Write []string `json:"write,omitempty"`
	// Fixed are files and folders in a folder of Write that may be read, but not changed, replaced or removed. One that does not exist
	// cannot be created: where there are namespaces, the caller puts an empty folder there while the program runs.
	Fixed []string `json:"fixed,omitempty"`
	// Hidden are files and folders in a folder of Read or Write that may not be read.
	Hidden []string `json:"hidden,omitempty"`
	// Temp is the program's own folder for temporary files. It may be changed, and is also /tmp where the system allows it.
	Temp    string  `json:"temp,omitempty"`
	Network Network `json:"network"`
	Limits  Limits  `json:"limits,omitzero"`
}

// Network is what a program may do on the network.
type Network struct {
	// Off forbids all networks, also the one of this machine.
	Off bool `json:"off,omitempty"`
	// Ports are the only TCP ports that may be connected to and listened on; other protocols are forbidden. Empty means no limit.
	Ports []uint16 `json:"ports,omitempty"`
}

// Limits are what a program and everything that it starts may use together. Zero means no limit.
type Limits struct {
	Memory    int64 `json:"memory,omitempty"` // bytes
	Processes int   `json:"processes,omitempty"`
	// CPU is in thousandths of a core.
	CPU int `json:"cpu,omitempty"`
}

// String returns on, none, or the ports.
func (n Network) String() string {
	switch {
	case n.Off:
		return "none"
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
