package crew

import (
	"cmp"
	"context"
	"errors"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"signalbox/internal/lazy"
	"signalbox/internal/process"
	"signalbox/internal/run/agent"
)

// costArguments returns the arguments that tell a program how much a turn may cost, none if cost is
// not limited or the program has a version that is not known to have such a flag. signalbox ends
// the program at its cap in any case.
func (c *Crew) costArguments(ctx context.Context, command agent.Command, spec process.Spec,
	leftMicros int64) []string {
	if leftMicros <= 0 || command.CostFlag == "" ||
		!c.hasVersion(ctx, spec, command.CostFlagSince) {
		return nil
	}
	return []string{command.CostFlag, strconv.FormatFloat(float64(leftMicros)/1e6, 'f', -1, 64)}
}

// versionTimeout bounds how long a program may take to print its version.
const versionTimeout = 10 * time.Second

// maxVersionOutput bounds what a program may print with its version.
const maxVersionOutput = 64 << 10

// hasVersion reports whether a program has at least a version. It asks the program once, or more
// often if agents start at the same time: an agent must not wait for the program of another.
func (c *Crew) hasVersion(ctx context.Context, spec process.Spec, least string) bool {
	program := spec.Argv[0]
	if strings.ContainsRune(program, filepath.Separator) && !filepath.IsAbs(program) {
		program = filepath.Join(spec.Dir, program)
	}
	c.versionsMu.Lock()
	version, asked := c.versions[program]
	c.versionsMu.Unlock()
	if !asked {
		version = programVersion(ctx, program, spec, cmp.Or(c.opts.delays.version, versionTimeout))
		if ctx.Err() != nil { // it may have been cut short
			return false
		}
		c.versionsMu.Lock()
		if c.versions == nil {
			c.versions = map[string]string{}
		}
		c.versions[program] = version
		c.versionsMu.Unlock()
	}
	return version != "" && !isOlder(version, least)
}

var versionNumber = lazy.Regexp(`\d+\.\d+\.\d+`)

// programVersion returns the version that a program prints, "" if it prints none. The program may
// do only what the agent may: what an agent left in its home folder may decide what the program
// does. For the same reason it does not run in the working copy.
func programVersion(ctx context.Context, program string, spec process.Spec,
	timeout time.Duration) string {
	out := &versionOutput{}
	root := filepath.VolumeName(spec.Dir) + string(filepath.Separator)
	running, err := process.Start(process.Spec{Argv: []string{program, "--version"}, Dir: root,
		Env: spec.Env, Stdout: out, Grace: time.Second,
		Sandbox: spec.Sandbox}, nil)
	if err != nil {
		return ""
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	defer context.AfterFunc(ctx, func() { running.Stop(0) })()
	if exit := running.Wait(); exit.Code != 0 || exit.Err != nil {
		return ""
	}
	return versionNumber().FindString(string(out.text))
}

// versionOutput keeps what a program prints, and fails if it is too much.
type versionOutput struct{ text []byte }

func (o *versionOutput) Write(p []byte) (int, error) {
	if len(o.text)+len(p) > maxVersionOutput {
		return 0, errors.New("the program prints too much")
	}
	o.text = append(o.text, p...)
	return len(p), nil
}

// isOlder compares versions such as 2.0.28.
func isOlder(version, than string) bool {
	numbers := regexp.MustCompile(`\d+`)
	a, b := numbers.FindAllString(version, -1), numbers.FindAllString(than, -1)
	for i := range min(len(a), len(b)) {
		x, _ := strconv.Atoi(a[i])
		y, _ := strconv.Atoi(b[i])
		if x != y {
			return x < y
		}
	}
	return len(a) < len(b)
}
