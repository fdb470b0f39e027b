package transcript_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"signalbox"
	"signalbox/internal/testkit/must"
	"signalbox/transcript"
)

const (
	exitFieldList  = "`protocol`, `version`, `phase_completed`, `exit_reason`, `pr_url`, `evidence_bundle_ref`, `notes`"
	exitPhaseList  = "`DRAFT`, `IMPLEMENTATION`, `CI_PENDING`, `READY_FOR_REVIEW`, `REVIEW`, `READY_FOR_MERGE`, `COMPLETED`, `BLOCKED`"
	exitReasonList = "`completed`, `blocked`, `error`"

	exitHead = `{"protocol":"apm2_agent_exit","version":"1.0.0","phase_completed":"REVIEW","exit_reason":"completed"`
)

var invalidExits = []struct{ name, data, want string }{
	{"nothing", "", "EOF while parsing a value at line 1 column 1"},
	{"white space", " \t\r\n ", "EOF while parsing a value at line 2 column 2"},
	{"byte order mark", "\ufeff{}", "expected value at line 1 column 1"},
	{"list", `[{}]`, "invalid type: sequence, expected an exit signal object at line 1 column 1"},
	{"deep list", strings.Repeat("[", 65536),
		"invalid type: sequence, expected an exit signal object at line 1 column 1"},
	{"string", `"x"`, "invalid type: string, expected an exit signal object at line 1 column 1"},
	{"number", "\n 12", "invalid type: integer `12`, expected an exit signal object at line 2 column 2"},
	{"null", `null`, "invalid type: null, expected an exit signal object at line 1 column 1"},
	{"word", `nope`, "expected value at line 1 column 1"},

	{"open", `{`, "EOF while parsing an object at line 1 column 2"},
	{"empty", `{}`, "missing field `protocol` at line 1 column 2"},
	{"only comma", `{,}`, "expected `\"` at line 1 column 2"},
	{"key without quotes", `{version:1}`, "expected `\"` at line 1 column 2"},
	{"key in single quotes", `{'version':1}`, "expected `\"` at line 1 column 2"},
	{"key not closed", `{"vers`, "EOF while parsing a string at line 1 column 7"},
	{"key only", `{"version"`, "EOF while parsing an object at line 1 column 11"},
	{"no colon", `{"version" "1.0.0"}`, "expected `:` at line 1 column 12"},
	{"no value", `{"version":`, "EOF while parsing a value at line 1 column 12"},
	{"no optional value", `{"notes": `, "EOF while parsing a value at line 1 column 11"},
	{"empty value", `{"version":}`, "expected value at line 1 column 12"},
	{"value not closed", `{"version":"1.0`, "EOF while parsing a string at line 1 column 16"},
	{"no comma", `{"version":"1.0.0" "notes":""}`, "expected `,` or `}` at line 1 column 20"},
	{"not closed", `{"version":"1.0.0"`, "EOF while parsing an object at line 1 column 19"},
	{"ends after comma", `{"version":"1.0.0",`, "EOF while parsing an object at line 1 column 20"},
	{"trailing comma", exitHead + ",\n}", "trailing comma at line 2 column 1"},
	{"two commas", exitHead + `,,"notes":""}`, "expected `\"` at line 1 column 102"},
	{"trailing text", exitHead + "}\n\n x", "trailing characters at line 3 column 2"},
	{"two signals", exitHead + "}\n" + exitHead + "}", "trailing characters at line 2 column 1"},
	{"comment", "{ // why\n}", "expected `\"` at line 1 column 3"},
	{"vertical tab", "{\v}", "expected `\"` at line 1 column 2"},

	{"unknown field", exitHead + ",\n  \"foo\": [[[[", "unknown field `foo`, expected one of " +
		exitFieldList + " at line 2 column 3"},
	{"other case", `{"Protocol":"apm2_agent_exit"}`, "unknown field `Protocol`, expected one of " +
		exitFieldList + " at line 1 column 2"},
	{"empty key", `{"":1}`, "unknown field ``, expected one of " + exitFieldList +
		" at line 1 column 2"},
	{"long key", `{"` + strings.Repeat("k", 6000) + `":1}`,
		"unknown field `" + strings.Repeat("k", 64) + "…`, expected one of " + exitFieldList +
			" at line 1 column 2"},
	{"hostile key", `{"a\u001b\n":1}`, `unknown field ` + "`a\\x1b\\n`" + `, expected one of ` +
		exitFieldList + " at line 1 column 2"},
	{"duplicate", exitHead + `,"version":"2.0.0"}`,
		"duplicate field `version` at line 1 column 102"},
	{"duplicate in disguise", exitHead + `,"v\u0065rsion":"1.0.0"}`,
		"duplicate field `version` at line 1 column 102"},
	{"duplicate null", `{"notes":null,"notes":null}`,
		"duplicate field `notes` at line 1 column 15"},

	{"no protocol", `{"version":"1.0.0","phase_completed":"REVIEW","exit_reason":"completed"}`,
		"missing field `protocol` at line 1 column 72"},
	{"no version", `{"protocol":"apm2_agent_exit"}`, "missing field `version` at line 1 column 30"},
	{"no phase", `{"protocol":"apm2_agent_exit","version":"1.0.0","exit_reason":"error"}`,
		"missing field `phase_completed` at line 1 column 70"},
	{"no reason", `{"protocol":"apm2_agent_exit","version":"1.0.0","phase_completed":"REVIEW"}`,
		"missing field `exit_reason` at line 1 column 75"},

	{"unknown phase", `{"phase_completed": "DONE"}`, "unknown variant `DONE`, expected one of " +
		exitPhaseList + " for `phase_completed` at line 1 column 21"},
	{"lower case phase", `{"phase_completed":"review"}`,
		"unknown variant `review`, expected one of " + exitPhaseList +
			" for `phase_completed` at line 1 column 20"},
	{"unknown reason", "{\"exit_reason\":\n\"COMPLETED\"}",
		"unknown variant `COMPLETED`, expected one of " + exitReasonList +
			" for `exit_reason` at line 2 column 1"},
	{"empty reason", `{"exit_reason":""}`, "unknown variant ``, expected one of " + exitReasonList +
		" for `exit_reason` at line 1 column 16"},

	{"integer", `{"version":1}`,
		"invalid type: integer `1`, expected a string for `version` at line 1 column 12"},
	{"negative", `{"version":-10 }`,
		"invalid type: integer `-10`, expected a string for `version` at line 1 column 12"},
	{"fraction", `{"version":1.0}`,
		"invalid type: floating point `1.0`, expected a string for `version` at line 1 column 12"},
	{"exponent", `{"notes":1e5}`,
		"invalid type: floating point `1e5`, expected a string for `notes` at line 1 column 10"},
	{"long number", `{"notes":` + strings.Repeat("7", 9000) + `}`,
		"invalid type: integer `" + strings.Repeat("7", 64) +
			"…`, expected a string for `notes` at line 1 column 10"},
	{"three-part number", `{"version":1.0.0}`, "invalid number at line 1 column 12"},
	{"true", `{"version":true}`,
		"invalid type: boolean `true`, expected a string for `version` at line 1 column 12"},
	{"false", `{"notes":false}`,
		"invalid type: boolean `false`, expected a string for `notes` at line 1 column 10"},
	{"required null", `{"protocol":null}`,
		"invalid type: null, expected a string for `protocol` at line 1 column 13"},
	{"enum null", `{"exit_reason":null}`,
		"invalid type: null, expected a string for `exit_reason` at line 1 column 16"},
	{"object", `{"notes":{}}`,
		"invalid type: map, expected a string for `notes` at line 1 column 10"},
	{"deep objects", `{"notes":` + strings.Repeat(`{"a":`, 13000),
		"invalid type: map, expected a string for `notes` at line 1 column 10"},
	{"half null", `{"notes":nul}`, "expected value at line 1 column 10"},
	{"more than null", `{"notes":nullify}`, "expected `,` or `}` at line 1 column 14"},

	{"escape", `{"notes":"\x41"}`, "invalid escape at line 1 column 12"},
	{"short hex", `{"notes":"\u12"}`, "invalid escape at line 1 column 15"},
	{"bad hex", `{"notes":"\u00g0"}`, "invalid escape at line 1 column 15"},
	{"escape cut off", `{"notes":"\`, "EOF while parsing a string at line 1 column 12"},
	{"hex cut off", `{"notes":"\u00`, "EOF while parsing a string at line 1 column 15"},
	{"escaped quote", `{"notes":"\"}`, "EOF while parsing a string at line 1 column 14"},
	{"leading surrogate", `{"notes":"a\ud83d"}`,
		"lone leading surrogate in hex escape at line 1 column 12"},
	{"two leading surrogates", `{"notes":"\ud83d\ud83d\ude00"}`,
		"lone leading surrogate in hex escape at line 1 column 11"},
	{"leading surrogate and escape", `{"notes":"\ud83d\n"}`,
		"lone leading surrogate in hex escape at line 1 column 11"},
	{"pair with bad hex", `{"notes":"\ud83d\uzzzz"}`, "invalid escape at line 1 column 19"},
	{"trailing surrogate", `{"notes":"\uDE00"}`,
		"lone trailing surrogate in hex escape at line 1 column 11"},
	{"raw line end", "{\"notes\":\"a\nb\"}",
		`control character (\u0000-\u001F) found while parsing a string at line 1 column 12`},
	{"raw NUL", "{\"notes\":\"\x00\"}",
		`control character (\u0000-\u001F) found while parsing a string at line 1 column 11`},
	{"raw unit separator", "{\"notes\":\"\x1f\"}",
		`control character (\u0000-\u001F) found while parsing a string at line 1 column 11`},
	{"Latin-1", "{\"notes\":\"ü\xfc\"}", "invalid unicode code point at line 1 column 13"},
	{"overlong", "{\"notes\":\"\xc0\xaf\"}", "invalid unicode code point at line 1 column 11"},
	{"raw surrogate", "{\"notes\":\"\xed\xa0\x80\"}",
		"invalid unicode code point at line 1 column 11"},
	{"rune cut off", "{\"notes\":\"\xe2\x82", "invalid unicode code point at line 1 column 11"},
	{"invalid byte outside strings", "{\xff}", "expected `\"` at line 1 column 2"},
	{"columns are bytes", `{"notes":"€€", x}`, "expected `\"` at line 1 column 20"},
}

func TestParseExitInvalidJSON(t *testing.T) {
	for _, c := range invalidExits {
		t.Run(c.name, func(t *testing.T) {
			got, err := transcript.ParseExit([]byte(c.data))
			if got != nil || err == nil {
				t.Fatalf("%v, %v; want an error", got, err)
			}
			if want := "invalid JSON: " + c.want; err.Error() != want {
				t.Errorf("%v\nwant %s", err, want)
			}
		})
	}
}

func TestParseExitStrings(t *testing.T) {
	for written, want := range map[string]string{
		``:                             "",
		`plain`:                        "plain",
		`ü€😀 \u00fc\u20AC\ud83d\uDE00`: "ü€😀 ü€😀",
		`\"\\\/\b\f\n\r\t`:             "\"\\/\b\f\n\r\t",
		`\u0000\u001f` + "\x7f":        "\x00\x1f\x7f",
		`a\nb\nc`:                      "a\nb\nc",
		`\ufffd` + "\ufffd":            "\ufffd\ufffd",
		`\uffff`:                       "\uffff",
		`{}],:`:                        "{}],:",
	} {
		got, err := transcript.ParseExit([]byte(exitHead + `,"notes":"` + written + `"}`))
		if err != nil {
			t.Errorf("%s: %v", written, err)
		} else if diff := cmp.Diff(&want, got.Notes); diff != "" {
			t.Errorf("%s (-want +got):\n%s", written, diff)
		}
	}
}

func TestParseExitNulls(t *testing.T) {
	got, err := transcript.ParseExit([]byte(exitHead +
		` , "pr_url" : null , "evidence_bundle_ref":null,"notes":null}` + "\r\n"))
	must.Succeed(t, err)
	if got.PRURL != nil || got.EvidenceBundleRef != nil || got.Notes != nil {
		t.Errorf("optional fields %v %v %v, want nil", got.PRURL, got.EvidenceBundleRef, got.Notes)
	}
}

func TestParseExitEscapedKeysAndVariants(t *testing.T) {
	data := strings.NewReplacer("protocol", `\u0070rotocol`, "REVIEW",
		`\u0052EVIEW`).Replace(exitHead) + "}"
	got, err := transcript.ParseExit([]byte(data))
	must.Succeed(t, err)
	if got.PhaseCompleted != signalbox.PhaseReview {
		t.Errorf("phase %q, want REVIEW", got.PhaseCompleted)
	}
}

func TestParseExitErrorNamesField(t *testing.T) {
	for data, want := range map[string]string{
		`{"version":1}`:                          "version",
		`{"version":"1.0.0","version":""}`:       "version",
		`{"exit_reason":"done"}`:                 "exit_reason",
		`{"notes":"\x"}`:                         "notes",
		`{"protocol":"x"}`:                       "version",
		`{"protocol":"apm2_agent_exit","foo":1}`: "",
		`[]`:                                     "",
	} {
		_, err := transcript.ParseExit([]byte(data))
		var refused *signalbox.ExitSignalError
		if !errors.As(err, &refused) || refused.Field != want {
			t.Errorf("%s: %#v, want an error about %q", data, err, want)
		}
	}
}

// Only the signal and its strings are allocated.
func TestParseExitAllocations(t *testing.T) {
	data := []byte(seedExits[0].json)
	const limit = 10
	if got := testing.AllocsPerRun(100, func() { transcript.ParseExit(data) }); got > limit {
		t.Errorf("%v allocations, want at most %d", got, limit)
	}
}

func BenchmarkParseExit(b *testing.B) {
	long := exitHead + `,"notes":"` + strings.Repeat(`\n`, 10240) + `"}`
	for name, data := range map[string]string{"seed": seedExits[0].json, "escapes": long} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(data)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := transcript.ParseExit([]byte(data)); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
