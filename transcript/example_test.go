package transcript_test

import (
	"fmt"
	"strings"

	"signalbox"
	"signalbox/transcript"
)

func ExampleSignals() {
	output := strings.NewReader("Done.\n\n**READY_FOR_REVIEW: t1**\nREADY_FOR_REVIEW: t1\n\nFiles Modified:\n- auth.go\n")
	for sig, err := range transcript.Signals(output, &transcript.Options{Format: signalbox.FormatPlain}) {
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
	for _, piece := range []string{"AUDIT_PAS", "SED: t1\nWait, a test fails.\nAUDIT_FAIL", "ED: t1\n"} {
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
	fmt.Println(transcript.Strip("The queue is full.\n\n<signal type=\"stuck\"><blocker>no access</blocker></signal>\n"))
	// Output: The queue is full.
}

func ExampleContentStream() {
	content := transcript.NewContentStream()
	for _, piece := range []string{"The queue", " is full.\n\n<sig", "nal type=\"stuck\"><blocker>no ", "access</blocker></signal>\n"} {
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
