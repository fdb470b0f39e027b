package signalbox_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"signalbox"
	"signalbox/internal/testkit/must"
	"signalbox/internal/testkit/property"
)

func TestHashTextRoundTrip(t *testing.T) {
	property.Check(t, func(t *rapid.T) {
		var h, read signalbox.Hash
		copy(h[:], rapid.SliceOfN(rapid.Byte(), len(h), len(h)).Draw(t, "bytes"))
		text, err := h.MarshalText()
		if err != nil || string(text) != h.String() {
			t.Fatalf("MarshalText: %q, %v", text, err)
		}
		if err := read.UnmarshalText(text); err != nil || read != h {
			t.Fatalf("%s was read as %s, %v", text, read, err)
		}
	})
}

func TestHashTextIsStrict(t *testing.T) {
	good := strings.Repeat("0a", 32)
	for _, text := range []string{"", good[1:], good + "0", strings.ToUpper(good), good[:63] + "g",
		" " + good[1:], "sha256:" + good} {
		h := signalbox.Hash{1}
		if err := h.UnmarshalText([]byte(text)); err == nil || h != (signalbox.Hash{1}) {
			t.Errorf("%q: error %v, value %s; want an error and the old value", text, err, h)
		}
	}
}

func TestEventJSON(t *testing.T) {
	e := signalbox.Event{
		Seq: 7, Time: time.Date(2026, 1, 2, 3, 4, 5, 60, time.FixedZone("east", 3600)),
		Type: "PhaseChanged",
		Work: "t1", Session: "s1", Actor: "ann", Data: []byte(`{"a":"<&>"}`),
		Prev: signalbox.Hash{0xab}, Hash: signalbox.Hash{0xcd},
	}
	got, err := json.Marshal(e) // json.Marshal escapes <&> itself; MarshalJSON must not
	must.Succeed(t, err)
	own, err := e.MarshalJSON()
	must.Succeed(t, err)
	zeros := strings.Repeat("0", 62)
	want := `{"seq":7,"time":"2026-01-02T02:04:05.000000060Z","type":"PhaseChanged","work":"t1","session":"s1","actor":"ann",` +
		`"data":{"a":"<&>"},"prev":"ab` + zeros + `","hash":"cd` + zeros + `"}`
	if string(own) != want {
		t.Errorf("got  %s\nwant %s", own, want)
	}
	var fields map[string]any
	if err := json.Unmarshal(got, &fields); err != nil || len(fields) != 9 {
		t.Errorf("%d fields, %v", len(fields), err)
	}
	e.Data = []byte("{")
	if _, err := e.MarshalJSON(); err == nil {
		t.Error("data that is no JSON: no error")
	}
}
