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
	for name, patterns := range map[string][]string{"protected": c.Protected,
		"protected_existing": c.ProtectedExisting} {
		for i, pattern := range patterns {
			if fault, hint := checkPattern(pattern); fault != "" {
				f.fail(setting(name).item(i), hint, "%s", fault)
			}
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
	if !slices.Contains([]string{"", ApproveMerge, ApproveSteering, ApproveNever}, c.Approve) {
		f.fail(setting("approve"),
			fmt.Sprintf("write %s, so that every merge waits for your approval, %s, so that those do that change files which steer agents, or %s", ApproveMerge, ApproveSteering, ApproveNever), "%q is not something that you can approve", c.Approve)
	}
	if !slices.Contains([]string{"", IndependenceVendor, IndependenceModel, IndependenceNone},
		c.Independence) {
		f.fail(setting("independence"),
			fmt.Sprintf("write %s, so that critics and auditors are of another vendor than the author, %s, so that they use another model, or %s", IndependenceVendor, IndependenceModel, IndependenceNone), "%q is not a kind of independence", c.Independence)
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
			f.fail(at.field("tokens"),
				"write the maximum number of tokens, as in window: {tokens: 2_000_000, every: 5h}",
				"missing")
		}
	case window.Tokens > 0:
		f.fail(at.field("every"), "write the time, as in window: {tokens: 2_000_000, every: 5h}",
			"missing")
	}
}

func (b Budget) check(at settingPath, f *faults) {
	f.add(checkTokens(at.field("tokens"), b.Tokens))
	f.add(checkTimeOrNone(at.field("time"), b.Time))
}

func checkTokens(at settingPath, tokens int64) *settingError {
	if tokens >= 0 {
		return nil
	}
	return faultAt(at, "write the maximum number of tokens, or remove the line", "%d is negative",
		tokens)
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
	} {
		f.add(checkNumber(setting("limits", of.name), of.n, maxLimit))
	}
	f.add(checkTime(setting("limits", "silence"), l.Silence))
	f.add(checkTime(setting("limits", "file_wait"), l.FileWait))
	f.add(checkTime(setting("limits", "checkpoint_answer"), l.CheckpointAnswer))
	l.checkResources(f)
}

func (c *Config) checkTimes(f *faults) {
	if c.Grace < 0 {
		f.fail(setting("grace"), "write a time such as 10s, or 0s to kill at once",
			"%s is negative", c.Grace)
	}
	for _, of := range []struct {
		name string
		ttl  time.Duration
	}{{"ttl", c.Lease.TTL}, {"checks", c.Lease.Checks}} {
		if of.ttl < signalbox.MinLeaseTTL || of.ttl > signalbox.MaxLeaseTTL {
			f.fail(setting("lease", of.name),
				"write a time in that range, or remove the line to use the default",
				"%s is not between %s and %s", of.ttl, signalbox.MinLeaseTTL, signalbox.MaxLeaseTTL)
		}
	}
}

func checkNumber(at settingPath, n, most int) *settingError {
	if n >= 1 && n <= most {
		return nil
	}
	return faultAt(at, "write a number in that range, or remove the line to use the default",
		"%d is not between 1 and %d", n, most)
}

func checkTime(at settingPath, d time.Duration) *settingError {
	if d >= minTimeout {
		return nil
	}
	return faultAt(at, "write a longer time, such as 90s, 15m or 2h", "%s is less than %s", d,
		minTimeout)
}

// checkTimeOrNone is checkTime for a setting that may be zero.
func checkTimeOrNone(at settingPath, d time.Duration) *settingError {
	if d == 0 {
		return nil
	}
	return checkTime(at, d)
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
	return faultAt(at.field("name"), "write a short name such as local or unit tests", "%s", fault)
}

func checkTwice(names map[string]bool, at settingPath, name string) *settingError {
	if names[name] {
		return faultAt(at.field("name"), "choose different names", "%q is used twice as a name",
			name)
	}
	names[name] = true
	return nil
}

// checkRepeated reports an item of a list that it also has before.
func checkRepeated[T ~string](at settingPath, items []T, i int) *settingError {
	if slices.Contains(items[:i], items[i]) {
		return faultAt(at, "keep one of them", "%q is named twice", items[i])
	}
	return nil
}

// checkText reports a text that is empty.
func checkText(at settingPath, text, hint string) *settingError {
	if strings.TrimSpace(text) == "" {
		return faultAt(at, hint, "must not be empty")
	}
	return nil
}

// checkProgram reports a command whose program is empty. An empty command is valid.
func checkProgram(at settingPath, command []string) *settingError {
	if len(command) > 0 && strings.TrimSpace(command[0]) == "" {
		return faultAt(at, "write [program, argument]", "the name of the program is empty")
	}
	return nil
}

func checkEnv(at settingPath, env map[string]string, f *faults) {
	for _, name := range sortedKeys(env) {
		if name == "" || strings.ContainsAny(name, "= \t\r\n\x00") {
			f.add(badName(at.field(name), "write NAME: value",
				"%q is not the name of an environment variable", name))
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
	return faultAt(at, "write it in full, such as http://127.0.0.1:8080/v1",
		"%q is not an address that begins with https:// or http://", address)
}
