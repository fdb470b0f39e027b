package proxy

import (
	"bufio"
	"io"
	"net"
	"testing"
	"time"

	"signalbox/internal/testkit/must"
)

// echo starts a server that answers every line with the same line.
func echo(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must.Succeed(t, err)
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				for lines := bufio.NewReader(c); ; {
					line, err := lines.ReadString('\n')
					if err != nil {
						return
					}
					io.WriteString(c, line)
				}
			}()
		}
	}()
	return l
}

// client is a connection through a proxy.
type client struct {
	net.Conn
	*bufio.Reader
}

func dial(t *testing.T, p *Proxy) client {
	t.Helper()
	c, err := net.Dial("tcp", p.Addr().String())
	must.Succeed(t, err)
	t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(time.Minute))
	return client{c, bufio.NewReader(c)}
}

func (c client) ask(line string) (string, error) {
	if _, err := io.WriteString(c.Conn, line+"\n"); err != nil {
		return "", err
	}
	return c.ReadString('\n')
}

func TestProxy(t *testing.T) {
	server := echo(t)
	p, err := Start("tcp", server.Addr().String())
	must.Succeed(t, err)
	defer p.Close()
	wantAnswer := func(c client) {
		t.Helper()
		if got, err := c.ask("x"); got != "x\n" {
			t.Errorf("answer %q, %v", got, err)
		}
	}
	wantFailure := func(c client) {
		t.Helper()
		if got, err := c.ask("lost"); err == nil || got != "" {
			t.Errorf("answer %q, %v", got, err)
		}
	}
	c := dial(t, p)
	wantAnswer(c)
	p.Reset()
	wantFailure(c)

	for _, fault := range []func(string) <-chan struct{}{p.LoseAnswer, p.CutRequest} {
		c = dial(t, p)
		wantAnswer(c)
		happened := fault("os")
		wantAnswer(c)
		wantFailure(c)
		<-happened
	}

	c = dial(t, p)
	p.Refuse()
	wantFailure(c)
	// the reset may arrive later
	if refused, err := net.Dial("tcp", p.Addr().String()); err == nil {
		defer refused.Close()
		wantFailure(client{refused, bufio.NewReader(refused)})
	}
	p.Accept()
	c = dial(t, p)
	wantAnswer(c)

	p.Pause()
	io.WriteString(c.Conn, "later\n")
	c.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
	if _, err := c.ReadByte(); err == nil {
		t.Error("an answer while the proxy was paused")
	}
	c.SetDeadline(time.Now().Add(time.Minute))
	p.Resume()
	if got, err := c.ReadString('\n'); got != "later\n" {
		t.Errorf("answer %q, %v", got, err)
	}

	other := echo(t)
	server.Close()
	p.Target("tcp", other.Addr().String())
	wantAnswer(dial(t, p))
	p.LoseAnswer("")
	p.Forgive()
	wantAnswer(dial(t, p))
}
