package nats

import (
	"crypto/tls"
	"errors"
	"testing"

	"signalbox/internal/testkit/must"
)

// A secret is changed on one machine after the other: first all machines get the new one as their
// second line, then as their first, and then alone. In each step, machines that have done it and
// machines that have not must accept each other.
func TestSecretIsChanged(t *testing.T) {
	before, after := string(NewSecret()), string(NewSecret())
	steps := []string{before, before + after, after + before, after}
	for i, server := range steps {
		for j, client := range steps {
			err := shakeHands(t, server, client)
			switch apart := max(i, j) - min(i, j); {
			case apart <= 1 && err != nil:
				t.Errorf("a machine in step %d does not reach one in step %d: %v", j, i, err)
			case apart == len(steps)-1 && err == nil:
				t.Errorf("a machine with only one secret reaches one with only the other")
			}
		}
	}
}

// shakeHands connects a client to a server, each with its secret.
func shakeHands(t *testing.T, server, client string) error {
	t.Helper()
	var ends [2]*tls.Config
	for i, secret := range []string{server, client} {
		config, err := nodeTLS([]byte(secret), []string{"a.example.com"})
		must.Succeed(t, err)
		config.ServerName = "a.example.com"
		ends[i] = config
	}
	listener, err := tls.Listen("tcp", "127.0.0.1:0", ends[0])
	must.Succeed(t, err)
	defer listener.Close()
	served := make(chan error, 1)
	go func() {
		conn, err := listener.Accept()
		if err == nil {
			err = conn.(*tls.Conn).Handshake()
			conn.Close()
		}
		served <- err
	}()
	conn, err := tls.Dial("tcp", listener.Addr().String(), ends[1])
	if err == nil {
		conn.Close()
	}
	return errors.Join(<-served, err)
}
