package agent

import (
	"regexp"
	"strconv"

	"signalbox/internal/lazy"

	"signalbox"
)

// Trouble is why an agent program could not work, whatever its task.
type Trouble string

const (
	TroubleLogin Trouble = "login" // its login, key or account was refused
	// its account has no credit left, or has used up a quota that does not come back by itself
	TroubleCredit Trouble = "credit"
	// its service cannot be reached, or answers only with errors
	TroubleServer Trouble = "server"
	TroubleLimit  Trouble = "rate_limit" // its service refuses requests for a while
)

// errorPattern recognises a program's own error message. Without a trouble, its group is an HTTP
// status.
type errorPattern struct {
	text    func() *regexp.Regexp
	trouble Trouble
}

func matching(trouble Trouble, expression string) errorPattern {
	return errorPattern{lazy.Regexp(expression), trouble}
}

// connectionErrors are what the libraries of the programs say about a server that cannot be
// reached.
const connectionErrors = `ECONNREFUSED|ECONNRESET|ENOTFOUND|EAI_AGAIN|ETIMEDOUT|EHOSTUNREACH|ENETUNREACH|(?i:connection refused|connection reset|fetch failed|` +
	`error sending request|unable to connect|socket connection was closed|getaddrinfo|dns error|failed to lookup address)`

// noCredit is what the services of each program say about an account without credit, whatever the
// status. Gemini says it about every limit.
var noCredit = func() map[signalbox.Format]func() *regexp.Regexp {
	openAI := lazy.Regexp(`(?i)insufficient (?:credits?|balance|funds|quota)|insufficient_quota|` +
		`exceeded your current quota|quota exceeded|check your plan and billing`)
	return map[signalbox.Format]func() *regexp.Regexp{
		signalbox.FormatClaude: lazy.Regexp(
			`^Credit balance is too low|^API Error: \d{3} .*(?i:credit balance is too low)`),
		signalbox.FormatCodex:    openAI,
		signalbox.FormatOpencode: openAI,
	}
}()

// errorPatterns are the messages of each program, as real versions print them. They are matched
// with what the program itself reports as the error that ended it, never with what a model or a
// tool wrote. The first that matches counts.
var errorPatterns = map[signalbox.Format][]errorPattern{
	signalbox.FormatClaude: {
		matching("", `^API Error: (\d{3})\b`),
		matching(TroubleLogin,
			`^(Invalid API key|Invalid bearer token|OAuth token|Your organization|Not logged in)|Please run /login|run claude login|authentication_error`),
		matching(TroubleLimit,
			`^(Claude AI usage limit reached|You've hit your|5-hour limit reached|Weekly limit reached)`),
		matching(TroubleServer,
			`^(API Error|Unable to connect|Connection error|Request timed out).*(?i:connection error|connect|timed out|timeout|overloaded|`+connectionErrors+`)`),
	},
	signalbox.FormatCodex: {
		matching("", `\b(?:unexpected|last) status:? (\d{3})\b`),
		matching(TroubleLimit, `(?i)usage limit|rate limit reached`),
		matching(TroubleLogin,
			`(?i)not logged in|log out and sign in again|sign in again|token (?:could not be refreshed|has expired|was revoked)|incorrect api key|`+
				"missing environment variable"),
		matching(TroubleServer,
			`experiencing high demand|stream disconnected|waiting for network|Connection failed|(?i:request timed out|network error)|`+connectionErrors),
	},
	signalbox.FormatGemini: {
		matching(TroubleLogin,
			`(?i)api key not valid|API_KEY_INVALID|api key expired|set an auth method|failed to (?:login|authenticate)|error authenticating|invalid_grant`),
		matching("", `(?:^\[API Error: |^)\{"error":\{.*"code": ?(\d{3})\b`),
		matching("", `^\[API Error: .*\bstatus: (\d{3})\b`),
		matching(TroubleLimit,
			`(?i)exhausted your (?:daily )?(?:capacity|quota)|quota exceeded|RESOURCE_EXHAUSTED|`+
				// it adds this to every 429, and leaves the status out
				`Please wait and try again later\. To increase your limits`),
		matching(TroubleServer, connectionErrors),
	},
	signalbox.FormatOpencode: {
		matching(TroubleLogin,
			`(?i)invalid api key|incorrect api key|api key is missing|ProviderAuthError|token refresh failed|unauthorized`),
		matching(TroubleLimit, `(?i)rate limit|too many requests`),
		matching(TroubleServer, connectionErrors),
	},
}

// Diagnose returns why a program of a format ended, "" if that is not known to be anything but its
// task. status is the HTTP status that it reported, 0 if it reported none, and message its own
// error message.
func Diagnose(format signalbox.Format, status int, message string) Trouble {
	if text, known := noCredit[format]; known && text().MatchString(message) {
		return TroubleCredit
	}
	if trouble := troubleOf(status); trouble != "" {
		return trouble
	}
	for _, p := range errorPatterns[format] {
		found := p.text().FindStringSubmatch(message)
		switch {
		case found == nil:
		case p.trouble == "":
			status, _ := strconv.Atoi(found[1]) // they are three digits
			if trouble := troubleOf(status); trouble != "" {
				return trouble
			}
		default:
			return p.trouble
		}
	}
	return ""
}

// StatusOfExit returns the HTTP status with which a program of a format has failed, 0 if its exit
// status does not tell. gemini exits with its last eight bits.
func StatusOfExit(format signalbox.Format, exit int) int {
	if format == signalbox.FormatGemini && exit >= 400-256 && exit < 256 {
		return exit + 256
	}
	return 0
}

// troubleOf returns what an HTTP status means, "" if it may be about the request.
func troubleOf(status int) Trouble {
	switch {
	case status == 401 || status == 403 || status == 407:
		return TroubleLogin
	case status == 402:
		return TroubleCredit
	case status == 429:
		return TroubleLimit
	case status >= 500 && status <= 599:
		return TroubleServer
	}
	return ""
}

// logins is how to log in to each program, and the variables that have a key instead.
var logins = map[string]struct{ how, variable string }{
	"claude":   {"run claude and enter /login", "ANTHROPIC_API_KEY"},
	"codex":    {"run codex login", "OPENAI_API_KEY"},
	"gemini":   {"run gemini and log in", "GEMINI_API_KEY"},
	"opencode": {"run opencode auth login", ""},
}

// Advice returns what a person can do about the trouble of a preset; "" for other agents. baseURL
// is its server, if it is not the program's own.
func Advice(preset, baseURL string, trouble Trouble) string {
	login, known := logins[preset]
	switch {
	case trouble == TroubleServer && baseURL != "":
		return "Check that the server at " + baseURL + " is running"
	case trouble == TroubleServer:
		return "Check your network, and whether the service has a disruption"
	case trouble == TroubleCredit:
		return "Add credit to the account that it uses, or raise its quota. " +
			"Until then you can name another agent"
	case trouble != TroubleLogin:
		return ""
	case !known:
		return "Log in again, or set its key"
	case baseURL != "":
		key := login.variable
		if key == "" {
			key = "OPENAI_API_KEY"
		}
		return "Set " + key + " to a key that the server at " + baseURL +
			" accepts, and start signalbox again"
	case login.variable == "":
		return "Log in: " + login.how
	}
	return "Log in: " + login.how + ". Or set " + login.variable +
		" to a valid key and start signalbox again"
}
