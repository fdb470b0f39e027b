package ledger

import (
	"encoding/json"
	"testing"

	"pgregory.net/rapid"

	"signalbox"
	"signalbox/internal/testkit/must"
	"signalbox/internal/testkit/property"
)

// The hash of an event can be computed again from its JSON, whatever form its data has.
func TestHashFromJSON(t *testing.T) {
	property.Check(t, func(t *rapid.T) {
		e := drawEvent(t)
		e.Data = []byte(rapid.SampledFrom([]string{`{}`, `{"a":"<b> & c"}`, `{"a":"\u003cb\u003e"}`,
			"{ \"a\" :\t1 }\n", `{"a":"\\u003c"}`, "{\"a\":\"\u2028\"}"}).Draw(t, "data"))
		if Validate(&e) != nil {
			t.Skip()
		}
		e.Hash = Sum(&e)
		text, err := json.Marshal(e)
		must.Succeed(t, err)
		var decoded signalbox.Event
		must.Succeed(t, json.Unmarshal(text, &decoded))
		if got := Sum(&decoded); got != e.Hash || decoded.Hash != e.Hash {
			t.Fatalf("hash %s, want %s, from %s", got, e.Hash, text)
		}
	})
}
