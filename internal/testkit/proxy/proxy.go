// Package proxy has a TCP proxy for tests, which can pause, refuse and reset connections, lose
// answers, and cut requests in the middle.
package proxy

import (
	"bytes"
	"net"
	"sync"
	"sync/atomic"
)

// Proxy forwards connections to a server. All methods may be called concurrently.
type Proxy struct {
	listener        net.Listener
	network, target string
	work            sync.WaitGroup

	mu      sync.Mutex // guards what follows
	changed *sync.Cond // paused or closed
	paused  bool
	refuses bool
	closed  bool
	faults  []*fault
	open    map[net.Conn]bool // both sides of all connections
}

// fault is what happens to the next request with a text, or to its answer.
type fault struct {
	text     []byte
	answer   bool
	instead  []byte // of the answer; nil resets the connection
	happened chan struct{}
}

// Start starts a proxy on a free port of 127.0.0.1 that forwards to the server at an address, such
// as "tcp", "127.0.0.1:5432".
func Start(network, target string) (*Proxy, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &Proxy{listener: listener, network: network, target: target, open: map[net.Conn]bool{}}
	p.changed = sync.NewCond(&p.mu)
	p.work.Go(p.accept)
	return p, nil
}

// Addr returns the address to which clients connect.
func (p *Proxy) Addr() *net.TCPAddr { return p.listener.Addr().(*net.TCPAddr) }

// Close resets all connections and ends the proxy.
func (p *Proxy) Close() error {
	p.mu.Lock()
	p.closed = true
	p.changed.Broadcast()
	p.mu.Unlock()
	err := p.listener.Close()
	p.Reset()
	p.work.Wait()
	return err
}

// Target makes new connections lead to another server.
func (p *Proxy) Target(network, target string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.network, p.target = network, target
}

// Pause makes the proxy forward nothing, as a network that loses all packets. New connections are
// accepted.
func (p *Proxy) Pause() { p.set(func() { p.paused = true }) }

// Resume ends Pause. What was sent in the meantime arrives.
func (p *Proxy) Resume() { p.set(func() { p.paused = false }) }

// Refuse makes the proxy reset all connections, and new ones as soon as they are made.
func (p *Proxy) Refuse() {
	p.set(func() { p.refuses = true })
	p.Reset()
}

// Accept ends Refuse.
func (p *Proxy) Accept() { p.set(func() { p.refuses = false }) }

func (p *Proxy) set(change func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change()
	p.changed.Broadcast()
}

// Reset resets all connections.
func (p *Proxy) Reset() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.open {
		reset(c)
	}
}

// reset closes a connection so that the other side gets an error, and not the end of the stream.
func reset(c net.Conn) {
	if tcp, ok := c.(*net.TCPConn); ok {
		tcp.SetLinger(0)
	}
	c.Close()
}

// LoseAnswer loses the answer of the server to the next request that contains a text, and resets
// its connection. The channel is closed when that has happened.
func (p *Proxy) LoseAnswer(text string) <-chan struct{} {
	return p.add(&fault{text: []byte(text), answer: true})
}

// ReplaceAnswer sends something instead of the answer of the server to the next request that
// contains a text. The channel is closed when the client has closed the connection after it.
func (p *Proxy) ReplaceAnswer(text string, instead []byte) <-chan struct{} {
	return p.add(&fault{text: []byte(text), answer: true, instead: instead})
}

// CutRequest forwards only the first half of the next request that contains a text, and resets its
// connection. The channel is closed when that has happened.
func (p *Proxy) CutRequest(text string) <-chan struct{} { return p.add(&fault{text: []byte(text)}) }

func (p *Proxy) add(f *fault) <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	f.happened = make(chan struct{})
	p.faults = append(p.faults, f)
	return f.happened
}

// Forgive forgets the faults that have not happened yet.
func (p *Proxy) Forgive() { p.set(func() { p.faults = nil }) }

// take returns the fault that happens to a request, nil if there is none.
func (p *Proxy) take(request []byte) *fault {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, f := range p.faults {
		if bytes.Contains(request, f.text) {
			p.faults = append(p.faults[:i:i], p.faults[i+1:]...)
			return f
		}
	}
	return nil
}

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.work.Go(func() { p.serve(client) })
	}
}

// serve forwards a connection in both directions until either side ends it.
func (p *Proxy) serve(client net.Conn) {
	p.mu.Lock()
	network, target := p.network, p.target
	p.mu.Unlock()
	if !p.track(client) {
		return
	}
	defer p.remove(client)
	server, err := net.Dial(network, target)
	if err != nil || !p.track(server) {
		return
	}
	defer p.remove(server)
	c := &connection{proxy: p, client: client, server: server}
	var both sync.WaitGroup
	both.Go(c.forwardRequests)
	both.Go(c.forwardAnswers)
	both.Wait()
	if f := c.loses.Load(); f != nil {
		close(f.happened)
	}
}

// track registers a connection, unless the proxy refuses it.
func (p *Proxy) track(c net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.refuses || p.closed {
		reset(c)
		return false
	}
	p.open[c] = true
	return true
}

func (p *Proxy) remove(c net.Conn) {
	reset(c)
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.open, c)
}

// connection is a connection that is forwarded.
type connection struct {
	proxy          *Proxy
	client, server net.Conn
	loses          atomic.Pointer[fault] // the next answer
}

func (c *connection) reset() {
	reset(c.client)
	reset(c.server)
}

func (c *connection) forwardRequests() {
	defer c.reset()
	for buffer := make([]byte, 64<<10); ; {
		n, err := c.client.Read(buffer)
		if err != nil || !c.proxy.await() {
			return
		}
		request := buffer[:n]
		f := c.proxy.take(request)
		if f != nil && !f.answer {
			c.server.Write(request[:n/2])
			c.reset()
			close(f.happened)
			return
		}
		if f != nil && !c.loses.CompareAndSwap(nil, f) {
			close(f.happened) // by the same reset
		}
		if _, err := c.server.Write(request); err != nil {
			return
		}
	}
}

func (c *connection) forwardAnswers() {
	for buffer := make([]byte, 64<<10); ; {
		n, err := c.server.Read(buffer)
		open := err == nil && c.proxy.await()
		f := c.loses.Load()
		if open && f != nil && f.instead != nil {
			c.client.Write(f.instead)
			return // a reset could overtake it: the client ends the connection
		}
		if open && f == nil {
			_, err = c.client.Write(buffer[:n])
		}
		if !open || f != nil || err != nil {
			c.reset()
			return
		}
	}
}

// await waits until the proxy is not paused, and reports whether it is still open.
func (p *Proxy) await() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.paused && !p.closed {
		p.changed.Wait()
	}
	return !p.closed
}
