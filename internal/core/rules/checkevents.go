package rules

import (
	"strings"

	"signalbox"
)

// The types of events about checks, and about work that goes back because of them or of a verdict.
const (
	TypeChecksRan        = "ChecksRan"
	TypeSetupRan         = "SetupRan"
	TypeBaselineAccepted = "BaselineAccepted"
	TypeReworkOrdered    = "ReworkOrdered"
)

// ChecksRan records the matrix of checks and environments on a commit.
type ChecksRan struct {
	Epoch  uint64     `json:"epoch"`
	Commit string     `json:"commit,omitempty"`
	Rows   []CheckRow `json:"rows"`
	// Differs is the list of checks for which the agent reported another result.
	Differs []string `json:"differs,omitempty"`
	// Protected is the list of protected files that the agent edited.
	Protected []string `json:"protected,omitempty"`
	// Base is the commit of the base at that time. The work is what Commit changes relative to it.
	Base string `json:"base,omitempty"`
	// Unchanged is true if the work changes nothing.
	Unchanged bool `json:"unchanged,omitempty"`
	// Ref is the branch, tag or commit that work opened by hand names. Commit is the commit that it was.
	Ref string `json:"ref,omitempty"`
	// OnBase is true if work opened by hand names no branch, tag or commit. Commit is the head of the base then.
	OnBase bool `json:"on_base,omitempty"`
	// Problem is the reason why no checks could run on work opened by hand, absent if they ran.
	Problem string `json:"problem,omitempty"`
	// Large is the list of files that the work adds and that are larger than allowed, with their sizes.
	Large []string `json:"large,omitempty"`
	// Steering is the list of files with which the work changes what steers agents: their settings, hooks and instructions.
	Steering []string `json:"steering,omitempty"`
}

func (ChecksRan) eventType() string { return TypeChecksRan }

// CheckRow is one check in one environment.
type CheckRow struct {
	Check       string         `json:"check"`
	Environment string         `json:"environment"`
	Exit        int            `json:"exit"`
	Passed      bool           `json:"passed"`
	Millis      int64          `json:"ms"`
	Output      signalbox.Hash `json:"output,omitzero"`
	Sandbox     Sandbox        `json:"sandbox,omitzero"`
	// Cause is why the check failed on the base, if it is something that no commit repairs, such as a program that is not installed.
	Cause string `json:"cause,omitempty"`
}

// Name returns the check and the environment, as check|environment.
func (r CheckRow) Name() string { return r.Check + "|" + r.Environment }

// ChecksInWords returns names of checks, as check|environment, for people: "unit tests on linux".
func ChecksInWords(names []string) []string {
	words := make([]string, len(names))
	for i, name := range names {
		words[i] = name
		if at := strings.LastIndex(name, "|"); at >= 0 {
			words[i] = name[:at] + " on " + name[at+1:]
		}
	}
	return words
}

// SetupRan records that a command ran that makes a worktree ready to work in, or that something else that a worktree needs failed.
type SetupRan struct {
	Epoch uint64 `json:"epoch"`
	// Command is the name of the command.
	Command string `json:"command"`
	// Commit is the commit of the worktree.
	Commit   string         `json:"commit,omitempty"`
	Exit     int            `json:"exit"`
	Passed   bool           `json:"passed"`
	TimedOut bool           `json:"timed_out,omitempty"`
	Millis   int64          `json:"ms"`
	Output   signalbox.Hash `json:"output,omitzero"`
	Sandbox  Sandbox        `json:"sandbox,omitzero"`
	// Restored is the list of tracked files that the command changed and that were put back.
	Restored []string `json:"restored,omitempty"`
	// OfTask is true if it failed because of what the task changed: it passes on the base.
	OfTask bool `json:"of_task,omitempty"`
}

func (SetupRan) eventType() string { return TypeSetupRan }

// BaselineAccepted records that the human accepts the checks that fail on the base. They do not stop tasks, as long as the base is this
// commit or what signalbox merged into it.
type BaselineAccepted struct {
	// Commit is the commit of the base, absent in a shared workspace.
	Commit string `json:"commit,omitempty"`
	// Failing is the list of checks that may fail, as check|environment.
	Failing []string `json:"failing"`
}

func (BaselineAccepted) eventType() string { return TypeBaselineAccepted }

// ReworkOrdered sends work back with what must be fixed. Cause is review, audit, checks, merge, unchanged, file size, plan, human or pull request.
type ReworkOrdered struct {
	Cause   string         `json:"cause"`
	Count   int            `json:"count"`
	Summary string         `json:"summary,omitempty"`
	Body    signalbox.Hash `json:"body,omitzero"`
	// Commit is the commit whose merge the human rejected.
	Commit string `json:"commit,omitempty"`
	// Seen is the list of ids of what came back about a pull request.
	Seen []string `json:"seen,omitempty"`
}

func (ReworkOrdered) eventType() string { return TypeReworkOrdered }

// The causes of rework.
const (
	ReworkReview = "review"
	ReworkAudit  = "audit"
	ReworkChecks = "checks"
	ReworkMerge  = "merge"
	ReworkPlan   = "plan"
	// ReworkUnchanged means that the branch changes nothing.
	ReworkUnchanged = "unchanged"
	// ReworkFileSize means that the work adds large files.
	ReworkFileSize = "file size"
	// ReworkRequest means that a check of the pull request failed, or that somebody commented on it.
	ReworkRequest = "pull request"
)
