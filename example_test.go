package signalbox_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"signalbox"
)

// Lists the signals that a role may send.
func ExampleRole_MaySend() {
	for _, line := range signalbox.LineSignals() {
		if signalbox.RoleCritic.MaySend(line.Name) && !line.Urgent {
			fmt.Println(line.Text, "→", line.Handler)
		}
	}
	// Output:
	// REVIEW_PASSED → DISPATCH_AUDITOR
	// REVIEW_FAILED → DISPATCH_DEVELOPER_REWORK
	// SEEKING_DIVINE_CLARIFICATION → AWAIT_DIVINE_RESPONSE
}

// Decodes and validates the exit signal of an agent.
func ExampleExitSignal_Validate() {
	var exit signalbox.ExitSignal
	err := json.Unmarshal([]byte(`{"protocol": "apm2_agent_exit", "version": "1.0.0",
		"phase_completed": "IMPLEMENTATION", "exit_reason": "completed", "pr_url": "http://example.org/pull/7"}`), &exit)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(exit.Validate())
	*exit.PRURL = "https://example.org/pull/7"
	fmt.Println(exit.Validate())
	next, _ := exit.NextPhase()
	fmt.Println("next phase:", next)
	// Output:
	// invalid pr_url: must start with 'https://'
	// <nil>
	// next phase: CI_PENDING
}

// Reads the output of `signalbox scan --json`, one signal per line.
func ExampleSignal() {
	output := `{"dialect":"line","signal":"review_failed","handler":"DISPATCH_DEVELOPER_REWORK","task_id":"task-1","title":null,"body":{"FINDINGS":["no tests"]},"exit":null,"confidence":null,"fields":null,"raw":"REVIEW_FAILED: task-1","offset":0,"line":1,"refused":null,"detail":null}`
	for line := range strings.Lines(output) {
		var signal signalbox.Signal
		if err := json.Unmarshal([]byte(line), &signal); err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(signal.Taken(), signal.Name == signalbox.NameReviewFailed, signal.TaskID,
			signal.Body["FINDINGS"])
	}
	// Output:
	// true true task-1 [no tests]
}

// Shows an error together with its hint.
func ExampleError() {
	err := fmt.Errorf("claim task-1: %w", &signalbox.Error{
		Code: signalbox.CodeConflict, Err: errors.New("another session holds the lease"),
		Hint: "wait until it expires",
	})
	fmt.Println(err)
	if classified, ok := errors.AsType[*signalbox.Error](err); ok {
		fmt.Println("hint:", classified.Hint)
	}
	// Output:
	// claim task-1: another session holds the lease
	// hint: wait until it expires
}
