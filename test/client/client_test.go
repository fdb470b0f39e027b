package client_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"signalbox"
	"signalbox/internal/testkit/built"
	"signalbox/internal/testkit/must"
	"signalbox/internal/testkit/npm"
)

var (
	// program is signalbox, built once for all tests.
	program string
	// kit has the programs below, which TestMain removes.
	kit npm.Kit

	generator = filepath.Join("node_modules", "@hey-api", "openapi-ts", "bin", "run.js")
	linter    = filepath.Join("node_modules", "@redocly", "cli", "bin", "cli.js")
	compiler  = filepath.Join("node_modules", "typescript", "bin", "tsc")
)

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "signalbox-client-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	status := 1
	if program, err = built.Program(dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
	} else {
		status = m.Run()
	}
	kit.Remove()
	os.RemoveAll(dir)
	os.Exit(status)
}

// project is a folder with a box.
type project struct {
	t   *testing.T
	dir string
	env []string
}

func newProject(t *testing.T) *project {
	t.Helper()
	p := &project{t: t, dir: t.TempDir()}
	p.env = append(os.Environ(), "SIGNALBOX_KEY="+filepath.Join(p.dir, "box.key"), "SIGNALBOX_BOX=",
		"SIGNALBOX_SESSION=", "SIGNALBOX_SECRET=", signalbox.ExitFlag+"=true")
	p.signalbox("init")
	return p
}

func (p *project) command(args ...string) *exec.Cmd {
	cmd := exec.Command(program, args...)
	cmd.Dir, cmd.Env = p.dir, p.env
	return cmd
}

// signalbox runs a command, and returns what it prints.
func (p *project) signalbox(args ...string) string {
	p.t.Helper()
	cmd := p.command(args...)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		p.t.Fatalf("signalbox %s: %v: %s", strings.Join(args, " "), err, stderr.String())
	}
	return strings.TrimSpace(string(out))
}

var serves = regexp.MustCompile(`the API at (\S+)`)

// serve starts the server, and returns the address of its API.
func (p *project) serve() string {
	p.t.Helper()
	cmd := p.command("serve", "--listen", "127.0.0.1:0")
	stderr, err := cmd.StderrPipe()
	must.Succeed(p.t, err)
	must.Succeed(p.t, cmd.Start())
	p.t.Cleanup(func() {
		cmd.Process.Signal(os.Interrupt)
		io.Copy(io.Discard, stderr)
		if err := cmd.Wait(); err != nil {
			p.t.Errorf("the server failed: %v", err)
		}
	})
	line, err := bufio.NewReader(stderr).ReadString('\n')
	match := serves.FindStringSubmatch(line)
	if match == nil {
		p.t.Fatalf("the server did not start: %q, %v", line, err)
	}
	return match[1]
}

// document saves the OpenAPI document of a running server where the programs of the kit find it.
func (p *project) document(api string) {
	p.t.Helper()
	r, err := http.NewRequestWithContext(p.t.Context(), http.MethodGet, api+"/openapi.json", nil)
	must.Succeed(p.t, err)
	r.Header.Set("Authorization", "Bearer "+p.signalbox("token", "create", "reader", "--scope",
		"read"))
	answer, err := http.DefaultClient.Do(r)
	must.Succeed(p.t, err)
	defer answer.Body.Close()
	document, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != http.StatusOK {
		p.t.Fatalf("%s, %v: %s", answer.Status, err, document)
	}
	must.Succeed(p.t, os.WriteFile(filepath.Join(kit.Dir, documentFile), document, 0o600))
}

const documentFile = "openapi.json"

// TestGeneratedClient generates a client from the document of a running server, checks its types,
// and runs the exit protocol with it. The proof that the client got must be valid.
func TestGeneratedClient(t *testing.T) {
	kit.Need(t)
	p := newProject(t)
	api := p.serve()
	p.document(api)
	for _, name := range []string{"protocol.ts", "tsconfig.json"} {
		data, err := os.ReadFile(filepath.Join("testdata", name))
		if err == nil {
			err = os.WriteFile(filepath.Join(kit.Dir, name), data, 0o600)
		}
		must.Succeed(t, err)
	}
	for _, args := range [][]string{
		{generator, "--input", documentFile, "--output", "client", "--silent", "--no-log-file"},
		{compiler, "--project", "."},
	} {
		if out, stderr, err := kit.Run(t, nil, args...); err != nil {
			t.Fatalf("%v: %v\n%s%s", args, err, out, stderr)
		}
	}
	token := p.signalbox("token", "create", "platform", "--scope", "operate")
	out, stderr, err := kit.Run(t, []string{"TOKEN=" + token}, filepath.Join("out", "protocol.js"),
		api)
	if err != nil {
		t.Fatalf("%v\n%s%s", err, out, stderr)
	}
	var got struct{ Key, Proof string }
	if err := json.Unmarshal([]byte(out), &got); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	proof := filepath.Join(p.dir, "proof")
	must.Succeed(t, os.WriteFile(proof, []byte(got.Proof), 0o600))
	p.signalbox("ledger", "check", "--key", got.Key, proof)
}

// TestDocumentLint checks the document with the recommended rules of a public linter. Warnings
// count too.
func TestDocumentLint(t *testing.T) {
	kit.Need(t)
	p := newProject(t)
	p.document(p.serve())
	out, stderr, err := kit.Run(t,
		[]string{"REDOCLY_TELEMETRY=off", "REDOCLY_SUPPRESS_UPDATE_NOTICE=true"}, linter, "lint",
		documentFile, "--extends=recommended", "--format=json")
	var report struct {
		Totals   struct{ Errors, Warnings int }
		Problems []struct {
			RuleID, Message string
			Location        []struct{ Pointer string }
		}
	}
	if jsonErr := json.Unmarshal([]byte(out), &report); jsonErr != nil {
		t.Fatalf("%v, %v: %s%s", err, jsonErr, out, stderr)
	}
	for _, problem := range report.Problems {
		t.Errorf("%s: %s %v", problem.RuleID, problem.Message, problem.Location)
	}
	if err != nil {
		t.Error(err)
	}
}
