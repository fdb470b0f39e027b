package signalbox_test

import (
	"errors"
	"strings"
	"testing"

	"signalbox"
)

func validExit() *signalbox.ExitSignal {
	return &signalbox.ExitSignal{
		Protocol:       signalbox.ExitProtocol,
		Version:        "1.0.0",
		PhaseCompleted: signalbox.PhaseImplementation,
		ExitReason:     signalbox.ExitCompleted,
	}
}

// checkExit wants a signal to be valid when want is "", else to be refused with that text, about
// that field.
func checkExit(t *testing.T, s *signalbox.ExitSignal, field, want string) {
	t.Helper()
	err := s.Validate()
	if want == "" {
		if err != nil {
			t.Errorf("Validate: %v, want no error", err)
		}
		return
	}
	var refused *signalbox.ExitSignalError
	if !errors.As(err, &refused) {
		t.Errorf("Validate: %v, want an ExitSignalError: %s", err, want)
		return
	}
	if err.Error() != want || refused.Field != field {
		t.Errorf("Validate: field %q: %v\nwant   field %q: %s", refused.Field, err, field, want)
	}
}

func TestValidateProtocol(t *testing.T) {
	for got, want := range map[string]string{
		"apm2_agent_exit":    "",
		"wrong_protocol":     "unknown protocol: expected 'apm2_agent_exit', got 'wrong_protocol'",
		"":                   "unknown protocol: expected 'apm2_agent_exit', got ''",
		"APM2_AGENT_EXIT":    "unknown protocol: expected 'apm2_agent_exit', got 'APM2_AGENT_EXIT'",
		"a\nb\x1b[31m\u202e": `unknown protocol: expected 'apm2_agent_exit', got 'a\nb\x1b[31m\u202e'`,
		strings.Repeat("x", 64): "unknown protocol: expected 'apm2_agent_exit', got '" +
			strings.Repeat("x", 64) + "'",
		strings.Repeat("x", 65): "unknown protocol: expected 'apm2_agent_exit', got '" +
			strings.Repeat("x", 64) + "…'",
		strings.Repeat("ü€", 40): "unknown protocol: expected 'apm2_agent_exit', got '" +
			strings.Repeat("ü€", 12) + "ü…'",
	} {
		s := validExit()
		s.Protocol = got
		checkExit(t, s, "protocol", want)
	}
}

func TestValidateVersion(t *testing.T) {
	for _, version := range []string{"1.0.0", "1.1.0", "1.10.200", "1.0.10"} {
		s := validExit()
		s.Version = version
		checkExit(t, s, "", "")
	}
	for _, version := range []string{"2.0.0", "", "1", "1.", "1.0", "1.0.", "1..0", "1.0.0.0",
		"1.0.0-rc1", "1.x.0",
		"10.0.0", "01.0.0", "1.01.0", "1.0.00", "1.00.0", " 1.0.0", "1.0.0\u00a0", "v1.0.0",
		"1.-1.0", "1.+1.0", "1.٣.0", "1.0.x1"} {
		s := validExit()
		s.Version = version
		shown := strings.ReplaceAll(version, "\u00a0", `\u00a0`)
		checkExit(t, s, "version", "unsupported version: expected '1.x', got '"+shown+"'")
	}
}

// The range that a document shows is not a version.
func TestExitVersionIsARange(t *testing.T) {
	for _, version := range []string{"1.x", "1.X"} {
		s := validExit()
		s.Version = version
		checkExit(t, s, "version", "unsupported version: expected numbers, such as '1.0.0', got '"+
			version+"'")
	}
}

func TestNewExit(t *testing.T) {
	s := signalbox.NewExit(signalbox.PhaseReview, signalbox.ExitBlocked)
	notes := "no access"
	s.Notes = &notes
	if err := s.Validate(); err != nil {
		t.Error(err)
	}
	if next, ok := s.NextPhase(); !ok || next != signalbox.PhaseBlocked ||
		s.PhaseCompleted != signalbox.PhaseReview {
		t.Errorf("signal %+v leads to %s", s, next)
	}
}

