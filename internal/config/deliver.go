package config

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"signalbox"
)

// Values of Deliver.As.
const (
	DeliverMerge   = "merge"
	DeliverBranch  = "branch"
	DeliverPush    = "push"
	DeliverRequest = "pull-request"
)

// Values of Deliver.Dependents.
const (
	DependentsWait  = "wait"
	DependentsStack = "stack"
)

// Values of Deliver.Forge.
const (
	ForgeGitHub  = "gh"
	ForgeGitLab  = "glab"
	ForgeCommand = "command"
)

// Deliver is what happens with finished work. In the text it may be only As.
type Deliver struct {
	// As is DeliverMerge, DeliverBranch, DeliverPush or DeliverRequest. Empty means DeliverMerge;
	// see Way.
	As string `yaml:"as"`
	// Squash makes one commit of each task.
	Squash bool `yaml:"squash"`
	// Target is the branch that work is made for. Empty means the one that is checked out.
	Target string `yaml:"target"`
	// Remote is the name or the address of the repository that branches are pushed to. Empty means
	// DefaultRemote; see RemoteName.
	Remote string `yaml:"remote"`
	// Dependents is what tasks do that depend on one whose pull request is open: DependentsWait, or
	// DependentsStack to build on it. Empty means DependentsWait.
	Dependents string `yaml:"dependents"`
	// Forge is what opens pull requests: the program ForgeGitHub or ForgeGitLab, or ForgeCommand
	// for Command. Empty means that Command does if there is one, or else that the address of
	// Remote decides.
	Forge string `yaml:"forge"`
	// Command is a program with arguments that opens pull requests.
	Command []string `yaml:"command"`
	// Every is the time between looks at a pull request. Zero means DefaultDeliverEvery.
	Every time.Duration `yaml:"every"`
	// Train is how many tasks are merged and checked together at most; 1 means each alone.
	Train int `yaml:"train"`
	// TrainTime is how long the task that fails its checks is looked for among those that were
	// merged together.
	TrainTime time.Duration `yaml:"train_time"`
}

// Defaults of Deliver.
const (
	DefaultRemote       = "origin"
	DefaultDeliverEvery = time.Minute
	DefaultTrain        = 10
	DefaultTrainTime    = 30 * time.Minute
)

func (Deliver) mainField() string { return "as" }

// Way returns how work is delivered.
func (d Deliver) Way() string { return orDefault(d.As, DeliverMerge) }

// Pushes reports whether work leaves the machine.
func (d Deliver) Pushes() bool { return d.As == DeliverPush || d.As == DeliverRequest }

// RemoteName returns the name or the address of the repository that branches are pushed to.
func (d Deliver) RemoteName() string { return orDefault(d.Remote, DefaultRemote) }

// Interval returns the time between looks at a pull request.
func (d Deliver) Interval() time.Duration {
	if d.Every == 0 {
		return DefaultDeliverEvery
	}
	return d.Every
}

// harmless reports whether a team may set it without being trusted: nothing is pushed, and no other
// branch moves.
func (d Deliver) harmless() bool { return !d.Pushes() && d.Target == "" }

