package nats

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// gate accepts the connections of clients for a server of this process, and passes on only what
// signalbox sends. nats-server 2.14.0 to 2.15.2 looks at the header
// Nats-Expected-Last-Msg-Id only after the replicas of a stream have agreed on a message: if it is
// not as expected, every replica stops using the stream, and does so again after each restart. No
// setting and no permission of the server keeps a client from sending it, so the gate does, and
// passes no other header that signalbox does not send. A program that has the secret of the
// cluster can still speak to the nodes as one of them, at the next port.
type gate struct {
	listener net.Listener
	tls      *tls.Config
	connect  func() (net.Conn, error) // to the server
	log      *serverLog
	ctx      context.Context // done when the gate is closed
	cancel   context.CancelFunc
}

// knownHeaders are the headers that signalbox sends.
var knownHeaders = []string{jetstream.ExpectedStreamHeader, jetstream.ExpectedLastSeqHeader,
	jetstream.ExpectedLastSubjSeqHeader, jetstream.MsgIDHeader, batchID, batchSequence, batchCommit}

// openGate listens at an address. It accepts connections when run is called.
func openGate(address string, config *tls.Config, log *serverLog) (*gate, error) {
	listener, err := listen(address)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	return &gate{listener: listener, tls: config, log: log, ctx: ctx, cancel: cancel}, nil
}

// close stops listening. The connections end with the server.
func (g *gate) close() {
	g.cancel()
	g.listener.Close()
}

// run accepts connections until the gate is closed.
func (g *gate) run(connect func() (net.Conn, error)) {
	g.connect = connect
	for {
		conn, err := g.listener.Accept()
		if err == nil {
			go g.serve(conn)
			continue
		}
		if g.ctx.Err() == nil {
			g.log.Errorf("cannot accept a connection: %v", err)
		}
		select {
		case <-g.ctx.Done():
			return
		case <-time.After(lockPoll): // too many files may be open
		}
	}
}

// serve connects one client with the server.
func (g *gate) serve(conn net.Conn) {
	defer conn.Close()
	client := tls.Server(conn, g.tls)
	handshake, cancel := context.WithTimeout(g.ctx, tlsSeconds*time.Second)
	err := client.HandshakeContext(handshake)
	cancel()
	if err != nil {
		g.log.Errorf("TLS handshake error: %v", err)
		return
	}
	server, err := g.connect()
	if err != nil {
		return // it is being stopped
	}
	defer server.Close()
	go func() {
		defer conn.Close()
		_, _ = io.Copy(client, server)
	}()
	if err := pass(server, client); errors.Is(err, errForeign) {
		g.log.Errorf("closed the connection of a client at %v: %v", conn.RemoteAddr(), err)
	}
}

// errForeign means that a client sent something that signalbox never sends.
var errForeign = errors.New("it sent what no client of signalbox sends")

// passBuffer is the size of the largest line, and of the largest headers, that pass on. Those of
// signalbox are much smaller.
const passBuffer = 32 << 10

// pass passes on what a client sends. It understands the protocol only as signalbox speaks it: what
// it would read differently from the server could hide a message in another one.
func pass(server io.Writer, client io.Reader) error {
	in, out := bufio.NewReaderSize(client, passBuffer), bufio.NewWriterSize(server, passBuffer)
	for {
		if in.Buffered() == 0 {
			if err := out.Flush(); err != nil {
				return err
			}
		}
		line, err := in.ReadSlice('\n')
		if errors.Is(err, bufio.ErrBufferFull) {
			return fmt.Errorf("%w: a line of more than %d bytes", errForeign, passBuffer)
		} else if err != nil {
			return err
		}
		operation, rest, _ := bytes.Cut(bytes.TrimRight(line, "\r\n"), []byte(" "))
		payload := 0
		switch name := string(operation); name {
		case "PING", "PONG":
			_, err = out.WriteString(name + "\r\n")
		case "CONNECT", "SUB", "UNSUB":
			// The server would take the next line for the arguments if there are none.
			if rest = bytes.TrimSpace(rest); len(rest) == 0 || bytes.ContainsAny(rest, "\r\x00") {
				return fmt.Errorf("%w: %.100q", errForeign, line)
			}
			_, err = fmt.Fprintf(out, "%s %s\r\n", name, rest)
		case "PUB", "HPUB":
			numbers := 1
			if name == "HPUB" {
				numbers = 2 // the size of the headers, and of all
			}
			fields, sizes, ok := splitPublish(rest, numbers)
			if !ok {
				return fmt.Errorf("%w: %.100q", errForeign, line)
			}
			command := fmt.Sprintf("%s %s\r\n", name, bytes.Join(fields, []byte(" ")))
			if name == "HPUB" {
				if err := checkHeaders(in, sizes[0], string(fields[0])); err != nil {
					return err
				}
			}
			_, err = out.WriteString(command)
			payload = sizes[numbers-1] + len("\r\n")
		default:
			return fmt.Errorf("%w: %.20q", errForeign, operation)
		}
		if err == nil {
			_, err = io.CopyN(out, in, int64(payload))
		}
		if err != nil {
			return err
		}
	}
}

// splitPublish splits SUBJECT [REPLY] SIZE…, which ends with so many sizes.
func splitPublish(line []byte, n int) (fields [][]byte, sizes []int, ok bool) {
	fields = bytes.Fields(line)
	if len(fields) != n+1 && len(fields) != n+2 {
		return nil, nil, false
	}
	for _, field := range fields[len(fields)-n:] {
		size, err := strconv.ParseUint(string(field), 10, 31)
		if err != nil {
			return nil, nil, false
		}
		sizes = append(sizes, int(size))
	}
	return fields, sizes, slices.IsSorted(sizes)
}

// checkHeaders returns an error unless the next bytes are headers of signalbox.
func checkHeaders(in *bufio.Reader, size int, subject string) error {
	headers, err := in.Peek(size)
	if errors.Is(err, bufio.ErrBufferFull) {
		return fmt.Errorf("%w: %d bytes of headers to %.100q", errForeign, size, subject)
	} else if err != nil {
		return err
	}
	rest, first := bytes.CutPrefix(headers, []byte("NATS/1.0\r\n"))
	rest, last := bytes.CutSuffix(rest, []byte("\r\n"))
	if !first || !last {
		return fmt.Errorf("%w: unusual headers to %.100q", errForeign, subject)
	}
	for len(rest) > 0 {
		line, after, _ := bytes.Cut(rest, []byte("\r\n"))
		name, _, _ := bytes.Cut(line, []byte(":"))
		if !slices.Contains(knownHeaders, string(name)) {
			return fmt.Errorf("%w: the header %.100q to %.100q", errForeign, name, subject)
		}
		rest = after
	}
	return nil
}
