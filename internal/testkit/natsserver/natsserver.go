// Package natsserver starts NATS servers for tests, in the process of the test.
package natsserver

import (
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// Start starts a server with JetStream on a free port of the loopback interface, and returns its
// address. It ends with the test. change changes its options; nil changes nothing.
func Start(t testing.TB, change func(*server.Options)) string {
	t.Helper()
	opts := &server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, JetStream: true,
		StoreDir: t.TempDir(), SyncAlways: true, NoSigs: true, NoLog: true,
		AuthTimeout: 60, TLSTimeout: 60} // seconds: a busy machine may stand still for some
	if change != nil {
		change(opts)
	}
	s, err := server.NewServer(opts)
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() {
		s.Shutdown()
		s.WaitForShutdown()
	})
	if !s.ReadyForConnections(time.Minute) {
		t.Fatal("the server does not start")
	}
	return s.ClientURL()
}
