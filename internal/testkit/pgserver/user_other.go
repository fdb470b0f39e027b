//go:build !unix

package pgserver

import (
	"errors"
	"os/exec"
)

func asAnotherUser(*exec.Cmd) {}

func giveAway(string) error { return nil }

var errUnix = errors.New("the tests run PostgreSQL only on Unix")

func (s *Server) Kill() error { return errUnix }

func (s *Server) Pause() error { return errUnix }

func (s *Server) Resume() error { return errUnix }
