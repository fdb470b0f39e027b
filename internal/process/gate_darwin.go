package process

import (
	"errors"
	"os"
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"

	"signalbox/internal/sandbox"
)

// gateScript waits for a line on descriptor 3 and then becomes the program, with the same pid. If
// this process dies first, the line never comes and the program never runs.
const gateScript = `read -r _ <&3 && exec "$@" 3<&-`

// connectGate returns the two ends of the pipe that opens the gate.
func connectGate() (ours, theirs *os.File, err error) { return connect(toProgram, false) }

// errNotReady does not occur: a shell opens the gate.
var errNotReady = errors.New("the process that starts it is not ready")

// killRequest is unused: there are no keepers.
const killRequest = unix.SIGKILL

// Try reports why a program cannot be started under a policy, nil if it can.
func Try(policy *sandbox.Policy) error { return Support().Check(policy) }

// Support returns what this system can enforce.
func Support() sandbox.Support { return sandbox.Detect() }

// MissingLimits returns which limits this system does not enforce: all.
func MissingLimits(limits sandbox.Limits) []string {
	if limits == (sandbox.Limits{}) {
		return nil
	}
	return []string{"limits.memory, limits.processes and limits.cpu have no effect on macOS"}
}

// gateCommand returns the command that waits for the gate and then runs a program.
func gateCommand(spec Spec, file string) (*exec.Cmd, error) {
	argv := append([]string{file}, spec.Argv[1:]...)
	if spec.Sandbox.Restricted() {
		support := Support()
		if err := support.Check(spec.Sandbox); err != nil {
			return nil, err
		}
		if support.Seatbelt() {
			argv = append(sandbox.SeatbeltCommand(spec.Sandbox), argv...)
		}
	}
	cmd := exec.Command("/bin/sh", append([]string{"-c", gateScript, "sh"}, argv...)...)
	// a new session is also a new process group, without a terminal
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	return cmd, nil
}

// programEnviron returns the environment of the program.
func (s Spec) programEnviron() []string { return s.Env }

// gate is the pipe that opens the gate.
type gate struct{ opener *os.File }

func newGate(opener *os.File) gate { return gate{opener} }

func (g *gate) open(*Process, Spec, string, string) error {
	_, err := g.opener.Write([]byte("\n"))
	g.close()
	if errors.Is(err, syscall.EPIPE) {
		return nil // the program was ended in the meantime, which Wait reports
	}
	return err
}

// prepare does nothing: there are no control groups.
func (g *gate) prepare(Spec, *exec.Cmd) (folder string, err error) { return "", nil }

func (g *gate) cleanUp() {}

func (g *gate) close() { g.opener.Close() }

func (g *gate) signal(p *Process, sig unix.Signal) { signalAll(p.id.PID, p.members(), sig) }

func (g *gate) waitForProgram(p *Process) { waitForExit(p.id.PID) }

// endLeftovers ends what the program left behind, and returns what did not end.
func (g *gate) endLeftovers(p *Process) []Left {
	_, left := endAll(p.members, p.signal, p.grace, p.killTime)
	return leftOf(left)
}

// waitUntilGone waits until the program and what it left behind have ended.
func (g *gate) waitUntilGone(p *Process) {
	for len(g.endLeftovers(p)) > 0 {
	}
}

func (g *gate) exit(state *os.ProcessState, err error) Exit { return exitOf(state, err) }
