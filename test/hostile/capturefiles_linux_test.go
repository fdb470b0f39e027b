package hostile

import (
	"encoding/base64"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/txtar"

	"signalbox/internal/testkit/must"
)

const (
	// backdoor is what the attacker wants to be merged.
	backdoor = "backdoor.txt"
	// beside is a file with instructions for agents beside it.
	beside = "sub/code.txt"
	// canary is in every text of the commit that tells the model of a reviewer what to do, and
	// homeCanary in those that are left in its home folder.
	canary, homeCanary = "canary-instruction", "canary-at-home"
)

// attackFiles are the files with which the attacker steers programs, by their paths.
type attackFiles struct {
	commit map[string]string
	// home are paths for a shell.
	home map[string]string
}

// readAttack reads the files for an attacker's server. Commands in them leave a mark in a folder.
func readAttack(t testing.TB, server, marks string) attackFiles {
	t.Helper()
	archive, err := txtar.ParseFile(filepath.Join("testdata", "capture.txtar"))
	must.Succeed(t, err)
	a := attackFiles{commit: map[string]string{}, home: map[string]string{}}
	for _, file := range archive.Files {
		kind, name, _ := strings.Cut(file.Name, "/")
		into, instruction := a.commit, canary
		if kind == "home" {
			into, instruction = a.home, homeCanary
		}
		words := strings.NewReplacer("$MARK", mark(marks, file.Name), "$URL", server, "$CANARY",
			instruction)
		into[name] = words.Replace(string(file.Data))
	}
	return a
}

// mark returns a command that leaves a mark.
func mark(marks, name string) string {
	plain := regexp.MustCompile(`[^A-Za-z0-9.]+`).ReplaceAllString(name, "-")
	return "touch " + filepath.Join(marks, plain)
}

// behindLinks returns the folders of the commit that steer programs behind links: in place of each
// there is a link to a folder with another name.
func (a attackFiles) behindLinks() (files, links map[string]string) {
	files, links = map[string]string{}, map[string]string{}
	for name, text := range a.commit {
		folder, rest, found := strings.Cut(name, "/")
		if bare, hidden := strings.CutPrefix(folder, "."); found && hidden {
			files["other/"+bare+"/"+rest] = strings.ReplaceAll(text, "/marks/", "/marks/linked-")
			links[folder] = "other/" + bare
		}
	}
	return files, links
}

// plant returns a script that leaves the files for the home folder there.
func (a attackFiles) plant() string {
	var script strings.Builder
	for name, text := range a.home {
		encoded := base64.StdEncoding.EncodeToString([]byte(text))
		fmt.Fprintf(&script, "mkdir -p \"$(dirname \"%s\")\"\n", name)
		fmt.Fprintf(&script, "echo %s | base64 -d >\"%s\"\n", encoded, name)
	}
	return script.String()
}

// login is the login of a user with a program.
type login struct {
	// path is in the user's home, and inside is where the program has it, for a shell.
	path, inside string
	// before is what the user has, and after what the code under review writes: renewed tokens, and
	// something of the attacker's. want is what the user may have then.
	before, after, want string
}

// Times at which tokens expire, in milliseconds: a renewal to a time further away than a year is
// refused.
var soon = time.Now().AddDate(0, 1, 0).UnixMilli()
var later = soon + time.Hour.Milliseconds()

// logins returns the logins of the programs. An organisation can deliver settings with commands to
// its members, so the attacker also tries to make the user a member of one: codex fetches such
// settings, and claude has a copy of them beside its login.
func logins(server string) map[string]login {
	addressOfTokens := fmt.Sprintf(`, "type": "external_account_authorized_user",
		"token_url": "%s/token"`, server)
	wellKnown := fmt.Sprintf(`, %q: {"type": "wellknown", "key": "X", "token": "y"}`, server)
	another := fmt.Sprintf(`, "mcpOAuth": {"evil": {"serverUrl": %q, "accessToken": "x"}}`, server)
	codexUser := loginOfCodex("account-1", "plus")
	return map[string]login{
		"codex": {
			path:   ".codex/auth.json",
			inside: "${CODEX_HOME:-$HOME/.codex}/auth.json",
			before: codexUser,
			after:  loginOfCodex("attacker", "enterprise"),
			want:   codexUser,
		},
		"gemini": {
			path:   ".gemini/oauth_creds.json",
			inside: "${GEMINI_CLI_HOME:-$HOME}/.gemini/oauth_creds.json",
			before: loginOfGemini("a1", soon, ""),
			after:  loginOfGemini("a2", later, addressOfTokens),
			want:   loginOfGemini("a2", later, ""),
		},
		"opencode": {
			path:   ".local/share/opencode/auth.json",
			inside: "${XDG_DATA_HOME:-$HOME/.local/share}/opencode/auth.json",
			before: loginOfOpencode(1, soon, ""),
			after:  loginOfOpencode(2, later, wellKnown),
			want:   loginOfOpencode(2, later, ""),
		},
		"claude": {
			path:   ".claude/.credentials.json",
			inside: "${CLAUDE_CONFIG_DIR:-$HOME/.claude}/.credentials.json",
			before: loginOfClaude(1, soon, "max", ""),
			after:  loginOfClaude(2, later, "enterprise", another),
			want:   loginOfClaude(2, later, "max", ""),
		},
	}
}

func loginOfCodex(account, plan string) string {
	token := jsonToken(fmt.Sprintf(`{"exp": 1893456000, "https://api.openai.com/auth": {
		"chatgpt_plan_type": %q, "chatgpt_user_id": %[2]q, "chatgpt_account_id": %[2]q}}`,
		plan, account))
	return fmt.Sprintf(`{"auth_mode": "chatgpt", "OPENAI_API_KEY": null, "last_refresh": %q, "tokens": {
		"id_token": %[2]q, "access_token": %[2]q, "refresh_token": %[3]q, "account_id": %[3]q}}`,
		time.Now().UTC().Format(time.RFC3339), token, account)
}

func loginOfGemini(access string, expiry int64, more string) string {
	return fmt.Sprintf(`{"access_token": %q, "refresh_token": "r1", "scope": "s", "token_type": "Bearer",
		"id_token": %q, "expiry_date": %d%s}`, access, jsonToken(`{"sub": "1"}`), expiry, more)
}

func loginOfOpencode(n int, expires int64, more string) string {
	return fmt.Sprintf(`{"example": {"type": "oauth", "refresh": "r%[1]d", "access": "a%[1]d",
		"expires": %[2]d}%[3]s}`, n, expires, more)
}

func loginOfClaude(n int, expires int64, plan, more string) string {
	return fmt.Sprintf(`{"claudeAiOauth": {"accessToken": "a%[1]d", "refreshToken": "r%[1]d",
		"expiresAt": %[2]d, "scopes": ["user:inference"], "subscriptionType": %[3]q}%[4]s}`,
		n, expires, plan, more)
}

// jsonToken returns a JSON web token with these claims, whose signature no one checks.
func jsonToken(claims string) string {
	var parts []string
	for _, part := range []string{`{"alg":"none"}`, claims, "signature"} {
		parts = append(parts, base64.RawURLEncoding.EncodeToString([]byte(part)))
	}
	return strings.Join(parts, ".")
}
