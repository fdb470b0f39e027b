// Package loopback finds addresses on this machine for servers whose address must be known before
// they start.
package loopback

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"runtime"
	"strconv"
	"testing"
)

// Address returns an address HOST:PORT on which nothing listens, neither at that port nor at the
// next one.
//
// On Linux every address 127.x.y.z is this machine. A random one is never used by two tests at
// once; elsewhere another program may take the port before the test does.
func Address(t testing.TB) string {
	t.Helper()
	address, err := Find()
	if err != nil {
		t.Fatal(err)
	}
	return address
}

// Find is Address without a test.
func Find() (string, error) {
	for range 100 {
		host, port := "127.0.0.1", 0
		if runtime.GOOS == "linux" {
			host, port = fmt.Sprintf("127.%d.%d.%d", 1+rand.IntN(254), rand.IntN(256),
				1+rand.IntN(254)), 7420
		}
		first, err := net.Listen("tcp", net.JoinHostPort(host, strconv.Itoa(port)))
		if err != nil {
			continue
		}
		port = first.Addr().(*net.TCPAddr).Port
		second, err := net.Listen("tcp", net.JoinHostPort(host, strconv.Itoa(port+1)))
		first.Close()
		if err == nil {
			second.Close()
			return net.JoinHostPort(host, strconv.Itoa(port)), nil
		}
	}
	return "", errors.New("there are no two free ports")
}
