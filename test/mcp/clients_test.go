package mcp_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"signalbox"
	"signalbox/internal/core/box"
	"signalbox/internal/core/rules"
	"signalbox/internal/testkit/must"
)

// These tests attack leases: a client tries to play several roles, or to use what another client
// holds. They start the real program.

// connection is a connection of a client to the program.
type connection struct {
	t       *testing.T
	session *mcp.ClientSession
	log     *bytes.Buffer // what the program wrote to standard error, over stdio
}

// connect connects a client.
func connect(t *testing.T, transport mcp.Transport) *connection {
	t.Helper()
	session, err := mcp.NewClient(&mcp.Implementation{Name: "attacker", Version: "1"},
		nil).Connect(t.Context(), transport, nil)
	must.Succeed(t, err)
	t.Cleanup(func() { session.Close() })
	return &connection{t: t, session: session}
}

// overStdio starts the program for a client, with flags, and variables that begin with a name and
// "=".
func overStdio(t *testing.T, dir string, flagsAndVariables ...string) *connection {
	t.Helper()
	args, env := server(t, dir)
	for _, word := range flagsAndVariables {
		if name, _, variable := strings.Cut(word, "="); variable && !strings.HasPrefix(name, "-") {
			env = append(env, word)
		} else {
			args = append(args, word)
		}
	}
	cmd, log := exec.Command(args[0], args[1:]...), new(bytes.Buffer)
	cmd.Env, cmd.Stderr = append(os.Environ(), env...), log
	c := connect(t, &mcp.CommandTransport{Command: cmd})
	c.log = log
	return c
}

// bearer sends a token with every request.
type bearer string

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+string(b))
	return http.DefaultTransport.RoundTrip(r)
}

func overHTTP(t *testing.T, address, token string) *connection {
	t.Helper()
	return connect(t, &mcp.StreamableClientTransport{Endpoint: address,
		HTTPClient: &http.Client{Transport: bearer(token)}})
}

// answer is the answer of a tool.
type answer struct {
	Failed   bool
	Snapshot struct {
		Verdict, Phase, Session, Secret, Problem string
		Work                                     any
		Lease                                    *struct {
			Epoch   uint64
			Session string
		}
	}
	text string
}

type arguments = map[string]any

func (c *connection) call(tool string, in arguments) answer {
	c.t.Helper()
	result, err := c.session.CallTool(c.t.Context(), &mcp.CallToolParams{Name: tool, Arguments: in})
	if err != nil {
		c.t.Fatalf("%s %v: %v", tool, in, err)
	}
	data, err := json.Marshal(result.StructuredContent)
	a := answer{text: string(data), Failed: result.IsError}
	if err != nil || json.Unmarshal(data, &a) != nil {
		c.t.Fatalf("%s %v: %s", tool, in, data)
	}
	return a
}

func (c *connection) ok(tool string, in arguments) answer {
	c.t.Helper()
	a := c.call(tool, in)
	if a.Failed {
		c.t.Fatalf("%s %v: %s", tool, in, a.text)
	}
	return a
}

// refused checks that a call fails, as one of the given problems, and that the message says what to
// do.
func (c *connection) refused(tool string, in arguments, message string) {
	c.t.Helper()
	a := c.call(tool, in)
	if !a.Failed || !strings.Contains(a.text, message) || a.Snapshot.Secret != "" {
		c.t.Errorf("%s %v: want a refusal with %q, got %s", tool, in, message, a.text)
	}
}

