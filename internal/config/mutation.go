package config

import "slices"

// Kinds of checks.
const (
	// KindCommand is a check whose command must succeed.
	KindCommand = "command"
	// KindMutation is a check whose command must fail when a line that a task changed is broken.
	KindMutation = "mutation"
)

// Values of Check.FailsOnBase.
const (
	FailsOnBaseNote  = "note"
	FailsOnBaseBlock = "block"
	FailsOnBaseOff   = "off"
)

const (
	// DefaultMutants is how many mutants are tried by default.
	DefaultMutants = 20
	maxMutants     = 1000
	maxParallel    = 64
)

// IsMutation reports whether the check breaks the code.
func (c *Check) IsMutation() bool { return c.Kind == KindMutation }

// IsTest reports whether a pattern of the check says that a path is part of the tests.
func (c *Check) IsTest(name string) bool { return anyPattern(c.Tests, name, within) }

// OnlyCommands returns the checks that are not KindMutation.
func (c *Config) OnlyCommands() []Check {
	return slices.DeleteFunc(slices.Clone(c.Checks), func(check Check) bool { return check.IsMutation() })
}

func (c *Check) fillMutation(at settingPath, set places) {
	if c.IsMutation() {
		setUnless(set, at.field("mutants"), &c.Mutants, DefaultMutants)
		setUnless(set, at.field("fails_on_base"), &c.FailsOnBase, FailsOnBaseNote)
	}
}

// checkMutation checks the kind of a check and the settings of one kind.
func (c *Config) checkMutation(at settingPath, check Check, f *faults) {
	if !slices.Contains([]string{"", KindCommand, KindMutation}, check.Kind) {
		f.fail(at.field("kind"), suggest(check.Kind, []string{KindCommand, KindMutation}, "use one of"),
			"there is no kind of check %q", check.Kind)
		return
	}
	if !check.IsMutation() {
		for _, setting := range []struct {
			name string
			set  bool
		}{{"build", check.Build != ""}, {"mutants", check.Mutants != 0},
			{"max_survivors", check.MaxSurvivors != 0}, {"parallel", check.Parallel != 0},
			{"tests", len(check.Tests) > 0}, {"fails_on_base", check.FailsOnBase != ""}} {
			if setting.set {
				f.fail(at.field(setting.name), "add kind: mutation, or remove it",
					"only a check of the kind mutation has it")
			}
		}
		return
	}
	if c.Workspace.Kind == WorkspaceShared {
		f.fail(at.field("kind"), "use workspace: worktree, or remove the check",
			"in a shared workspace nobody knows what a task changed")
	}
	for _, number := range []struct {
		name       string
		value, max int
	}{{"mutants", check.Mutants, maxMutants}, {"max_survivors", check.MaxSurvivors, maxMutants},
		{"parallel", check.Parallel, maxParallel}} {
		if number.value < 0 || number.value > number.max {
			f.fail(at.field(number.name), "write a smaller number, from 0", "%d is not from 0 to %d",
				number.value, number.max)
		}
	}
	for i, pattern := range check.Tests {
		if fault, hint := checkPattern(pattern); fault != "" {
			f.fail(at.field("tests").item(i), hint, "%s", fault)
		}
	}
	choices := []string{FailsOnBaseNote, FailsOnBaseBlock, FailsOnBaseOff}
	if !slices.Contains(choices, check.FailsOnBase) {
		f.fail(at.field("fails_on_base"), suggest(check.FailsOnBase, choices, "use one of"),
			"%q is not known", check.FailsOnBase)
	}
}
