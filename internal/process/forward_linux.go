package process

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"signalbox/internal/sandbox"
)

// A program that may reach one server only has a network namespace without a way out. Its keeper
// listens there at the address of the server, before the program starts, and passes the listening
// sockets to its parent. A socket belongs to the network that it was made in, wherever it is
// used: so the parent accepts the program's connections there, and connects each of them with the
// server in its own network. Where that is, the parent knows from its own policy. Nothing that
// the program sends can change it.

const (
	// maxForwarded is how many connections of a program are open at the same time. More wait
	// until one ends.
	maxForwarded = 64
	// dialLimit is how long it may take to connect to the server.
	dialLimit = 30 * time.Second
	// maxListeners is how many sockets a keeper passes at most: one each for IPv4 and IPv6.
	maxListeners = 2
)

// passListeners sends a message to the parent together with listening sockets, which this process
// then closes.
func passListeners(line []byte, sockets []int) error {
	defer sandbox.CloseSockets(sockets)
	return unix.Sendmsg(keeperSocket, line, unix.UnixRights(sockets...), nil, unix.MSG_NOSIGNAL)
}

// gateReader reads what a keeper sends, and collects the descriptors that come with it.
type gateReader struct {
	socket   *os.File
	received []*os.File
}

func (r *gateReader) Read(p []byte) (n int, err error) {
	conn, err := r.socket.SyscallConn()
	if err != nil {
		return 0, err
	}
	oob := make([]byte, unix.CmsgSpace(4*maxListeners))
	var rights int
	var failed error
	err = conn.Read(func(fd uintptr) bool {
		for {
			n, rights, _, _, failed = unix.Recvmsg(int(fd), p, oob, unix.MSG_CMSG_CLOEXEC)
			if !errors.Is(failed, unix.EINTR) {
				return !errors.Is(failed, unix.EAGAIN)
			}
		}
	})
	if err = errors.Join(err, failed); err != nil {
		return 0, err
	}
	messages, err := unix.ParseSocketControlMessage(oob[:rights])
	if err != nil {
		return n, err
	}
	for _, m := range messages {
		fds, err := unix.ParseUnixRights(&m)
		if err != nil {
			return n, err
		}
		for _, fd := range fds {
			r.received = append(r.received, os.NewFile(uintptr(fd), "listener"))
		}
	}
	if n == 0 && len(p) > 0 {
		return 0, io.EOF
	}
	return n, nil
}

// takeListeners returns the listeners that the keeper has passed.
func (r *gateReader) takeListeners() (listeners []net.Listener, err error) {
	for _, file := range r.received {
		l, failed := net.FileListener(file) // has a descriptor of its own
		file.Close()
		if err = errors.Join(err, failed); failed == nil {
			listeners = append(listeners, l)
		}
	}
	r.received = nil
	return listeners, err
}

// dialer connects to the server.
type dialer func(context.Context) (halfConn, error)

// forwarder connects a program with the only server that it may reach.
type forwarder struct {
	dial      dialer
	listeners []net.Listener
	end       context.CancelFunc
	running   sync.WaitGroup
	slots     chan struct{} // has an element for each open connection

	mu     sync.Mutex
	failed error // of the last connection to the server; nil if there is one, or none was tried
}

// startForwarder accepts connections until close is called.
func startForwarder(listeners []net.Listener, dial dialer) *forwarder {
	ctx, cancel := context.WithCancel(context.Background())
	f := &forwarder{dial: dial, listeners: listeners, end: cancel}
	f.slots = make(chan struct{}, maxForwarded)
	for _, l := range listeners {
		f.running.Go(func() { f.accept(ctx, l) })
	}
	return f
}

// close ends all connections, and returns why the server could not be reached the last time it
// was tried.
func (f *forwarder) close() error {
	if f == nil {
		return nil
	}
	f.end()
	for _, l := range f.listeners {
		l.Close()
	}
	f.running.Wait()
	return f.failed
}

func (f *forwarder) accept(ctx context.Context, l net.Listener) {
	for {
		select {
		case f.slots <- struct{}{}:
		case <-ctx.Done():
			return
		}
		conn, err := l.Accept()
		if err == nil {
			f.running.Go(func() {
				f.forward(ctx, conn.(halfConn)) // a *net.TCPConn
				<-f.slots
			})
			continue
		}
		<-f.slots
		if !Transient(err) {
			return // it is closed
		}
		select { // until this process can open more files
		case <-time.After(longPause):
		case <-ctx.Done():
		}
	}
}

// forward connects one connection of the program with the server, until both sides have ended it.
func (f *forwarder) forward(ctx context.Context, program halfConn) {
	defer program.Close()
	server, err := f.dial(ctx)
	f.note(ctx, err)
	if err != nil {
		reset(program)
		return
	}
	defer server.Close()
	stop := context.AfterFunc(ctx, func() {
		program.Close()
		server.Close()
	})
	defer stop()
	var both sync.WaitGroup
	both.Go(func() { copyHalf(server, program) })
	both.Go(func() { copyHalf(program, server) })
	both.Wait()
}

// note remembers whether the server could be reached.
func (f *forwarder) note(ctx context.Context, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if ctx.Err() == nil {
		f.failed = err
	}
}

// halfConn is a connection that can be ended in one direction. All that are forwarded are.
type halfConn interface {
	net.Conn
	CloseWrite() error
}

// copyHalf copies one direction of a connection, as it arrives. Its end is passed on, so that the
// other direction can continue. What breaks off must not look like an end, so an error resets
// both.
func copyHalf(to, from halfConn) {
	_, err := io.Copy(to, from)
	if err == nil {
		err = to.CloseWrite()
	}
	if err != nil {
		reset(to)
		reset(from)
	}
}

// reset closes a connection so that the other side notices that it is incomplete.
func reset(conn net.Conn) {
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	conn.Close()
}

// forward starts to forward the program's connections, if its sandbox has a server and this
// system can limit it to that.
func (g *gate) forward(spec Spec) error {
	listeners, err := g.reader.takeListeners()
	if !spec.forwards() {
		return err
	}
	server := spec.Sandbox.Network.Server
	proxy, proxyErr := proxyFor(server, spec.Env)
	if err == nil && len(listeners) == 0 {
		err = fmt.Errorf("its keeper does not listen as %s", server.Address())
	}
	if err = errors.Join(err, proxyErr); err != nil {
		for _, l := range listeners {
			l.Close()
		}
		return err
	}
	g.forwarder = startForwarder(listeners, func(ctx context.Context) (halfConn, error) {
		ctx, cancel := context.WithTimeout(ctx, dialLimit)
		defer cancel()
		conn, err := dialThrough(ctx, proxy, server.Address())
		if err != nil {
			err = fmt.Errorf("connect to %s: %w", server.Address(), err)
		}
		return conn, err
	})
	return nil
}

// forwards reports whether the program's connections are forwarded.
func (s Spec) forwards() bool { return s.Sandbox.Restricted() && s.support().Forwards(s.Sandbox) }

// programEnviron returns the environment of the program. One whose connections are forwarded must
// not look for the user's proxy, which is used here instead.
func (s Spec) programEnviron() (env []string) {
	if !s.forwards() {
		return s.Env
	}
	for _, entry := range s.Env {
		if !IsProxyVariable(entry) {
			env = append(env, entry)
		}
	}
	return env
}
