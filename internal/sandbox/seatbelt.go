package sandbox

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
)

// seatbelt is the program that restricts another one on macOS.
const seatbelt = "/usr/bin/sandbox-exec"

// SeatbeltCommand returns the command that runs another one under a policy on macOS.
func SeatbeltCommand(p *Policy) []string { return []string{seatbelt, "-p", seatbeltProfile(p)} }

// seatbeltSystem is what every program on macOS needs: to start, to use the C library, and to look
// up names and certificates. Of the rules that match, the last one decides.
const seatbeltSystem = `(version 1)
(deny default)
(allow process-fork process-exec)
(allow process-info* (target same-sandbox))
(allow signal (target same-sandbox))
(allow sysctl-read)
(allow file-read-metadata)
(allow file-read-data (literal "/"))
(allow file-ioctl (literal "/dev/null") (literal "/dev/tty") (literal "/dev/ptmx"))
(allow file-read* file-write-data
  (literal "/dev/null") (literal "/dev/zero") (literal "/dev/random") (literal "/dev/urandom") (literal "/dev/tty"))
(allow pseudo-tty)
(allow file-read* file-write* (literal "/dev/ptmx"))
; Only terminals that it opened itself.
(allow file-read* file-write* file-ioctl (require-all (regex #"^/dev/ttys") (extension "com.apple.sandbox.pty")))
(allow ipc-posix-sem)
(allow mach-lookup
  (global-name "com.apple.system.opendirectoryd.libinfo")
  (global-name "com.apple.system.notification_center")
  (global-name "com.apple.system.logger")
  (global-name "com.apple.trustd.agent")
  (global-name "com.apple.SecurityServer"))
`

// seatbeltRead are the parts of macOS that programs may read.
var seatbeltRead = []string{"/bin", "/sbin", "/usr", "/System", "/Library", "/opt", "/private/etc", "/private/var/db/timezone", "/private/var/select",
	"/Applications/Xcode.app", "/dev"}

// seatbeltProfile returns the profile of a policy for sandbox-exec. The rules compare paths without
// symbolic links, and on macOS /tmp, /var and /etc are links.
func seatbeltProfile(p *Policy) string {
	p = &Policy{Read: resolveAll(p.Read), Write: resolveAll(p.writable()),
		Fixed: resolveAll(p.Fixed), Hidden: resolveAll(p.Hidden), Network: p.Network}
	var b strings.Builder
	b.WriteString(seatbeltSystem)
	rule := func(format string, paths []string) {
		for _, path := range paths {
			fmt.Fprintf(&b, format+"\n", seatbeltQuote(path))
		}
	}
	const read, write = "(allow file-read* (subpath %s))",
		"(allow file-read* file-write* (subpath %s))"
	rule(read, append(slices.Clone(seatbeltRead), p.Read...))
	rule(write, p.writable())
	rule("(deny file-read* file-write* (subpath %s))", p.Hidden)
	rule(read, inHidden(p, p.Read))
	rule(write, inHidden(p, p.writable()))
	rule("(deny file-write* (subpath %s))", p.Fixed)
	switch {
	case p.Network.Off:
	case len(p.Network.Ports) > 0:
		for _, port := range p.Network.Ports {
			fmt.Fprintf(&b, "(allow network-outbound (remote tcp \"*:%d\"))\n", port)
		}
		// Names are looked up by a service of the system.
		b.WriteString("(allow network-outbound (literal \"/private/var/run/mDNSResponder\"))\n")
		b.WriteString("(allow network-bind network-inbound (local tcp \"localhost:*\"))\n")
	default:
		b.WriteString("(allow network-outbound (remote ip))\n")
		b.WriteString("(allow network-outbound (literal \"/private/var/run/mDNSResponder\"))\n")
		b.WriteString("(allow network-bind network-inbound (local ip))\n")
	}
	// Unix sockets only where files may be changed: those of Docker and of the user's session are
	// elsewhere.
	rule("(allow network* (subpath %s))", p.writable())
	return b.String()
}

// resolveAll returns what paths lead to.
func resolveAll(paths []string) (resolved []string) {
	for _, path := range paths {
		resolved = append(resolved, resolveExisting(path))
	}
	return resolved
}

// resolveExisting follows the symbolic links of a path, as far as it exists.
func resolveExisting(path string) string {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		return real
	}
	parent := filepath.Dir(path)
	if parent == path {
		return path
	}
	return filepath.Join(resolveExisting(parent), filepath.Base(path))
}

// inHidden returns the paths that are in a hidden folder.
func inHidden(p *Policy, paths []string) (found []string) {
	for _, path := range paths {
		if slices.ContainsFunc(p.Hidden,
			func(hidden string) bool { return strings.HasPrefix(path, hidden+"/") }) {
			found = append(found, path)
		}
	}
	return found
}

// seatbeltQuote returns a path as a string of a profile.
func seatbeltQuote(path string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(path) + `"`
}
