package main

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"signalbox"
)

// natsDatabase is a JetStream server, or a cluster of them, on this machine. Every node is a
// process. It waits for the disk at each message, as the nodes of a box do.
type natsDatabase struct {
	dir   string
	nodes []natsNode
	live  []*child
	conn  *natsgo.Conn
}

// natsNode is a node of a cluster, as an argument of its process.
type natsNode struct {
	Name, Dir            string
	Port, Route, Monitor int
	Routes               []int // of the other nodes
}

// startNATS returns a function that starts a cluster of the given number of nodes.
func startNATS(nodes int) func(dir string) (database, error) {
	return func(dir string) (database, error) {
		dir, err := os.MkdirTemp(dir, "signalbox-bench-nats-")
		if err != nil {
			return nil, err
		}
		d := &natsDatabase{dir: dir}
		if err := d.start(nodes); err != nil {
			return nil, errors.Join(err, d.stop())
		}
		return d, nil
	}
}

func (d *natsDatabase) start(nodes int) error {
	ports, err := freePorts(3 * nodes)
	if err != nil {
		return err
	}
	for i := range nodes {
		n := natsNode{Name: fmt.Sprintf("node-%d", i), Dir: fmt.Sprintf("%s/%d", d.dir, i),
			Port: ports[3*i], Route: ports[3*i+1], Monitor: ports[3*i+2]}
		for other := range nodes {
			if other != i {
				n.Routes = append(n.Routes, ports[3*other+1])
			}
		}
		d.nodes = append(d.nodes, n)
	}
	for _, n := range d.nodes {
		text, err := json.Marshal(n)
		if err != nil {
			return err
		}
		c, err := startChild("nats", string(text), 0)
		if err != nil {
			return err
		}
		d.live = append(d.live, c)
	}
	for _, c := range d.live {
		if _, err := c.receive(); err != nil {
			return err
		}
	}
	d.conn, err = natsgo.Connect(d.servers())
	return err
}

// natsTask runs a node until it is killed.
func natsTask(text string, _ int, send func(report) error) error {
	var n natsNode
	if err := json.Unmarshal([]byte(text), &n); err != nil {
		return err
	}
	opts := &server.Options{ServerName: n.Name, Host: loopbackHost, Port: n.Port, HTTPHost: loopbackHost, HTTPPort: n.Monitor,
		JetStream: true, StoreDir: n.Dir, SyncAlways: true, NoSigs: true, NoLog: true}
	if len(n.Routes) > 0 {
		opts.Cluster = server.ClusterOpts{Name: "bench", Host: loopbackHost, Port: n.Route}
		for _, port := range n.Routes {
			opts.Routes = append(opts.Routes,
				&url.URL{Scheme: "nats-route", Host: fmt.Sprintf("%s:%d", loopbackHost, port)})
		}
	}
	s, err := server.NewServer(opts)
	if err != nil {
		return err
	}
	s.Start()
	if !s.ReadyForConnections(time.Minute) {
		return errors.New("the server does not start")
	}
	if err := send(report{What: n.Name}); err != nil {
		return err
	}
	s.WaitForShutdown()
	return nil
}

func (d *natsDatabase) stop() error {
	if d.conn != nil {
		d.conn.Close()
	}
	for _, c := range d.live {
		c.Process.Kill()
		c.Wait() // it was killed
	}
	return os.RemoveAll(d.dir)
}

func (d *natsDatabase) servers() string {
	var hosts []string
	for _, n := range d.nodes {
		hosts = append(hosts, fmt.Sprintf("%s:%d", loopbackHost, n.Port))
	}
	return "nats://" + strings.Join(hosts, ",")
}

func (d *natsDatabase) place(box string) string {
	return d.servers() + "/" + strings.ReplaceAll(box, "_", "-") + fmt.Sprintf("?replicas=%d",
		len(d.nodes))
}

// ping makes a round trip to a server.
func (d *natsDatabase) ping() error { return d.conn.FlushTimeout(time.Minute) }

// connections adds up the clients of all nodes, but not the connection of the database itself.
func (d *natsDatabase) connections() (int, error) {
	sum := -1
	for _, n := range d.nodes {
		answer, err := http.Get(fmt.Sprintf("http://%s:%d/varz", loopbackHost, n.Monitor))
		if err != nil {
			return 0, err
		}
		var status struct{ Connections int }
		err = json.NewDecoder(answer.Body).Decode(&status)
		if err := errors.Join(err, answer.Body.Close()); err != nil {
			return 0, err
		}
		sum += status.Connections
	}
	return sum, nil
}

// bare publishes what a journal publishes, with the same expected sequence number.
func (d *natsDatabase) bare(place string) (store, func() error, error) {
	if err := createJournal(place); err != nil {
		return nil, nil, err
	}
	conn, err := natsgo.Connect(d.servers())
	if err != nil {
		return nil, nil, err
	}
	_, name, _ := strings.Cut(strings.TrimPrefix(place, "nats://"), "/")
	name, _, _ = strings.Cut(name, "?")
	batch := 0
	add := func(events []signalbox.Event) error {
		ctx, cancel := context.WithTimeout(context.Background(), bareTimeout)
		defer cancel()
		batch++
		for i := range events {
			m := natsgo.NewMsg("signalbox." + name + ".event")
			m.Data = natsMessage(&events[i])
			if i == 0 {
				m.Header.Set(jetstream.ExpectedLastSeqHeader,
					strconv.FormatUint(events[0].Seq-1, 10))
			}
			last := i == len(events)-1
			if len(events) > 1 {
				m.Header.Set("Nats-Batch-Id", strconv.Itoa(batch))
				m.Header.Set("Nats-Batch-Sequence", strconv.Itoa(i+1))
				if last {
					m.Header.Set("Nats-Batch-Commit", "1")
				}
			}
			if !last {
				if err := conn.PublishMsg(m); err != nil {
					return err
				}
				continue
			}
			answer, err := conn.RequestMsgWithContext(ctx, m)
			if err != nil {
				return err
			}
			var ack struct {
				Seq   uint64
				Error *jetstream.APIError
			}
			if err := json.Unmarshal(answer.Data, &ack); err != nil || ack.Error != nil ||
				ack.Seq != events[i].Seq {
				return fmt.Errorf("event %d: the server answers %s", events[i].Seq, answer.Data)
			}
		}
		return nil
	}
	return add, func() error { conn.Close(); return nil }, nil
}

// natsMessage returns an event as the journal stores it.
func natsMessage(e *signalbox.Event) []byte {
	b := append(make([]byte, 0, 1024), 1)
	b = binary.BigEndian.AppendUint64(b, 0) // the number of the append
	b = binary.BigEndian.AppendUint64(b, e.Seq)
	b = binary.BigEndian.AppendUint64(b, uint64(e.Time.UnixNano()))
	b = append(b, e.Prev[:]...)
	b = append(b, e.Hash[:]...)
	for _, text := range [...]string{e.Type, e.Work, e.Session, e.Actor} {
		b = append(binary.AppendUvarint(b, uint64(len(text))), text...)
	}
	b = append(b, e.Data...)
	return binary.BigEndian.AppendUint32(b, crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli)))
}

const loopbackHost = "127.0.0.1"

// freePorts returns ports on which nothing listens.
func freePorts(n int) (ports []int, err error) {
	for range n {
		l, err := net.Listen("tcp", net.JoinHostPort(loopbackHost, "0"))
		if err != nil {
			return nil, err
		}
		defer l.Close() // all at the end, so that they differ
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
	}
	return ports, nil
}
