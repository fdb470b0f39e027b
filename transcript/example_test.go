package transcript_test

import (
	"fmt"
	"strings"

	"signalbox"
	"signalbox/transcript"
)

func ExampleSignals() {
	output := strings.NewReader(
		"Done.\n\n**READY_FOR_REVIEW: t1**\nREADY_FOR_REVIEW: t1\n\nFiles Modified:\n- auth.go\n")
	for sig, err := range transcript.Signals(output,
		&transcript.Options{Format: signalbox.FormatPlain}) {
		if err != nil {
			fmt.Println(err)
			return
		}
		if !sig.Taken() {
			fmt.Printf("line %d: not taken (%s)\n", sig.Line, sig.Refused)
			continue
		}
		fmt.Println(sig.Name, sig.TaskID, sig.Body["Files Modified"])
	}
	// Output:
	// line 3: not taken (near_miss)
	// ready_for_review t1 [auth.go]
}

func ExampleScanner() {
	scanner := transcript.NewScanner(&transcript.Options{Format: signalbox.FormatPlain})
	var turn []signalbox.Signal
	for _, piece := range []string{"AUDIT_PAS", "SED: t1\nWait, a test fails.\nAUDIT_FAIL",
		"ED: t1\n"} {
		turn = append(turn, scanner.Push([]byte(piece))...)
	}
	turn = append(turn, scanner.Close()...)

	said := transcript.Resolve(turn, signalbox.RoleAuditor, "t1")
	fmt.Println(said.Name, said.Handler)
	fmt.Println(turn[0].Name, turn[0].Refused)
	// Output:
	// audit_failed DISPATCH_DEVELOPER_REWORK
	// audit_passed superseded
}

func ExampleStrip() {
	fmt.Println(transcript.Strip(
		"The queue is full.\n\n<signal type=\"stuck\"><blocker>no access</blocker></signal>\n"))
	// Output: The queue is full.
}

func ExampleContentStream() {
	content := transcript.NewContentStream()
	for _, piece := range []string{"The queue", " is full.\n\n<sig",
		"nal type=\"stuck\"><blocker>no ", "access</blocker></signal>\n"} {
		fmt.Printf("%q\n", content.Push([]byte(piece)))
	}
	fmt.Printf("%q\n", content.Close())
	// Output:
	// "The queue"
	// " is full."
	// ""
	// ""
	// ""
}

func ExampleResolve() {
	signals := []signalbox.Signal{
		{Dialect: signalbox.DialectLine, Name: signalbox.NameReviewPassed, TaskID: "t1"},
		{Dialect: signalbox.DialectLine, Name: signalbox.NameReviewFailed, TaskID: "t1"},
	}
	said := transcript.Resolve(signals, signalbox.RoleCritic, "t1")
	fmt.Println(said.Name, signals[0].Refused)

	said = transcript.Resolve(nil, signalbox.RoleCritic, "t1")
	fmt.Println(said.Name, said.Handler)
	// Output:
	// review_failed superseded
	// unknown REQUEST_CLARIFICATION
}

func ExampleAuthorize() {
	sig := signalbox.Signal{Dialect: signalbox.DialectLine, Name: signalbox.NameAuditPassed,
		TaskID: "t1"}
	transcript.Authorize(&sig, signalbox.RoleDeveloper, "t1")
	fmt.Println(sig.Refused)
	fmt.Println(sig.Detail)
	// Output:
	// out_of_role
	// the role developer may not send AUDIT_PASSED
}

func ExampleScanner_Pending() {
	scanner := transcript.NewScanner(&transcript.Options{Format: signalbox.FormatPlain})
	fmt.Println(len(scanner.Push([]byte("CHECKPOINT: t1\n\nSummary: half"))))
	if sig, ok := scanner.Pending(); ok {
		fmt.Println(sig.Name, sig.TaskID)
	}
	// Output:
	// 0
	// checkpoint t1
}

func ExampleParseExit() {
	_, err := transcript.ParseExit(
		[]byte(`{"protocol":"apm2_agent_exit","version":"1.0.0","phase_completed":"REVIEWED","exit_reason":"completed"}`))
	fmt.Println(err)
	exit, err := transcript.ParseExit(
		[]byte(`{"protocol":"apm2_agent_exit","version":"1.0.0","phase_completed":"REVIEW","exit_reason":"completed"}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	next, _ := exit.NextPhase()
	fmt.Println(exit.PhaseCompleted, "→", next)
	// Output:
	// invalid JSON: unknown variant `REVIEWED`, expected one of `DRAFT`, `IMPLEMENTATION`, `CI_PENDING`, `READY_FOR_REVIEW`, `REVIEW`, `READY_FOR_MERGE`, `COMPLETED`, `BLOCKED` for `phase_completed` at line 1 column 67
	// REVIEW → READY_FOR_MERGE
}

func ExampleContent() {
	fmt.Println(transcript.Content(
		"The queue is full.\n<signal type=\"stuck\"><blocker>never closed"))
	// Output:
	// The queue is full.
	// [signal type="stuck"><blocker>never closed
}

func ExampleResolveSeed() {
	output := strings.NewReader("```\nREADY_FOR_REVIEW: t1\n```\n")
	said, err := transcript.ResolveSeed(output, &transcript.Options{Format: signalbox.FormatPlain})
	fmt.Println(said.Name, said.TaskID, err)
	// Output: ready_for_review t1 <nil>
}