func TestValidatePullRequest(t *testing.T) {
	const noScheme = "invalid pr_url: must start with 'https://'"
	const noHost = "invalid pr_url: must name a host after 'https://'"
	const control = "invalid pr_url: must not contain control characters"
	long := "https://github.com/" + strings.Repeat("x", 2048-len("https://github.com/"))
	for address, want := range map[string]string{
		"https://github.com/org/repo/pull/123": "",
		"https://github.com":                   "",
		"https://host:8443/a?b=c#d":            "",
		"https://[::1]:8443/a":                 "",
		"https://bücher.example/pull/1":        "",
		"https://h/100%":                       "",
		"https://h/über":                       "",
		"https://h#100%":                       "",
		long:                                   "",
		long + "x":                             "invalid pr_url: 2049 bytes, limit 2048",
		long + "xxxxxxx;":                      "invalid pr_url: 2056 bytes, limit 2048",
		"":                                     noScheme,
		"http://github.com/org/repo/pull/1":    noScheme,
		"HTTPS://github.com/org/repo/pull/1":   noScheme,
		" https://github.com":                  noScheme,
		"javascript:alert(1)":                  noScheme,
		"https://":                             noHost,
		"https:///org/repo":                    noHost,
		"https://?a":                           noHost,
		"https://#a":                           noHost,
		"https://:443/a":                       noHost,
		"https://user@/a":                      noHost,
		"https:// /a":                          noHost,
		"https://evil.example\\@github.com/a":  noHost,
		"https://h/a;rm":                       "invalid pr_url: must not contain ';'",
		"https://h/a|b":                        "invalid pr_url: must not contain '|'",
		"https://h/`id`":                       "invalid pr_url: must not contain '`'",
		"https://h/$HOME":                      "invalid pr_url: must not contain '$'",
		"https://h/a\nb":                       control,
		"https://h/a\x00":                      control,
		"https://h?a\x00":                      control,
		"https://h#a\x00":                      control,
		"https://h/a\x7f":                      control,
		"https://h/a\u0085b":                   control,
	} {
		s := validExit()
		s.PRURL = &address
		checkExit(t, s, "pr_url", want)
	}
}

func TestValidateEvidence(t *testing.T) {
	const absolute = "invalid evidence_bundle_ref: must be a relative path"
	const parent = "invalid evidence_bundle_ref: must not contain a '..' element"
	const control = "invalid evidence_bundle_ref: must not contain control characters"
	long := strings.Repeat("x", 2048)
	for ref, want := range map[string]string{
		"evidence/work/W-00042/phase_implementation.yaml": "",
		"a":            "",
		"a..b/..c/d..": "",
		"./a":          "",
		"a b/ü; |$`":   "",
		"ab:c":         "",
		"1:c":          "",
		"{:c":          "",
		long:           "",
		long + "x":     "invalid evidence_bundle_ref: 2049 bytes, limit 2048",
		"":             "invalid evidence_bundle_ref: must not be empty",
		"/etc/passwd":  absolute,
		"//host/share": absolute,
		"C:/a":         absolute,
		"c:a":          absolute,
		"z:":           absolute,
		"..":           parent,
		"../a":         parent,
		"a/..":         parent,
		"a/../b":       parent,
		`a\b`:          `invalid evidence_bundle_ref: must not contain '\'`,
		`..\a`:         `invalid evidence_bundle_ref: must not contain '\'`,
		`\\host\share`: `invalid evidence_bundle_ref: must not contain '\'`,
		"a\tb":         control,
		"a\x00":        control,
		"a\u009f":      control,
	} {
		s := validExit()
		s.EvidenceBundleRef = &ref
		checkExit(t, s, "evidence_bundle_ref", want)
	}
}

func TestValidateNotes(t *testing.T) {
	long := strings.Repeat("x", 10240)
	for notes, want := range map[string]string{
		"":                        "",
		"a\n\x00; $(b)":           "",
		long:                      "",
		long + "x":                "invalid notes: 10241 bytes, limit 10240",
		strings.Repeat("€", 3414): "invalid notes: 10242 bytes, limit 10240",
	} {
		s := validExit()
		s.Notes = &notes
		checkExit(t, s, "notes", want)
	}
}

func TestValidateEnums(t *testing.T) {
	s := validExit()
	s.PhaseCompleted = "DONE"
	checkExit(t, s, "phase_completed", "invalid phase_completed: no phase is named 'DONE'")
	s = validExit()
	s.ExitReason = ""
	checkExit(t, s, "exit_reason", "invalid exit_reason: no reason is named ''")
}

// Everything is wrong; mending the first fault must show the next.
func TestValidateOrder(t *testing.T) {
	wrong, long := "\\..", strings.Repeat("x", 10241)
	s := &signalbox.ExitSignal{PRURL: &wrong, EvidenceBundleRef: &wrong, Notes: &long}
	good := "https://h/x"
	path := "x"
	for _, step := range []struct {
		field string
		mend  func()
	}{
		{"protocol", func() { s.Protocol = signalbox.ExitProtocol }},
		{"version", func() { s.Version = "1.0.0" }},
		{"pr_url", func() { s.PRURL = &good }},
		{"evidence_bundle_ref", func() { s.EvidenceBundleRef = &path }},
		{"notes", func() { s.Notes = nil }},
		{"phase_completed", func() { s.PhaseCompleted = signalbox.PhaseReview }},
		{"exit_reason", func() { s.ExitReason = signalbox.ExitError }},
	} {
		var refused *signalbox.ExitSignalError
		if err := s.Validate(); !errors.As(err, &refused) || refused.Field != step.field {
			t.Fatalf("Validate: %v, want an error about %s", err, step.field)
		}
		step.mend()
	}
	checkExit(t, s, "", "")
}
