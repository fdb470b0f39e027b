package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"sync"
	"time"

	"signalbox/internal/rehearsal/modelserver"
)

// serveMode as the only argument makes this program the model server: a process of its own, so that its work is not counted
// as the oracle's.
const serveMode = "serve-model"

// orders are what the server reads first.
type orders struct {
	Script *modelserver.Script
	// Gate: answers that wait between their pieces wait after the first until they are told to go on.
	Gate bool
}

// serve is the server's main. It prints its address, opens the gate at the next line that it reads, and ends with its input.
func serve(in io.Reader, out io.Writer) error {
	lines := bufio.NewReader(in)
	text, err := lines.ReadBytes('\n')
	if err != nil {
		return err
	}
	var told orders
	if err := json.Unmarshal(text, &told); err != nil {
		return err
	}
	gate := make(chan struct{})
	open := sync.OnceFunc(func() { close(gate) })
	if !told.Gate {
		open()
	}
	handler, err := modelserver.New(told.Script, &modelserver.Options{Keep: 1, Sleep: func(ctx context.Context, d time.Duration) error {
		return wait(ctx, gate, d)
	}})
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	server := &http.Server{Handler: handler}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	if _, err := fmt.Fprintf(out, "http://%s\n", listener.Addr()); err != nil {
		return err
	}
	for {
		if _, err := lines.ReadBytes('\n'); err != nil {
			break
		}
		open()
	}
	return errors.Join(server.Close(), ignoreClosed(<-ended))
}

func ignoreClosed(err error) error {
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// wait waits for the gate, and then as long as it should.
func wait(ctx context.Context, gate <-chan struct{}, d time.Duration) error {
	select {
	case <-gate:
	case <-ctx.Done():
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// server is a model server in a process of its own. It ends with its parent.
type server struct {
	url string
	cmd *exec.Cmd
	in  io.WriteCloser
}

func startServer(script *modelserver.Script, gate bool) (*server, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(orders{script, gate})
	if err != nil {
		return nil, err
	}
	s := &server{cmd: exec.Command(self, serveMode)}
	s.cmd.Stderr = os.Stderr
	if s.in, err = s.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := s.cmd.Start(); err != nil {
		return nil, err
	}
	if _, err := s.in.Write(append(text, '\n')); err != nil {
		return nil, errors.Join(err, s.stop())
	}
	if _, err := fmt.Fscanln(out, &s.url); err != nil {
		return nil, errors.Join(fmt.Errorf("the model server did not begin: %w", err), s.stop())
	}
	return s, nil
}

// openGate lets the answers at the gate go on.
func (s *server) openGate() error {
	_, err := io.WriteString(s.in, "open\n")
	return err
}

func (s *server) stop() error { return errors.Join(s.in.Close(), s.cmd.Wait()) }

// cpu is the time that the server took of the processor; it must have been stopped.
func (s *server) cpu() time.Duration {
	if s.cmd.ProcessState == nil {
		return 0
	}
	return s.cmd.ProcessState.UserTime() + s.cmd.ProcessState.SystemTime()
}
