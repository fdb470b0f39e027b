//go:build linux || darwin

package process

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"signalbox/internal/sandbox"
)

// visits are what a program in a sandbox does to find out what it reaches. Each prints what it
// found.
var visits = map[string]func(string) error{
	"get":    visitGet,
	"stream": visitStream,
	"many":   visitMany,
	"half":   visitHalf,
	"reach":  visitReach,
	"settle": visitSettle,
	"obey":   visitObey,
	"leave":  visitLeave,
}

// visitGet gets a page. It trusts the certificates in the file ca.pem.
func visitGet(url string) error {
	pool := x509.NewCertPool()
	if text, err := os.ReadFile("ca.pem"); err == nil {
		pool.AppendCertsFromPEM(text)
	}
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool},
		Proxy: http.ProxyFromEnvironment}}
	response, err := client.Get(url)
	if err != nil {
		fmt.Println("failed:", err)
		return nil
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	fmt.Printf("%s", text)
	return err
}

// visitStream gets a page line by line, and confirms each line before the server sends the next.
func visitStream(url string) error {
	response, err := http.Get(url)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	for lines := bufio.NewScanner(response.Body); lines.Scan(); {
		fmt.Println(lines.Text())
		confirmed, err := http.Get(url + "seen/" + lines.Text())
		if err != nil {
			return err
		}
		confirmed.Body.Close()
	}
	return nil
}

// visitMany opens as many connections at the same time as may be open, and waits for a line on
// each.
func visitMany(address string) error {
	var all sync.WaitGroup
	results := make([]error, manyVisits)
	for i := range results {
		all.Go(func() {
			conn, err := net.Dial("tcp", address)
			if err == nil {
				_, err = conn.Read(make([]byte, 1))
				conn.Close()
			}
			results[i] = err
		})
	}
	all.Wait()
	fmt.Println(errors.Join(results...))
	return nil
}

// manyVisits is how many connections visitMany opens.
const manyVisits = 60

// visitHalf sends a text, ends its direction of the connection, and prints the answer, which
// comes after that.
func visitHalf(address string) error {
	conn, err := net.Dial("tcp", address)
	if err != nil {
		return err
	}
	defer conn.Close()
	text := bytes.Repeat([]byte("x"), 1<<20)
	if _, err := conn.Write(text); err != nil {
		return err
	}
	if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
		return err
	}
	answer, err := io.ReadAll(conn)
	fmt.Printf("%s\n", answer)
	return err
}

// visitReach sends a word to several addresses, and prints which of them answer with one.
func visitReach(addresses string) error {
	for address := range strings.FieldsSeq(addresses) {
		network, rest, _ := strings.Cut(address, "=")
		fmt.Println(address, reaches(network, rest))
	}
	return nil
}

func reaches(network, address string) bool {
	conn, err := net.Dial(network, address)
	if err != nil {
		return false
	}
	defer conn.Close()
	if _, err := conn.Write([]byte("hello\n")); err != nil {
		return false
	}
	n, err := conn.Read(make([]byte, 16))
	return err == nil && n > 0
}

// visitSettle tries to listen where the server is, to answer in its place.
func visitSettle(address string) error {
	share := func(_, _ string, conn syscall.RawConn) error {
		return conn.Control(func(fd uintptr) {
			_ = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEADDR, 1)
			_ = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEPORT, 1)
		})
	}
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return err
	}
	for _, at := range []string{address, ":" + port, "0.0.0.0:" + port} {
		_, err := (&net.ListenConfig{Control: share}).Listen(context.Background(), "tcp4", at)
		fmt.Println(errors.Is(err, syscall.EADDRINUSE))
	}
	return nil
}

// visitObey sends its key to the server that a file in its folder names, as agent programs do,
// and then to the one of its command.
func visitObey(url string) error {
	planted, err := os.ReadFile(".gemini/.env")
	if err != nil {
		return err
	}
	_, other, _ := strings.Cut(strings.TrimSpace(string(planted)), "=")
	for _, server := range []string{other, url} {
		response, err := http.Post(server, "text/plain", strings.NewReader("the key"))
		if err == nil {
			response.Body.Close()
		}
		fmt.Println(err == nil)
	}
	return nil
}

// visitLeave connects, waits for a byte, and ends without closing the connection.
func visitLeave(address string) error {
	conn, err := net.Dial("tcp", address)
	if err != nil {
		return err
	}
	_, err = conn.Read(make([]byte, 1))
	return err
}

// noNamespaces is what forwardVisitor prints if the user has none.
const noNamespaces = "this user has no namespaces"

// forwardVisitor starts this program in a folder, once more, as one that reaches one server only.
func forwardVisitor(dir string) error {
	server := &sandbox.Server{Scheme: "http", Host: "192.0.2.7", Port: 80}
	spec := Spec{Argv: []string{os.Args[0], "get http://192.0.2.7/"},
		Env: append(Environ(), childVariable+"=visit"), Dir: dir, Stdout: os.Stdout,
		Stderr: os.Stderr,
		Sandbox: &sandbox.Policy{Mode: sandbox.Enforce,
			Read:    []string{"/usr", "/bin", "/lib", "/lib64", "/etc", dir},
			Network: sandbox.Network{Server: server}}}
	if !Support().Namespaces {
		fmt.Println(noNamespaces)
		return nil
	}
	p, err := Start(spec, nil)
	if err != nil {
		return err
	}
	if exit := p.Wait(); exit.Code != 0 || exit.Unreachable != "" {
		return fmt.Errorf("exit %+v", exit)
	}
	return nil
}
