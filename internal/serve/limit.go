package serve

import (
	"container/list"
	"crypto/tls"
	"net"
	"net/http"
	"sync"
)

// limitedListener has a maximum number of open connections. To accept one more, it closes the
// connection that has waited longest for a request, so that clients cannot keep others out by
// holding connections open. If every connection has a request, the new one waits.
type limitedListener struct {
	net.Listener
	max int

	// mu guards the fields below, and those of the connections. changed is signalled when they
	// change.
	mu      sync.Mutex
	changed *sync.Cond
	open    int
	waiting *list.List // of *limitedConn: those without a request, longest first
	closed  bool
}

func newLimitedListener(l net.Listener, limit int) *limitedListener {
	limited := &limitedListener{Listener: l, max: limit, waiting: list.New()}
	limited.changed = sync.NewCond(&limited.mu)
	return limited
}

func (l *limitedListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.open >= l.max && !l.closed {
		if longest := l.waiting.Front(); longest != nil {
			longest.Value.(*limitedConn).closeLocked() // the server notices, and closes it again
		} else {
			l.changed.Wait()
		}
	}
	if l.closed {
		c.Close()
		return nil, net.ErrClosed
	}
	l.open++
	return &limitedConn{Conn: c, listener: l}, nil
}

func (l *limitedListener) Close() error {
	l.mu.Lock()
	l.closed = true
	l.changed.Broadcast()
	l.mu.Unlock()
	return l.Listener.Close()
}

// setState is called by the server when a connection starts or stops to wait for a request.
func (l *limitedListener) setState(conn net.Conn, state http.ConnState) {
	if secure, ok := conn.(*tls.Conn); ok {
		conn = secure.NetConn()
	}
	c, ok := conn.(*limitedConn)
	if !ok {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if c.waits != nil {
		l.waiting.Remove(c.waits)
		c.waits = nil
	}
	if !c.closed && (state == http.StateNew || state == http.StateIdle) {
		c.waits = l.waiting.PushBack(c)
		l.changed.Broadcast()
	}
}

// limitedConn is a connection that counts until it is closed.
type limitedConn struct {
	net.Conn
	listener *limitedListener
	closed   bool
	waits    *list.Element // in listener.waiting, nil if it has a request
}

func (c *limitedConn) Close() error {
	c.listener.mu.Lock()
	defer c.listener.mu.Unlock()
	return c.closeLocked()
}

// closeLocked closes the connection. The caller holds the listener's mu.
func (c *limitedConn) closeLocked() error {
	if !c.closed {
		c.closed = true
		c.listener.open--
		if c.waits != nil {
			c.listener.waiting.Remove(c.waits)
			c.waits = nil
		}
		c.listener.changed.Broadcast()
	}
	return c.Conn.Close()
}
