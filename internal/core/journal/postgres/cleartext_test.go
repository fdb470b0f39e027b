package postgres

import (
	"net"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgproto3"

	"signalbox"
	"signalbox/internal/testkit/must"
)

// A server without TLS that asks for the password as it is does not get it.
func TestClearTextPassword(t *testing.T) {
	const password = "secret-password"
	t.Setenv("PGPASSWORD", password)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must.Succeed(t, err)
	defer listener.Close()
	got := make(chan string, 100)
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				close(got)
				return
			}
			askPassword(conn, got)
			conn.Close()
		}
	}()
	for _, parameters := range []string{"", "&sslmode=disable", "&sslmode=allow"} {
		j, err := Open(t.Context(), "postgres://ann@"+listener.Addr().String()+
			"/shop?connect_timeout=60"+parameters, Options{Schema: "shop"})
		if err == nil {
			j.Close()
		}
		if err == nil || !strings.Contains(err.Error(), "not allowed without TLS") ||
			strings.ContainsAny(err.Error(), "\n\t") || strings.Contains(err.Error(), password) {
			t.Errorf("%q: %v", parameters, err)
		}
		if signalbox.CodeOf(err) != signalbox.CodeFailed {
			t.Errorf("%q: code %v", parameters, signalbox.CodeOf(err))
		}
	}
	listener.Close()
	for text := range got {
		t.Errorf("the server got %q", text)
	}
}

// askPassword has no TLS, and asks for the password. It sends the answer to got.
func askPassword(conn net.Conn, got chan<- string) {
	backend := pgproto3.NewBackend(conn, conn)
	for {
		message, err := backend.ReceiveStartupMessage()
		if err != nil {
			return
		}
		if _, start := message.(*pgproto3.StartupMessage); start {
			break
		}
		if _, err := conn.Write([]byte("N")); err != nil {
			return
		}
	}
	backend.Send(&pgproto3.AuthenticationCleartextPassword{})
	if backend.Flush() != nil || backend.SetAuthType(pgproto3.AuthTypeCleartextPassword) != nil {
		return
	}
	if message, err := backend.Receive(); err == nil {
		if answer, ok := message.(*pgproto3.PasswordMessage); ok {
			got <- answer.Password
		}
	}
}
