package crew

import (
	"bytes"
	"context"
	"regexp"
	"strconv"
	"time"

	"signalbox/internal/process"
	"signalbox/internal/run/agent"
)

// costArguments returns the arguments that tell a program how much a turn may cost, none if cost is not limited or the program is of a
// version that is not known to have such a flag. signalbox ends the program at its cap in any case.
func (c *Crew) costArguments(ctx context.Context, command agent.Command, spec process.Spec, leftMicros int64) []string {
	if leftMicros <= 0 || command.CostFlag == "" || !c.hasVersion(ctx, spec, command.CostFlagSince) {
		return nil
	}
	return []string{command.CostFlag, strconv.FormatFloat(float64(leftMicros)/1e6, 'f', -1, 64)}
}

// versionTimeout bounds how long a program may take to print its version.
const versionTimeout = 10 * time.Second

// hasVersion reports whether a program has at least a version. It asks the program once.
func (c *Crew) hasVersion(ctx context.Context, spec process.Spec, least string) bool {
	c.versionsMu.Lock()
	defer c.versionsMu.Unlock()
	version, asked := c.versions[spec.Argv[0]]
	if !asked {
		version = programVersion(ctx, spec)
		if c.versions == nil {
			c.versions = map[string]string{}
		}
		c.versions[spec.Argv[0]] = version
	}
	return version != "" && !isOlder(version, least)
}

var versionNumber = regexp.MustCompile(`\d+\.\d+\.\d+`)

// programVersion returns the version that a program prints, "" if it prints none.
func programVersion(ctx context.Context, spec process.Spec) string {
	var out bytes.Buffer
	running, err := process.Start(process.Spec{Argv: []string{spec.Argv[0], "--version"}, Dir: spec.Dir, Env: spec.Env, Stdout: &out}, nil)
	if err != nil {
		return ""
	}
	ctx, cancel := context.WithTimeout(ctx, versionTimeout)
	defer cancel()
	defer context.AfterFunc(ctx, func() { running.Stop(0) })()
	if exit := running.Wait(); exit.Code != 0 || exit.Err != nil {
		return ""
	}
	return versionNumber.FindString(out.String())
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
