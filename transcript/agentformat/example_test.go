package agentformat_test

import (
	"fmt"

	"signalbox/transcript/agentformat"
)

func ExampleParseActivity() {
	for _, line := range []string{
		`{"type":"item.started","item":{"id":"item_0","type":"command_execution","command":"go test ./..."}}`,
		`{"type":"assistant","message":{"content":[{"type":"tool_use","name":"Read","input":{"file_path":"auth.go"}}]}}`,
		`{"type":"message","role":"assistant","content":"All tests pass.","delta":true}`,
		`{"type":"user","message":{"content":[{"type":"tool_result","content":"12 files"}]}}`,
	} {
		activity, ok := agentformat.ParseActivity([]byte(line))
		fmt.Printf("%q %t\n", activity.Text, ok)
	}
	// Output:
	// "go test ./..." true
	// "Read auth.go" true
	// "All tests pass." true
	// "" true
}