// command runs the operator's command line.
func command(t *testing.T, dir string, args ...string) string {
	t.Helper()
	cmd := exec.Command(program, args...)
	_, env := server(t, dir)
	cmd.Env = append(os.Environ(), env...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("signalbox %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

func phaseOf(t *testing.T, dir, work string) (phase string) {
	t.Helper()
	var shown struct{ Phase string }
	must.Succeed(t, json.Unmarshal([]byte(command(t, dir, "work", "show", work, "--json")),
		&shown))
	return shown.Phase
}

// pass submits an exit signal as the operator, in the role that the phase needs.
func pass(t *testing.T, dir, work, role, phase string) {
	t.Helper()
	session := "op-" + phase + "-" + work
	command(t, dir, "work", "claim", work, "--role", role, "--session", session)
	command(t, dir, "work", "exit", "--session", session, exitFile(t, phase))
}

// exitFile writes an exit signal to a file.
func exitFile(t *testing.T, phase string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "exit.json")
	signal := fmt.Sprintf(
		`{"protocol":%q,"version":"1.0.0","phase_completed":%q,"exit_reason":"completed"}`,
		signalbox.ExitProtocol, phase)
	must.Succeed(t, os.WriteFile(file, []byte(signal), 0o600))
	return file
}

// transports runs a test over both transports. open connects the same client again.
func transports(t *testing.T, flags []string,
	test func(t *testing.T, dir string, open func(*testing.T) *connection)) {
	t.Run("stdio", func(t *testing.T) {
		t.Parallel()
		dir := newBox(t)
		test(t, dir, func(t *testing.T) *connection { return overStdio(t, dir, flags...) })
	})
	t.Run("http", func(t *testing.T) {
		t.Parallel()
		dir := newBox(t)
		address := startHTTP(t, dir, flags...)
		test(t, dir, func(t *testing.T) *connection { return overHTTP(t, address, token) })
	})
}

func exitWith(a answer, phase string) arguments {
	return arguments{"session": a.Snapshot.Session, "secret": a.Snapshot.Secret,
		"phase_completed": phase, "exit_reason": "completed"}
}

// By default a client is a developer and nothing else, so it cannot pass its own work.
func TestOneClientCannotPlayEveryRole(t *testing.T) {
	transports(t, nil, func(t *testing.T, dir string, open func(*testing.T) *connection) {
		c := open(t)
		c.ok("open_work", arguments{"work": "w"})
		c.ok("submit_exit", exitWith(c.ok("claim_work",
			arguments{"work": "w", "role": "developer"}), "IMPLEMENTATION"))
		tryRoles := func(c *connection) {
			t.Helper()
			for role, message := range map[string]string{"ci": "business-analyst developer critic auditor", "merger": "business-analyst developer critic auditor",
				"critic": "signalbox mcp --roles", "auditor": "signalbox mcp --roles",
				"business-analyst": "signalbox mcp --roles"} {
				c.refused("claim_work", arguments{"work": "w", "role": role}, message)
				c.refused("claim_work", arguments{"role": role}, message)
				c.refused("claim_work",
					arguments{"work": "w", "role": role, "actor": "someone-else"}, "")
			}
		}
		tryRoles(c)
		pass(t, dir, "w", "ci", "CI_PENDING")
		tryRoles(c)
		tryRoles(open(t)) // reconnected
		pass(t, dir, "w", "critic", "READY_FOR_REVIEW")
		pass(t, dir, "w", "critic", "REVIEW")
		tryRoles(c)
		if phase := phaseOf(t, dir, "w"); phase != "READY_FOR_MERGE" {
			t.Errorf("w is in %s", phase)
		}
	})
}

// A client that may have every role still cannot review or audit what it developed, whatever it
// calls itself and how often it reconnects.
func TestClientCannotReviewItself(t *testing.T) {
	flags := []string{"--roles", "business-analyst,developer,critic,auditor", "--actor", "bob"}
	transports(t, flags, func(t *testing.T, dir string, open func(*testing.T) *connection) {
		c := open(t)
		c.ok("open_work", arguments{"work": "w", "phase": "DRAFT"})
		c.ok("submit_exit", exitWith(c.ok("claim_work",
			arguments{"work": "w", "role": "business-analyst"}), "DRAFT"))
		c.ok("submit_exit", exitWith(c.ok("claim_work",
			arguments{"work": "w", "role": "developer"}), "IMPLEMENTATION"))
		tryRole := func(role string) {
			t.Helper()
			for _, c := range []*connection{c, open(t)} {
				c.refused("claim_work", arguments{"work": "w", "role": role},
					"mcp.allow_self_review")
				c.refused("claim_work", arguments{"work": "w", "role": role, "session": "new-" +
					role}, "mcp.allow_self_review")
				c.refused("claim_work", arguments{"work": "w", "role": role, "actor": "eve"},
					"may not act as 'eve'")
				c.refused("claim_work", arguments{"role": role}, "nothing to claim")
			}
		}
		c.refused("claim_work", arguments{"work": "w", "role": "ci"}, "")
		pass(t, dir, "w", "ci", "CI_PENDING")
		tryRole("critic")
		pass(t, dir, "w", "critic", "READY_FOR_REVIEW")
		tryRole("critic")
		pass(t, dir, "w", "critic", "REVIEW")
		tryRole("auditor")
		if phase := phaseOf(t, dir, "w"); phase != "READY_FOR_MERGE" {
			t.Errorf("w is in %s", phase)
		}
		// Work of others it may review.
		command(t, dir, "work", "open", "other", "--phase", "REVIEW")
		c.ok("submit_exit", exitWith(c.ok("claim_work", arguments{"role": "critic"}), "REVIEW"))
	})
}

// The configuration can allow it.
func TestAllowedSelfReview(t *testing.T) {
	dir := newBox(t)
	configure(t, dir, "mcp: {allow_self_review: true}\n")
	c := overStdio(t, dir, "--roles", "developer,critic")
	c.ok("open_work", arguments{"work": "w"})
	c.ok("submit_exit", exitWith(c.ok("claim_work", arguments{"work": "w", "role": "developer"}),
		"IMPLEMENTATION"))
	pass(t, dir, "w", "ci", "CI_PENDING")
	c.ok("claim_work", arguments{"work": "w", "role": "critic"})
}

func configure(t *testing.T, dir, text string) {
	t.Helper()
	must.Succeed(t, os.WriteFile(filepath.Join(dir, "signalbox.yaml"), []byte(text), 0o600))
}

// load loads a plan with one task.
func load(t *testing.T, dir string) {
	t.Helper()
	b, err := box.Open(t.Context(), dir, &box.Options{KeyFile: keyOf(dir)})
	must.Succeed(t, err)
	defer b.Close()
	for _, c := range []rules.Command{
		rules.Configure{Actor: "ann",
			Policy: rules.Policy{Slots: 4,
				Roles:  []rules.RoleSlots{{Role: signalbox.RoleDeveloper, Slots: 4}},
				Limits: rules.DefaultLimits()}},
		rules.LoadPlan{Plan: signalbox.Hash{1}, Name: "plan", Actor: "ann",
			Tasks: []rules.PlanTask{{ID: "T1", Title: "first"}}},
	} {
		if _, err := b.Engine.Do(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
}

// Session and epoch, which everyone can read, are not enough to use a lease: not that of another
// client, not that of the same client in another connection, and not one that the operator claimed.
func TestLeaseOfAnother(t *testing.T) {
	transports(t, []string{"--actor", "bob"},
		func(t *testing.T, dir string, open func(*testing.T) *connection) {
			holder := open(t)
			load(t, dir)
			for _, work := range []string{"w", "mine", "by-hand"} {
				holder.ok("open_work", arguments{"work": work})
			}
			held := map[string]answer{
				"w":  holder.ok("claim_work", arguments{"work": "w", "role": "developer"}),
				"T1": holder.ok("claim_work", arguments{"work": "T1", "role": "developer"}),
			}
			command(t, dir, "work", "claim", "by-hand", "--role", "developer")
			for name, thief := range map[string]*connection{"the same client": open(t),
				"another client": overStdio(t, dir, "--actor", "eve")} {
				if name == "another client" {
					holder.ok("open_work", arguments{"work": "theirs"})
				}
				own := thief.ok("claim_work", arguments{"role": "developer"}) // a secret of its own
				for _, work := range []string{"w", "T1", "by-hand"} {
					read := thief.ok("get_work", arguments{"work": work}).Snapshot.Lease
					for _, secret := range []any{nil, "", "wrong", own.Snapshot.Secret,
						secretHash(t, dir, work)} {
						in := arguments{"session": read.Session, "epoch": read.Epoch}
						if secret != nil {
							in["secret"] = secret
						}
						thief.refused("renew_lease", with(in, arguments{"work": work}), "secret")
						thief.refused("submit_exit",
							with(in, arguments{"phase_completed": "IMPLEMENTATION",
								"exit_reason": "completed"}), "secret")
						thief.refused("submit_exit",
							with(in, arguments{"phase_completed": "IMPLEMENTATION",
								"exit_reason": "blocked", "notes": "x"}), "secret")
						if work != "T1" {
							continue
						}
						for _, signal := range []string{"ready_for_review", "task_incomplete",
							"checkpoint", "review_passed"} {
							thief.refused("emit_signal", with(in, arguments{"signal": signal}),
								"secret")
						}
						thief.refused("ask_human", with(in, arguments{"question": "Which?"}),
							"secret")
					}
					thief.refused("claim_work", arguments{"work": work, "role": "developer",
						"session": read.Session}, "session")
					thief.refused("claim_work",
						arguments{"role": "developer", "session": read.Session},
						"session")
					if phase := phaseOf(t, dir, work); phase != "IMPLEMENTATION" {
						t.Fatalf("%s: %s is in %s", name, work, phase)
					}
				}
			}
			// The holder is not disturbed.
			holder.ok("submit_exit", exitWith(held["w"], "IMPLEMENTATION"))
			t1 := held["T1"].Snapshot
			holder.ok("emit_signal", arguments{"session": t1.Session, "secret": t1.Secret,
				"signal": "ready_for_review"})
			// Nor does a repeated signal answer another.
			again := exitWith(held["w"], "IMPLEMENTATION")
			again["secret"] = "wrong"
			holder.refused("submit_exit", again, "secret")
			if got := command(t, dir, "ledger", "tail", "-n", "1000"); !strings.Contains(got,
				`"reason":"wrong_secret"`) {
				t.Error("the refusals are not recorded")
			}
		})
}

// with returns the arguments with more.
func with(in, more arguments) arguments {
	all := arguments{}
	for _, part := range []arguments{in, more} {
		for name, value := range part {
			all[name] = value
		}
	}
	return all
}

// secretHash returns the hash of the secret of a work item's last lease, from the ledger.
func secretHash(t *testing.T, dir, work string) (hash string) {
	t.Helper()
	for line := range strings.Lines(command(t, dir, "ledger", "tail", "-n", "1000", "--json")) {
		var e struct {
			Type, Work string
			Data       struct {
				Hash string `json:"secret_hash"`
			}
		}
		if json.Unmarshal([]byte(line), &e) == nil && e.Type == rules.TypeLeaseGranted &&
			e.Work == work {
			hash = e.Data.Hash
		}
	}
	if len(hash) != 64 {
		t.Fatalf("the hash of %s is %q", work, hash)
	}
	return hash
}

// After reconnecting, the holder continues with what it kept.
func TestHolderReconnects(t *testing.T) {
	transports(t, nil, func(t *testing.T, dir string, open func(*testing.T) *connection) {
		c := open(t)
		c.ok("open_work", arguments{"work": "w"})
		claim := c.ok("claim_work", arguments{"work": "w", "role": "developer"})
		c.session.Close()
		c = open(t)
		c.ok("renew_lease", arguments{"work": "w", "session": claim.Snapshot.Session,
			"secret": claim.Snapshot.Secret, "epoch": claim.Snapshot.Lease.Epoch})
		c.ok("submit_exit", exitWith(claim, "IMPLEMENTATION"))
	})
}

// The secret is in the answer to the claim, and nowhere else.
func TestSecretIsNowhere(t *testing.T) {
	transports(t, nil, func(t *testing.T, dir string, open func(*testing.T) *connection) {
		c := open(t)
		var secrets []string
		for _, work := range []string{"w1", "w2", "w3"} {
			c.ok("open_work", arguments{"work": work})
		}
		remember := func(claim answer) answer {
			t.Helper()
			if len(claim.Snapshot.Secret) < 26 {
				t.Fatalf("the secret is %q", claim.Snapshot.Secret)
			}
			secrets = append(secrets, claim.Snapshot.Secret)
			return claim
		}
		check := func(what, text string) {
			t.Helper()
			for _, secret := range secrets {
				if strings.Contains(text, secret) ||
					strings.Contains(text, strings.TrimPrefix(secret, "secret-")) {
					t.Errorf("%s has the secret: %s", what, text)
				}
			}
		}
		first := remember(c.ok("claim_work", arguments{"work": "w1", "role": "developer"}))
		second := remember(c.ok("claim_work", arguments{"work": "w2", "role": "developer"}))
		var byHand struct{ Secret string }
		must.Succeed(t, json.Unmarshal([]byte(command(t, dir, "work", "claim", "w3", "--role",
			"developer", "--json")), &byHand))
		secrets = append(secrets, byHand.Secret)
		own := arguments{"session": first.Snapshot.Session, "secret": first.Snapshot.Secret,
			"epoch": first.Snapshot.Lease.Epoch}
		for _, a := range []answer{
			c.ok("get_status", nil), c.ok("list_work", nil),
			c.ok("get_work", arguments{"work": "w1"}),
			c.ok("get_work", arguments{"work": "w2", "session": second.Snapshot.Session}),
			c.ok("renew_lease", with(own, arguments{"work": "w1"})),
			c.ok("prove_event", arguments{"seq": first.Snapshot.Lease.Epoch}),
			c.ok("verify_ledger", nil),
			c.call("renew_lease", with(own, arguments{"work": "w2"})),
			c.call("emit_signal", with(own, arguments{"signal": "checkpoint"})),
			c.call("claim_work", arguments{"work": "w1", "role": "developer",
				"session": first.Snapshot.Session, "secret": first.Snapshot.Secret}),
			c.call("submit_exit",
				with(own, arguments{"phase_completed": "REVIEW", "exit_reason": "completed"})),
			c.ok("submit_exit", exitWith(first, "IMPLEMENTATION")),
		} {
			check("an answer", a.text)
		}
		for _, args := range [][]string{{"work", "list", "--json"},
			{"work", "show", "w2", "--json"}, {"ledger", "tail", "-n", "1000"},
			{"ledger", "export"}, {"doctor"}} {
			cmd := exec.Command(program, args...)
			_, env := server(t, dir)
			cmd.Env = append(os.Environ(), env...)
			out, _ := cmd.CombinedOutput() // doctor may find something to complain about
			check(strings.Join(args, " "), string(out))
		}
		copied := filepath.Join(t.TempDir(), "copy.tar.gz")
		restored := filepath.Join(t.TempDir(), box.FolderName)
		command(t, dir, "backup", copied)
		file, err := os.Open(copied)
		must.Succeed(t, err)
		defer file.Close()
		if _, err := box.Restore(t.Context(), file, restored,
			&box.RestoreOptions{Options: box.Options{KeyFile: keyOf(dir)}}); err != nil {
			t.Fatal(err)
		}
		c.session.Close()
		if c.log != nil {
			check("the log", c.log.String())
		}
		for _, folder := range []string{dir, restored} {
			files := 0
			err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
				if err != nil || !entry.Type().IsRegular() {
					return err
				}
				files++
				data, err := os.ReadFile(path)
				check(path, string(data))
				return err
			})
			if err != nil || files < 3 {
				t.Errorf("%s: %d files, %v", folder, files, err)
			}
		}
	})
}

// Work cannot be opened behind the checks or the reviews.
func TestOpenWorkInALatePhase(t *testing.T) {
	transports(t, []string{"--roles", "business-analyst,developer,critic,auditor"},
		func(t *testing.T, dir string, open func(*testing.T) *connection) {
			c := open(t)
			for _, phase := range []string{"CI_PENDING", "READY_FOR_REVIEW", "REVIEW",
				"READY_FOR_MERGE", "COMPLETED", "BLOCKED"} {
				c.refused("open_work", arguments{"work": "w", "phase": phase},
					"DRAFT IMPLEMENTATION")
			}
			c.refused("open_work", arguments{"work": "w", "actor": "ann-the-operator"},
				"may not act as")
			c.ok("open_work", arguments{"work": "w1"})
			c.ok("open_work", arguments{"work": "w2", "phase": "DRAFT"})
			command(t, dir, "work", "open", "w3", "--phase", "READY_FOR_MERGE")
		})
}

// The operator's command line renews, revokes, returns and ends leases of clients without their
// secrets.
func TestOperatorNeedsNoSecret(t *testing.T) {
	dir := newBox(t)
	c := overStdio(t, dir)
	for _, work := range []string{"w1", "w2", "w3"} {
		c.ok("open_work", arguments{"work": work})
	}
	claim := func(work string) (session, epoch string) {
		a := c.ok("claim_work", arguments{"work": work, "role": "developer"})
		return a.Snapshot.Session, fmt.Sprint(a.Snapshot.Lease.Epoch)
	}
	session, epoch := claim("w1")
	command(t, dir, "work", "renew", "w1", "--session", session, "--epoch", epoch, "--ttl", "1h")
	command(t, dir, "work", "release", "w1", "--session", session, "--epoch", epoch)
	claim("w2")
	command(t, dir, "work", "release", "w2", "--reason", "it hangs")
	session, _ = claim("w3")
	command(t, dir, "work", "exit", "--session", session, exitFile(t, "IMPLEMENTATION"))
	if phase := phaseOf(t, dir, "w3"); phase != "CI_PENDING" {
		t.Errorf("w3 is in %s", phase)
	}
}

// The server of an agent's process has the secret of its session in its environment, and no other
// session's.
func TestServerOfASession(t *testing.T) {
	dir := newBox(t)
	load(t, dir)
	holder := overStdio(t, dir)
	claim := holder.ok("claim_work", arguments{"work": "T1", "role": "developer"}).Snapshot
	renew := arguments{"work": "T1", "epoch": claim.Lease.Epoch}
	for _, secret := range []string{"", "wrong"} {
		thief := overStdio(t, dir, "SIGNALBOX_SESSION="+claim.Session, "SIGNALBOX_SECRET="+secret)
		thief.refused("renew_lease", renew, "wrong_secret")
		thief.refused("emit_signal", arguments{"signal": "ready_for_review"}, "wrong_secret")
		thief.refused("submit_exit", arguments{"phase_completed": "IMPLEMENTATION",
			"exit_reason": "completed"}, "wrong_secret")
	}
	agent := overStdio(t, dir, "SIGNALBOX_SESSION="+claim.Session, "SIGNALBOX_SECRET="+claim.Secret)
	agent.ok("renew_lease", renew)
	agent.refused("claim_work", arguments{"role": "developer"}, "may not claim work")
	agent.ok("emit_signal", arguments{"signal": "ready_for_review"})
}

// HTTP clients with tokens of their own are different clients: one develops and another reviews,
// and neither uses the other's protocol session.
func TestClientsOverHTTP(t *testing.T) {
	dir := newBox(t)
	configure(t, dir, "mcp: {clients: {builder: {token_env: BUILDER_TOKEN}, reviewer: {token_env: REVIEWER_TOKEN, roles: [critic, auditor]}}}\n")
	t.Setenv("BUILDER_TOKEN", "token-of-the-builder")
	t.Setenv("REVIEWER_TOKEN", "token-of-the-reviewer")
	address := startHTTP(t, dir)
	builder, reviewer := overHTTP(t, address, "token-of-the-builder"),
		overHTTP(t, address, "token-of-the-reviewer")
	builder.ok("open_work", arguments{"work": "w"})
	reviewer.refused("claim_work", arguments{"work": "w", "role": "developer"},
		"'reviewer' may claim work as critic, auditor, not as developer")
	built := builder.ok("claim_work", arguments{"work": "w", "role": "developer"})
	stolen := exitWith(built, "IMPLEMENTATION")
	reviewer.refused("submit_exit", stolen, "may claim work as critic, auditor")
	// the secret of another client
	overHTTP(t, address, token).refused("submit_exit", stolen, "wrong_secret")
	builder.ok("submit_exit", stolen)
	pass(t, dir, "w", "ci", "CI_PENDING")
	builder.refused("claim_work", arguments{"work": "w", "role": "critic"},
		"'builder' may claim work as developer, not as critic")
	for _, phase := range []string{"READY_FOR_REVIEW", "REVIEW"} {
		reviewer.ok("submit_exit",
			exitWith(reviewer.ok("claim_work", arguments{"work": "w", "role": "critic"}), phase))
	}
	reviewer.ok("submit_exit", exitWith(reviewer.ok("claim_work", arguments{"role": "auditor"}),
		"READY_FOR_MERGE"))
	if phase := phaseOf(t, dir, "w"); phase != "COMPLETED" {
		t.Errorf("w is in %s", phase)
	}
	for _, e := range []string{`"identity":"builder"`, `"identity":"reviewer"`} {
		if !strings.Contains(command(t, dir, "ledger", "tail", "-n", "1000"), e) {
			t.Errorf("the ledger does not have %s", e)
		}
	}
	// A protocol session belongs to its client.
	post := func(token, session, body string) (int, http.Header) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, address,
			strings.NewReader(body))
		must.Succeed(t, err)
		r.Header = http.Header{"Content-Type": {"application/json"},
			"Accept": {"application/json, text/event-stream"}}
		if session != "" {
			r.Header.Set("Mcp-Session-Id", session)
		}
		response, err := bearer(token).RoundTrip(r)
		must.Succeed(t, err)
		io.Copy(io.Discard, response.Body)
		response.Body.Close()
		return response.StatusCode, response.Header
	}
	_, header := post("token-of-the-builder", "",
		`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`)
	session, ping := header.Get("Mcp-Session-Id"), `{"jsonrpc":"2.0","id":2,"method":"ping"}`
	if status, _ := post("token-of-the-builder", session, ping); session == "" ||
		status != http.StatusOK {
		t.Errorf("the builder's session %q: %d", session, status)
	}
	if status, _ := post("token-of-the-reviewer", session, ping); status != http.StatusForbidden {
		t.Errorf("the reviewer uses the session of the builder: %d", status)
	}
}

