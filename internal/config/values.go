package config

import (
	"fmt"
	"net/url"
	"path"
	"slices"
	"strings"
	"time"
	"unicode"

	"signalbox"
)

func (c *Config) checkProtected(f *faults) {
	for i, pattern := range c.Protected {
		at := setting("protected").item(i)
		if fault, hint := checkPattern(pattern); fault != "" {
			f.add(&settingError{at: at, fault: fault, hint: hint})
		}
	}
}

func checkPattern(pattern string) (fault, hint string) {
	if pattern == "" {
		return "must not be empty", "write a path such as .github/** or go.mod"
	}
	for segment := range strings.SplitSeq(pattern, "/") {
		switch {
		case segment == "", segment == ".", segment == "..":
			return fmt.Sprintf("%q is not a plain path", pattern),
				"write it relative to the top of the repository, such as .github/** or go.mod"
		case segment != anyDepth && strings.Contains(segment, anyDepth):
			return fmt.Sprintf("%q mixes ** with other characters", pattern),
				"write ** alone between slashes; it matches any number of folders"
		}
		if _, err := path.Match(segment, ""); err != nil {
			return fmt.Sprintf("%q is not a pattern", pattern),
				`close each [ with ], and write \ before a literal character`
		}
	}
	return "", ""
}

// checkChoices checks settings that are one of a few words.
func (c *Config) checkChoices(f *faults) {
	c.checkWorkspace(f)
	if !slices.Contains([]string{"", ApproveMerge, ApproveSteering, ApproveNever}, c.Approve) {
		f.add(&settingError{at: setting("approve"),
			fault: fmt.Sprintf("%q is not something that you can approve", c.Approve),
			hint: fmt.Sprintf("write %s, so that every merge waits for your approval, %s, so that those do that change files which steer agents, or %s",
				ApproveMerge, ApproveSteering, ApproveNever)})
	}
	f.add(checkNumber(setting("slots"), c.Slots, maxSlots))
}

func (c *Config) checkBudgets(f *faults) {
	c.Budget.Run.check(setting("budget", "run"), f)
	c.Budget.Task.check(setting("budget", "task"), f)
	c.Budget.Turn.check(setting("budget", "turn"), f)
	for _, name := range sortedKeys(c.Roles) {
		c.Roles[name].Budget.check(setting("roles", string(name), "budget"), f)
	}
	window, at := c.Budget.Window, setting("budget", "window")
	f.add(checkTokens(at.field("tokens"), window.Tokens))
	switch {
	case window.Every != 0:
		f.add(checkTime(at.field("every"), window.Every))
		if window.Tokens == 0 {
			f.add(&settingError{at: at.field("tokens"), fault: "missing",
				hint: "write the maximum number of tokens, as in window: {tokens: 2_000_000, every: 5h}"})
		}
	case window.Tokens > 0:
		f.add(&settingError{at: at.field("every"), fault: "missing",
			hint: "write the time, as in window: {tokens: 2_000_000, every: 5h}"})
	}
}

func (b Budget) check(at settingPath, f *faults) {
	f.add(checkTokens(at.field("tokens"), b.Tokens))
	if b.Time != 0 {
		f.add(checkTime(at.field("time"), b.Time))
	}
}

func checkTokens(at settingPath, tokens int64) *settingError {
	if tokens >= 0 {
		return nil
	}
	return &settingError{at: at, fault: fmt.Sprintf("%d is negative", tokens),
		hint: "write the maximum number of tokens, or remove the line"}
}

func (l Limits) check(f *faults) {
	for _, of := range []struct {
		name string
		n    int
	}{
		{"reviews", l.Reviews}, {"audits", l.Audits}, {"checks", l.Checks}, {"merges", l.Merges},
		{"incompletes", l.Incompletes},
		{"timeouts", l.Timeouts}, {"unknown", l.Unknown}, {"waits", l.Waits},
		{"file_waits", l.FileWaits},
		{"remediations", l.Remediations}, {"expert_requests", l.ExpertRequests},
		{"checkpoints_missed", l.CheckpointsMissed},
	} {
		f.add(checkNumber(setting("limits", of.name), of.n, maxLimit))
	}
	f.add(checkTime(setting("limits", "file_wait"), l.FileWait))
	f.add(checkTime(setting("limits", "checkpoint_answer"), l.CheckpointAnswer))
	l.checkResources(f)
}

