package main

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"io/fs"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"signalbox/internal/cli"
)

// start returns a program with the given arguments and empty standard input, and its two outputs.
func start(args ...string) (p *cli.Program, stdout, stderr *bytes.Buffer) {
	stdout, stderr = new(bytes.Buffer), new(bytes.Buffer)
	noEnv := func(string) string { return "" }
	return &cli.Program{Stdin: strings.NewReader(""), Stdout: stdout, Stderr: stderr, Getenv: noEnv,
		Args: args}, stdout, stderr
}

// In a synctest bubble, a program that waits for more input before it prints is a deadlock, and the
// test fails.
func TestSignalIsPrintedBeforeTheStreamEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stdin, agent := io.Pipe()
		reader, stdout := io.Pipe()
		p, _, stderr := start("scan", "--format", "plain")
		p.Stdin, p.Stdout = stdin, stdout
		ended := make(chan int)
		go func() { ended <- execute(p) }()

		io.WriteString(agent, "CHECKPOINT: t1\nDone: half\nREADY_FOR_REVIEW: t1\n")
		line, err := bufio.NewReader(reader).ReadString('\n')
		if err != nil || !strings.Contains(line, `"signal":"checkpoint"`) {
			t.Errorf("while the agent still runs: %q, %v", line, err)
		}

		reader.Close()
		agent.Close()
		if status := <-ended; status != 0 || stderr.Len() > 0 {
			t.Errorf("after the reader closed the pipe: status %d, stderr %q", status, stderr)
		}
	})
}

func TestStripPrintsBeforeTheStreamEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stdin, model := io.Pipe()
		reader, stdout := io.Pipe()
		p, _, _ := start("strip")
		p.Stdin, p.Stdout = stdin, stdout
		ended := make(chan int)
		go func() { ended <- execute(p) }()

		io.WriteString(model, "The answer is 42.\nMore follows")
		line, err := bufio.NewReader(reader).ReadString('\n')
		if err != nil || line != "The answer is 42.\n" {
			t.Errorf("while the model still writes: %q, %v", line, err)
		}

		reader.Close()
		model.Close()
		<-ended
	})
}

// fakeTerminal is a buffer that claims to be a character device.
type fakeTerminal struct{ bytes.Buffer }

func (*fakeTerminal) Stat() (fs.FileInfo, error) { return terminalInfo{}, nil }

type terminalInfo struct{ fs.FileInfo }

func (terminalInfo) Mode() fs.FileMode { return fs.ModeDevice | fs.ModeCharDevice }

func TestStripEndsTheLineOnATerminalOnly(t *testing.T) {
	const reply = "Fin.\n<signal type=\"stuck\"/>\n"
	p, stdout, _ := start("strip")
	p.Stdin = strings.NewReader(reply)
	execute(p)
	p, _, _ = start("strip")
	screen := new(fakeTerminal)
	p.Stdin, p.Stdout = strings.NewReader(reply), screen
	execute(p)
	if stdout.String() != "Fin." || screen.String() != "Fin.\n" {
		t.Errorf("to a buffer %q, to a terminal %q", stdout, screen.String())
	}
}

// longLog is an agent's log of a given length, generated while it is read.
type longLog struct{ left int }

func (e *longLog) Read(b []byte) (int, error) {
	if e.left == 0 {
		return 0, io.EOF
	}
	const line = "I looked at the parser and it seems that the READY state is reached: yes.\n"
	n := 0
	for n < len(b) && e.left > 0 {
		k := copy(b[n:], line[:min(len(line), e.left)])
		n, e.left = n+k, e.left-k
	}
	return n, nil
}

func TestScanMemoryDoesNotGrowWithTheTranscript(t *testing.T) {
	allocated := func(size int) uint64 {
		p, _, _ := start("scan", "--format", "plain")
		p.Stdin = &longLog{left: size}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		if status := execute(p); status != 0 {
			t.Fatalf("status %d", status)
		}
		runtime.ReadMemStats(&after)
		return after.TotalAlloc - before.TotalAlloc
	}
	small, large := allocated(1<<20), allocated(64<<20)
	if large > small+8<<20 { // other goroutines of the process may allocate too
		t.Errorf("%d bytes allocated for 1 MiB of input, %d for 64 MiB", small, large)
	}
}

// failing is a writer and reader that always fails.
type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }
func (f failing) Read([]byte) (int, error)  { return 0, f.err }

func TestOutputErrors(t *testing.T) {
	for _, tt := range []struct {
		name   string
		err    error
		status int
		stderr string
	}{
		{"closed pipe", syscall.EPIPE, 0, ""},
		{"disk full", syscall.ENOSPC, 1,
			"signalbox: cannot write the answer: no space left on device\n" +
				"hint: the output is incomplete; free some disk space or write it elsewhere, and run the command again\n"},
	} {
		for _, args := range [][]string{{"scan", "--format=plain"}, {"scan", "--resolve"},
			{"strip"}, {"version"}, {"--help"}} {
			t.Run(tt.name+"/"+args[0], func(t *testing.T) {
				p, _, stderr := start(args...)
				p.Stdin = strings.NewReader("REMEDIATION_COMPLETE\n")
				p.Stdout = failing{tt.err}
				if status := execute(p); status != tt.status {
					t.Errorf("status %d, want %d", status, tt.status)
				}
				if diff := cmp.Diff(tt.stderr, stderr.String()); diff != "" {
					t.Errorf("stderr (-want +got):\n%s", diff)
				}
			})
		}
	}
}

// A closed pipe is only accepted on output: on input it is an error.
func TestBrokenInputIsAnError(t *testing.T) {
	for _, err := range []error{syscall.EPIPE, io.ErrClosedPipe} {
		p, _, stderr := start("scan")
		p.Stdin = failing{err}
		if status := execute(p); status != 1 ||
			!strings.HasPrefix(stderr.String(), "signalbox: cannot read standard input: ") {
			t.Errorf("%v: status %d, stderr %q", err, status, stderr)
		}
	}
}

// A stream that breaks off must not be resolved, because its last verdict may be missing.
func TestBrokenStreamIsNotResolved(t *testing.T) {
	for _, args := range [][]string{{"scan", "--resolve"}, {"scan", "--policy=seed"}} {
		p, stdout, stderr := start(args...)
		p.Stdin = io.MultiReader(strings.NewReader("AUDIT_PASSED: t1\n"),
			failing{errors.New("connection reset")})
		if status := execute(p); status != 1 || stdout.Len() > 0 {
			t.Errorf("%q: status %d, stdout %q", args, status, stdout)
		}
		if !strings.HasPrefix(stderr.String(),
			"signalbox: cannot read standard input: connection reset\nhint: ") {
			t.Errorf("%q: stderr %q", args, stderr)
		}
	}
}
