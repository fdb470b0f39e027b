//go:build linux || darwin

package process

import (
	"bytes"
	"strings"
	"testing"

	"signalbox/internal/testkit/must"
)

// A program that speaks can read and write as much as others, and gets blocking descriptors.
func TestSpeaksLargeInputAndOutput(t *testing.T) {
	input := bytes.Repeat([]byte("0123456789abcdef"), 256<<10)
	exit, out := run(t, Spec{Argv: []string{"cat"}, Stdin: input, Speaks: true})
	wantExit(t, exit, 0, "")
	if out != string(input) {
		t.Errorf("got %d of %d bytes", len(out), len(input))
	}
}

func TestSpeaksConversation(t *testing.T) {
	spec := shell(`while read -r line; do echo "read $line"; done; echo over; exit 5`)
	spec.Interactive, spec.Speaks, spec.Stdin = true, true, []byte("the prompt\n")
	p, lines := startReading(t, spec)
	if got := nextLine(t, lines); got != "read the prompt" {
		t.Errorf("output %q", got)
	}
	if err := p.WriteLine("one"); err != nil {
		t.Error(err)
	}
	if got := nextLine(t, lines); got != "read one" {
		t.Errorf("output %q", got)
	}
	p.CloseInput()
	if got := nextLine(t, lines); got != "over" {
		t.Errorf("output %q", got)
	}
	wantExit(t, p.Wait(), 5, "")
}

// WriteLine does not block, even if the program reads nothing.
func TestSpeaksWriteLineDoesNotBlock(t *testing.T) {
	spec := shell(`while :; do sleep 1000; done`)
	spec.Interactive, spec.Speaks = true, true
	p := start(t, spec)
	for range 100 {
		must.Succeed(t, p.WriteLine(strings.Repeat("x", 64<<10)))
	}
	p.Stop(ample)
	wantExit(t, p.Wait(), 143, "SIGTERM")
}

// What a program that speaks writes last is not lost, and what it leaves behind cannot add to it.
// The process that is left behind writes when the program has ended.
func TestSpeaksEndsWithTheProgram(t *testing.T) {
	for _, speaks := range []bool{true, false} {
		// The parent ends when the child holds the output. The child is told to end with SIGTERM
		// after the program has ended.
		spec := shell(`sh -c 'trap "echo left behind; exit" TERM; echo ready; while :; do sleep 0.01; done' & read -r _; echo last words; exit 0`)
		spec.Speaks, spec.Interactive, spec.Grace = speaks, true, ample
		p, lines := startReading(t, spec)
		if got := nextLine(t, lines); got != "ready" {
			t.Fatalf("output %q", got)
		}
		must.Succeed(t, p.WriteLine("continue"))
		var rest strings.Builder
		if _, err := lines.WriteTo(&rest); err != nil {
			t.Fatal(err)
		}
		wantExit(t, p.Wait(), 0, "")
		want := "last words\nleft behind\n"
		if speaks {
			want = "last words\n"
		}
		if rest.String() != want {
			t.Errorf("speaks %v: output %q, want %q", speaks, rest.String(), want)
		}
	}
}

// Stopped tells a program that Stop ended from one that something else ended.
func TestStopped(t *testing.T) {
	p := start(t, shell(`while :; do sleep 1000; done`))
	p.Stop(ample)
	if exit := p.Wait(); !exit.Stopped || exit.Signal != "SIGTERM" {
		t.Errorf("after Stop: %+v", exit)
	}
	exit, _ := run(t, shell(`kill -TERM $$`))
	if exit.Stopped || exit.Signal != "SIGTERM" {
		t.Errorf("without Stop: %+v", exit)
	}
}