// A server whose clients cannot be told apart does not start.
func TestClientsThatAreTheSame(t *testing.T) {
	const clients = "mcp: {clients: {builder: {token_env: BUILDER_TOKEN}, reviewer: {token_env: REVIEWER_TOKEN, roles: [critic]}}}\n"
	for name, tt := range map[string]struct {
		config string
		env    []string
		flags  []string
		want   string
	}{
		"a token is missing": {clients, []string{"BUILDER_TOKEN=one"}, nil,
			"the token of the MCP client 'reviewer' is missing: REVIEWER_TOKEN is not set"},
		"one token for two": {clients, []string{"BUILDER_TOKEN=one", "REVIEWER_TOKEN=one"}, nil,
			"client 'reviewer' has the token of another client"},
		"the server's token": {clients, []string{"BUILDER_TOKEN=one", "REVIEWER_TOKEN=" + token},
			nil, "client 'reviewer' has the token of another client"},
		"the server's name": {clients, []string{"BUILDER_TOKEN=one", "REVIEWER_TOKEN=two"},
			[]string{"--actor", "builder"}, "two clients have the name 'builder'"},
		"the checks' role": {"", nil, []string{"--roles", "developer,ci"},
			"role 'ci' cannot be claimed over MCP"},
		"the merger's role": {"", nil, []string{"--roles", "merger"},
			"role 'merger' cannot be claimed over MCP"},
		"a role in the config": {"mcp: {clients: {checker: {token_env: BUILDER_TOKEN, roles: [ci]}}}\n", []string{"BUILDER_TOKEN=one"}, nil, `role "ci" cannot be claimed over MCP`},
	} {
		t.Run(name, func(t *testing.T) {
			dir := newBox(t)
			configure(t, dir, tt.config)
			args, env := server(t, dir)
			cmd := exec.CommandContext(t.Context(), args[0],
				append(append(args[1:], "--http", "127.0.0.1:0"), tt.flags...)...)
			cmd.Env = append(append(os.Environ(), env...), tt.env...)
			stderr, err := cmd.StderrPipe()
			must.Succeed(t, err)
			must.Succeed(t, cmd.Start())
			line, _ := bufio.NewReader(stderr).ReadString('\n')
			cmd.Process.Kill() // in case it serves
			cmd.Wait()
			if !strings.Contains(line, tt.want) {
				t.Errorf("want %q, got %q", tt.want, line)
			}
		})
	}
}