func (c *Config) checkTimes(f *faults) {
	if c.Grace < 0 {
		f.add(&settingError{at: setting("grace"), fault: fmt.Sprintf("%s is negative", c.Grace),
			hint: "write a time such as 10s, or 0s to kill at once"})
	}
	if c.Lease.TTL < signalbox.MinLeaseTTL || c.Lease.TTL > signalbox.MaxLeaseTTL {
		f.add(&settingError{at: setting("lease", "ttl"),
			fault: fmt.Sprintf("%s is not between %s and %s", c.Lease.TTL, signalbox.MinLeaseTTL,
				signalbox.MaxLeaseTTL),
			hint: "write a time in that range, or remove the line to use the default"})
	}
}

func checkNumber(at settingPath, n, most int) *settingError {
	if n >= 1 && n <= most {
		return nil
	}
	return &settingError{at: at, fault: fmt.Sprintf("%d is not between 1 and %d", n, most),
		hint: "write a number in that range, or remove the line to use the default"}
}

func checkTime(at settingPath, d time.Duration) *settingError {
	if d >= minTimeout {
		return nil
	}
	return &settingError{at: at, fault: fmt.Sprintf("%s is less than %s", d, minTimeout),
		hint: "write a longer time, such as 90s, 15m or 2h"}
}

func checkID(at settingPath, name string, onKey bool) *settingError {
	if err := signalbox.CheckID(name); err != nil {
		return &settingError{at: at, onKey: onKey, bare: onKey, fault: err.Error(),
			hint: "write a name such as my-own, without spaces"}
	}
	return nil
}

// checkName checks a name that people and agents write in tables: it may have spaces, but nothing
// that ends a cell or a line.
func checkName(at settingPath, name string) *settingError {
	fault := ""
	switch {
	case name == "":
		fault = "must not be empty"
	case len(name) > maxName:
		fault = fmt.Sprintf("has %d bytes, limit %d", len(name), maxName)
	case strings.TrimSpace(name) != name:
		fault = fmt.Sprintf("%q begins or ends with a space", name)
	case strings.ContainsFunc(name, func(r rune) bool { return r == '|' || !unicode.IsPrint(r) }):
		fault = fmt.Sprintf("%q contains '|' or an invisible character", name)
	default:
		return nil
	}
	return &settingError{at: at.field("name"), fault: fault,
		hint: "write a short name such as local or unit tests"}
}

func checkTwice(names map[string]bool, at settingPath, name string) *settingError {
	if names[name] {
		return &settingError{at: at.field("name"), fault: fmt.Sprintf("%q is used twice as a name",
			name), hint: "choose different names"}
	}
	names[name] = true
	return nil
}

// checkProgram reports a command whose program is empty. An empty command is valid.
func checkProgram(at settingPath, command []string) *settingError {
	if len(command) > 0 && strings.TrimSpace(command[0]) == "" {
		return &settingError{at: at, fault: "the name of the program is empty",
			hint: "write [program, argument]"}
	}
	return nil
}

func checkEnv(at settingPath, env map[string]string, f *faults) {
	for _, name := range sortedKeys(env) {
		if name == "" || strings.ContainsAny(name, "= \t\r\n\x00") {
			f.add(&settingError{at: at.field(name), onKey: true, bare: true,
				fault: fmt.Sprintf("%q is not the name of an environment variable", name),
				hint:  "write NAME: value"})
		}
	}
}

func checkWebhook(at settingPath, address string) *settingError {
	wrong := checkAddress(at, address)
	if wrong != nil {
		wrong.hint = "write it in full, such as https://example.org/questions"
	}
	return wrong
}

// checkAddress reports an address that is not HTTP. Empty is valid.
func checkAddress(at settingPath, address string) *settingError {
	if address == "" {
		return nil
	}
	u, err := url.Parse(address)
	if err == nil && (u.Scheme == "https" || u.Scheme == "http") && u.Hostname() != "" {
		return nil
	}
	return &settingError{at: at,
		fault: fmt.Sprintf("%q is not an address that begins with https:// or http://", address),
		hint:  "write it in full, such as http://127.0.0.1:8080/v1"}
}