func (c *Config) checkDeliver(f *faults) {
	d, at := c.Deliver, setting("deliver")
	ways := []string{DeliverMerge, DeliverBranch, DeliverPush, DeliverRequest}
	f.add(checkWord(at.field("as"), d.As, "is not a way to deliver work", ways))
	f.add(checkWord(at.field("dependents"), d.Dependents, "is not what dependent tasks can do",
		[]string{DependentsWait, DependentsStack}))
	f.add(checkWord(at.field("forge"), d.Forge, "is not a program that opens pull requests",
		[]string{ForgeGitHub, ForgeGitLab, ForgeCommand}))
	f.add(checkBranch(at.field("target"), d.Target))
	f.add(checkRemote(at.field("remote"), d.Remote))
	f.add(checkProgram(at.field("command"), d.Command))
	f.add(checkTimeOrNone(at.field("every"), d.Every))
	f.add(checkNumber(at.field("train"), d.Train, signalbox.MaxTrain))
	f.add(checkTime(at.field("train_time"), d.TrainTime))
	switch {
	case (d.Forge == ForgeGitHub || d.Forge == ForgeGitLab) && len(d.Command) > 0:
		f.fail(at.field("forge"), "keep one of them", "%s is not valid together with command",
			d.Forge)
	case d.Forge == ForgeCommand && len(d.Command) == 0:
		f.fail(at.field("forge"),
			"add the program that opens pull requests, as in command: [open-request]",
			"needs command")
	}
	if d.Squash && d.Dependents == DependentsStack {
		// A file that a squashed commit added and the next one of the same task does not have would
		// count as one of the task on top.
		f.fail(at.field("dependents"), "remove one of the two",
			"stack is not valid together with squash")
	}
	for _, of := range []struct {
		name string
		set  bool
		with []string
	}{
		{"remote", d.Remote != "", []string{DeliverPush, DeliverRequest}},
		{"dependents", d.Dependents != "", []string{DeliverRequest}},
		{"forge", d.Forge != "", []string{DeliverRequest}},
		{"command", len(d.Command) > 0, []string{DeliverRequest}},
		{"every", d.Every != 0, []string{DeliverRequest}},
	} {
		if of.set && slices.Contains(ways, d.Way()) && !slices.Contains(of.with, d.Way()) {
			f.fail(at.field(of.name), fmt.Sprintf("add as: %s, or remove the line",
				of.with[len(of.with)-1]), "has no effect if work is delivered as %s", d.Way())
		}
	}
	if c.Workspace.Shared() && (d.Way() != DeliverMerge || d.Squash || d.Target != "") {
		f.fail(at, "remove one of the two",
			"has no effect with workspace: shared, because there are no branches")
	}
}

// checkWord reports a value that is not one of a few words. Empty is valid.
func checkWord(at settingPath, value, fault string, words []string) *settingError {
	if value == "" || slices.Contains(words, value) {
		return nil
	}
	return faultAt(at, "write "+list(words), "%q %s", value, fault)
}

// checkBranch reports what git does not accept as the name of a branch, and the branches of tasks.
// Empty is valid.
func checkBranch(at settingPath, name string) *settingError {
	const hint = "write the name of a branch, such as main"
	switch {
	case name == "":
	case signalbox.CheckBranch(name) != nil, strings.HasPrefix(name, "refs/"):
		return faultAt(at, hint, "%q is not the name of a branch", name)
	case strings.HasPrefix(name, "signalbox/"):
		return faultAt(at, hint, "%q is the branch of a task", name)
	}
	return nil
}

// checkRemote reports what is neither the name nor the address of a repository. Empty is valid.
func checkRemote(at settingPath, remote string) *settingError {
	const hint = "write the name of a remote, such as origin, or an address that begins with https:// or ssh://"
	switch {
	case hasSecret(remote):
		return faultAt(at, "do not write secrets here; use a credential helper of git",
			"has a user or a password")
	case strings.HasPrefix(remote, "-") ||
		strings.ContainsFunc(remote, func(r rune) bool { return r <= ' ' || r == 0x7f }):
		return faultAt(at, hint, "%q is not a remote repository", remote)
	case strings.Contains(remote, "::"): // such as ext::, which runs a command
		return faultAt(at, hint, "%q is not an address that signalbox pushes to", remote)
	}
	return nil
}

// hasSecret reports whether an address has a part that may be secret: a password, or for the web
// also a user, which may be a token.
func hasSecret(remote string) bool {
	scheme, rest, found := strings.Cut(remote, "://")
	if !found {
		return false
	}
	// not url.Parse, which fails at a password with odd characters
	host, _, _ := strings.Cut(rest, "/")
	end := strings.LastIndex(host, "@")
	return end >= 0 && (!strings.EqualFold(scheme, "ssh") || strings.Contains(host[:end], ":"))
}
