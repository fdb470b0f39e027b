package offline_test

import (
	"errors"
	"net"
	"os"
	"strconv"
	"syscall"
	"testing"
	"time"

	"signalbox/internal/testkit/must"
	"signalbox/internal/testkit/offline"
)

// TestRun reaches a server on this machine, and no other, as the same user.
func TestRun(t *testing.T) {
	const user = "OFFLINE_TEST_USER"
	me := strconv.Itoa(os.Getuid())
	if !offline.Inside() {
		offline.Run(t, time.Minute, user+"="+me)
		return
	}
	offline.Start(t)
	if os.Getenv(user) != me {
		t.Error("it is another user")
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must.Succeed(t, err)
	defer listener.Close()
	connection, err := net.Dial("tcp", listener.Addr().String())
	must.Succeed(t, err)
	connection.Close()
	if connection, err := net.Dial("tcp", "192.0.2.1:80"); err == nil ||
		!errors.Is(err, syscall.ENETUNREACH) {
		t.Errorf("it reaches other machines: %v, %v", connection, err)
	}
}
