package serve

import (
	"net"
	"sync"
	"testing"
	"time"
)

// clock makes time pass for the deadlines of a server's connections. They never pass by themselves,
// so that a slow machine changes nothing.
type clock struct {
	mu      sync.Mutex
	changed *sync.Cond
	elapsed time.Duration
	conns   map[string]*timedConn // by the address of the client
}

// patience is how long a test waits for the server. It is far longer than the server takes.
const patience = time.Minute

func newClock() *clock {
	c := &clock{conns: map[string]*timedConn{}}
	c.changed = sync.NewCond(&c.mu)
	return c
}

// timedListener accepts connections whose deadlines are those of a clock, and whose buffers are
// small.
type timedListener struct {
	*net.TCPListener
	clock *clock
}

const smallBuffer = 16 << 10

func (l *timedListener) Accept() (net.Conn, error) {
	conn, err := l.AcceptTCP()
	if err != nil {
		return nil, err
	}
	conn.SetWriteBuffer(smallBuffer)
	timed := &timedConn{TCPConn: conn, clock: l.clock}
	l.clock.mu.Lock()
	defer l.clock.mu.Unlock()
	l.clock.conns[conn.RemoteAddr().String()] = timed
	l.clock.changed.Broadcast()
	return timed, nil
}

// timedConn is a connection of the server. Its clock's mu guards its fields.
type timedConn struct {
	*net.TCPConn
	clock       *clock
	read, write time.Duration // when the deadlines pass on the clock; 0 means none
	answered    bool          // a request was read, so that an answer may be written
	closed      bool
}

func (c *timedConn) SetReadDeadline(t time.Time) error {
	return c.set(&c.read, t, c.TCPConn.SetReadDeadline)
}

func (c *timedConn) SetWriteDeadline(t time.Time) error {
	c.clock.mu.Lock()
	c.answered = true
	c.clock.mu.Unlock()
	return c.set(&c.write, t, c.TCPConn.SetWriteDeadline)
}

func (c *timedConn) SetDeadline(t time.Time) error {
	c.SetReadDeadline(t)
	return c.SetWriteDeadline(t)
}

// set changes a deadline. One in the past takes effect at once, one in the future when the clock
// gets there.
func (c *timedConn) set(deadline *time.Duration, t time.Time, apply func(time.Time) error) error {
	c.clock.mu.Lock()
	defer c.clock.mu.Unlock()
	defer c.clock.changed.Broadcast()
	*deadline = 0
	if left := time.Until(t); !t.IsZero() && left > 0 {
		*deadline = c.clock.elapsed + left
		t = time.Time{}
	}
	return apply(t)
}

func (c *timedConn) Close() error {
	c.clock.mu.Lock()
	defer c.clock.mu.Unlock()
	c.closed = true
	c.clock.changed.Broadcast()
	return c.TCPConn.Close()
}

// advance makes time pass.
func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.elapsed += d
	for _, conn := range c.conns {
		if conn.read != 0 && conn.read <= c.elapsed {
			conn.read = 0
			conn.TCPConn.SetReadDeadline(time.Now())
		}
		if conn.write != 0 && conn.write <= c.elapsed {
			conn.write = 0
			conn.TCPConn.SetWriteDeadline(time.Now())
		}
	}
}

// untilClosed makes time pass in small steps until the server closes the connection of a client,
// and returns how much. It calls between before each step.
func (c *clock) untilClosed(t *testing.T, client net.Conn, between func()) (took time.Duration) {
	t.Helper()
	const step = 2 * time.Second
	for start := time.Now(); time.Since(start) < patience; {
		if closed := c.await(t, client,
			func(server *timedConn) bool { return server.closed || server.read != 0 || server.write != 0 }).isClosed(); closed {
			return took
		}
		between()
		c.advance(step)
		took += step
	}
	t.Fatal("the server keeps the connection forever")
	return took
}

// await waits for the server's side of a connection, until it is as wanted.
func (c *clock) await(t *testing.T, client net.Conn, wanted func(*timedConn) bool) *timedConn {
	t.Helper()
	late := false
	alarm := time.AfterFunc(patience, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		late = true
		c.changed.Broadcast()
	})
	defer alarm.Stop()
	c.mu.Lock()
	defer c.mu.Unlock()
	for {
		if server := c.conns[client.LocalAddr().String()]; server != nil && wanted(server) {
			return server
		}
		if late {
			t.Fatal("the connection has no deadline, and is not closed")
		}
		c.changed.Wait()
	}
}

func (c *timedConn) isClosed() bool {
	c.clock.mu.Lock()
	defer c.clock.mu.Unlock()
	return c.closed
}
