package oracle_test

import (
	"testing"

	"signalbox/internal/oracle"
)

// TestRequestOfTheTree checks that the oracle's llm_call sends what the tree put into llm_request,
// once, and nothing that the conversation has already.
func TestRequestOfTheTree(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ tree, first, last string }{
		"a script": {`BT.sequence({BT.script("ask", function(t) t:set("llm_request", "Be brief.") end), BT.llm_call("one", {}), BT.llm_call("two", {prompt = "And?"})})`,
			question + "|Be brief.", "And?"},
		"a prompt wins": {`BT.sequence({BT.script("ask", function(t) t:set("llm_request", "Be brief.") end), BT.llm_call("one", {prompt = "Hurry."}), BT.llm_call("two", {prompt = "And?"})})`,
			question + "|Hurry.", "And?"},
		"built": {`BT.sequence({BT.action("b", {fn = "build_llm_request"}), BT.llm_call("one", {}), BT.action("c", {fn = "x.build_llm_request", args = {prompt = "And?"}}), BT.llm_call("two", {})})`,
			question, "And?"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := speaks(said("One."), said("Two."))
			o := newOracle(t, oracle.Options{Model: m, File: "own.lua",
				Source: `return BT.tree("own", {root = ` + c.tree + `})`})
			asks(t, o, newSession(t), question, oracle.ReasonTreeEnded)
			if len(m.asked) != 2 {
				t.Fatalf("the model was asked %d times", len(m.asked))
			}
			first := ""
			for _, message := range m.asked[0].Messages {
				if first != "" {
					first += "|"
				}
				first += message.Text
			}
			all := m.asked[1].Messages
			if last := all[len(all)-1].Text; first != c.first || last != c.last {
				t.Errorf("the model was asked %q and then %q", first, last)
			}
		})
	}
}
