package nats

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	natsgo "github.com/nats-io/nats.go"

	"signalbox"
	"signalbox/internal/core/journal"
	"signalbox/internal/durable"
)

// Every node verifies its own copy of the ledger, from its files: all of it before its server
// starts and then once a day, and what is added within seconds. A node whose copy is damaged does
// not run, and so does not count when the others agree on an event, and cannot lead them. Its
// process gets the files from a node that has verified its own, verifies them too, and only then
// starts the server. The state of the group (Raft) stays: the server remembers for whom it voted
// and what it has acknowledged.
//
// A node notes what it has verified, and its files must have that when it starts. But a server with
// replicas syncs its log, and the files only later: when it starts, it cuts the files off after the
// last event of its newest snapshot, and stores what follows again from its log. So the files of
// such a node need not have more than its snapshot.

const (
	// copyPoll is how often new events are verified.
	copyPoll = 5 * time.Second
	// copyDaily is how often the whole copy is verified while the server runs, and copyShare the
	// part of the time that this may take.
	copyDaily = 24 * time.Hour
	copyShare = 5
	// copyPatience is how long the nodes are given to answer.
	copyPatience = time.Second
	// copyPiece is how many bytes of a file are sent at once.
	copyPiece = 512 << 10
)

// ownCopy is the copy of the ledger on this machine.
type ownCopy struct {
	cluster Cluster
	stream  string
	tls     *tls.Config
	log     *slog.Logger
	doubts  chan struct{} // has an element if all of the copy is to be verified at once

	// These are used by one goroutine at a time: prepare, watch or finish.
	reader *copyReader
	had    uint64 // the last event that the node had when it was started
	group  string // of the replicas, "" if it is not known

	mu     sync.Mutex
	report *copyReport // nil if another process runs the node; guarded by mu
}

// copyReport is what a node says about its copy.
type copyReport struct {
	Node string `json:"node"`
	copyMark
	// Time is when it last verified all events.
	Time    time.Time `json:"time"`
	Problem string    `json:"problem,omitempty"`
	Blocks  []uint32  `json:"blocks,omitempty"` // the numbers of its files
}

func (c *ownCopy) dir() string { return filepath.Join(c.cluster.streamsDir(), c.stream, "msgs") }

func (c *ownCopy) newReader(dir string, expect copyMark) *copyReader {
	return &copyReader{dir: dir, stream: c.stream, subject: (&client{name: c.stream}).eventSubject(),
		expect: expect}
}

// prepare verifies the copy, and replaces it if it is damaged. The server must not be started if it
// returns an error. It gives up when stop is closed.
func (c *ownCopy) prepare(stop <-chan struct{}) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		select {
		case <-stop:
			cancel()
		case <-ctx.Done():
		}
	}()
	said := time.AfterFunc(waitingAfter,
		func() { c.log.Warn("verifying the copy of the ledger on this machine") })
	defer said.Stop()
	note := c.readNote()
	c.group = note.Group
	r, err := c.needed(note)
	if err != nil {
		return err
	}
	err = r.advance()
	if errors.Is(err, errDamagedCopy) || errors.Is(err, errInvalidEvent) {
		if c.current().Problem != err.Error() { // it is tried again and again
			c.log.Warn("looking for a good copy of the ledger on the other machines", "error", err)
		}
		c.setReport(r.last, note.Time, err)
		good, missing := c.refill(ctx, r.expect, r.last.Seq)
		switch {
		case missing == nil:
			r, err = good, nil
		case errors.Is(err, errInvalidEvent):
			// The others have it too: it is in the log, which readers refuse.
			c.log.Warn("no other machine has a better copy of the ledger", "error", missing)
			c.reader = nil
			return nil
		default:
			return signalbox.CodeUnverified.Errorf("keep the folder "+c.cluster.Dir+
				" as it is; start the other machines of the cluster, from which the node gets a good copy by itself; if they have none, restore a backup",
				"%w; not replaced: %w", err, missing)
		}
	}
	if err != nil {
		return c.cluster.unreadable(err)
	}
	r.expect, r.replays = copyMark{}, false
	c.reader = r
	c.had = note.Seq
	c.setReport(r.last, time.Now(), nil)
	return c.writeNote(r.last)
}

// needed returns a reader for a copy whose server does not run, which expects what it must have.
func (c *ownCopy) needed(note copyNote) (*copyReader, error) {
	if len(c.cluster.Nodes) == 1 {
		return c.newReader(c.dir(), note.copyMark), nil
	}
	r := c.newReader(c.dir(), copyMark{})
	r.replays = true
	if note.Group == "" { // it has not run yet
		return r, nil
	}
	last, ok, err := readSnapshot(c.cluster.groupDir(note.Group), note.Group)
	if err != nil {
		return nil, signalbox.CodeUnverified.Errorf(
			"replace this node: docs/how-to/machines.md, Replace a machine",
			"%w: %w", errDamagedCopy, err)
	}
	r.expect.Seq, r.replays = note.Seq, ok
	if ok { // a snapshot may come from the leader, before its events
		r.expect.Seq = min(last, note.Seq)
	}
	return r, nil
}

// watch verifies what is added, and once a day everything, until stop is closed. It calls bad, and
// returns, if the copy is damaged. Stored returns what the server has stored, and the name of its
// group.
func (c *ownCopy) watch(stop <-chan struct{}, stored func() (last uint64, group string),
	bad func(error)) {
	doubt := false
	for c.reader != nil {
		select {
		case <-stop:
			return
		case <-c.doubts:
			doubt, c.reader = true, c.newReader(c.dir(), copyMark{})
		case <-time.After(copyPoll):
		}
		last, group := stored()
		err := c.advance(last)
		if err == nil && group != "" && group != c.group {
			c.group = group
			err = c.writeNote(c.reader.last)
		}
		if err == nil && time.Since(c.current().Time) > copyDaily {
			err = c.verifyAgain(stop)
		}
		switch damaged := errors.Is(err, errDamagedCopy); {
		case damaged && !doubt:
			// A server with replicas cuts its files off when it starts, or if the others have
			// agreed on something else. So it is read from the start.
			doubt, c.reader = true, c.newReader(c.dir(), copyMark{})
			continue
		case damaged, errors.Is(err, errInvalidEvent) && c.isAlone():
			c.setReport(c.reader.last, c.current().Time, err)
			if err := c.writeNote(copyMark{Seq: last}); err != nil {
				c.log.Warn("cannot note what the copy of the ledger on this machine must have",
					"error", err)
			}
			bad(err)
			return
		case errors.Is(err, errInvalidEvent):
			c.setReport(c.reader.last, c.current().Time, err)
			c.log.Warn("an event of the ledger is not valid", "error", err)
			return
		case err != nil && !errors.Is(err, errStopped):
			c.setReport(c.reader.last, c.current().Time, err)
			c.log.Warn("cannot verify the copy of the ledger on this machine", "error", err)
		}
		doubt = false
	}
}

// suspect makes watch verify the whole copy now.
func (c *ownCopy) suspect() {
	select {
	case c.doubts <- struct{}{}:
	default:
	}
}

// isAlone reports whether another node has verified an event that is not valid in this copy.
func (c *ownCopy) isAlone() bool {
	conn, _, err := c.findBetter(context.Background(), copyMark{}, c.reader.last.Seq)
	if err == nil {
		conn.Close()
	}
	return err == nil
}

// advance verifies what was added. The copy must have the event last, if it is not 0.
func (c *ownCopy) advance(last uint64) error {
	before := c.current()
	c.reader.expect = copyMark{Seq: last}
	if err := c.reader.advance(); err != nil {
		return err
	}
	var behind error
	if last != 0 && last < c.had {
		behind = fmt.Errorf("it ends at event %d, and had event %d when the node was started", last,
			c.had)
	}
	c.setReport(c.reader.last, before.Time, behind)
	if c.reader.last == before.copyMark {
		return nil
	}
	return c.writeNote(c.reader.last)
}

var errStopped = errors.New("the node is being stopped")

// verifyAgain verifies everything, slowly.
func (c *ownCopy) verifyAgain(stop <-chan struct{}) error {
	r := c.newReader(c.dir(), c.reader.last)
	began := time.Now()
	r.pause = func() error {
		pause := time.Since(began) * (copyShare - 1)
		defer func() { began = time.Now() }()
		select {
		case <-stop:
			return errStopped
		case <-time.After(pause):
			return nil
		}
	}
	err := r.advance()
	r.pause = nil
	if err == nil {
		c.reader = r
		c.setReport(r.last, time.Now(), nil)
		err = c.writeNote(r.last)
	}
	return err
}

// finish notes what the server has stored until it ended.
func (c *ownCopy) finish() {
	if c.reader == nil {
		return
	}
	if err := c.advance(0); err != nil && !errors.Is(err, errDamagedCopy) { // see prepare
		c.log.Warn("cannot verify the copy of the ledger on this machine", "error", err)
	}
}

func (c *ownCopy) setReport(last copyMark, at time.Time, problem error) {
	report := &copyReport{Node: c.cluster.Node, copyMark: last, Time: at}
	if problem != nil {
		report.Problem = problem.Error()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.report = report
}

// forget makes the process say nothing about the copy: another one runs the node.
func (c *ownCopy) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.report = nil
}

// current returns what is known about the copy.
func (c *ownCopy) current() copyReport {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.report == nil {
		return copyReport{}
	}
	return *c.report
}

// copyNote is what a node remembers of its copy.
type copyNote struct {
	copyMark
	Time  time.Time `json:"time"`
	Group string    `json:"group,omitempty"` // of the replicas
	Sum   string    `json:"sum"`             // of the other fields
}

func (n copyNote) sum() string {
	text := fmt.Appendf(nil, "%d %x %d %s", n.Seq, n.Hash[:], n.Time.UnixNano(), n.Group)
	return fmt.Sprintf("%x", sha256.Sum256(text))
}

// noteFile is in the folder of the server's data, so that it goes where that goes.
func (c *ownCopy) noteFile() string {
	return filepath.Join(c.cluster.storeDir(), "verified-"+c.stream+".json")
}

// readNote returns the note, or none if it is damaged itself.
func (c *ownCopy) readNote() (note copyNote) {
	data, err := os.ReadFile(c.noteFile())
	if errors.Is(err, fs.ErrNotExist) {
		return note
	}
	if err == nil {
		err = json.Unmarshal(data, &note)
	}
	if err == nil && note.Sum != note.sum() {
		err = errors.New("wrong checksum")
	}
	if err != nil {
		c.log.Warn("cannot read what this machine had verified of the ledger: verifying all of it",
			"file", c.noteFile(), "error", err)
		return copyNote{}
	}
	return note
}

// writeNote notes what the copy must have, unless it had more when the node was started: it may
// still get that from the others.
func (c *ownCopy) writeNote(must copyMark) error {
	report := c.current()
	if must.Seq == 0 || must.Seq < c.had {
		return nil
	}
	note := copyNote{copyMark: must, Time: report.Time, Group: c.group}
	note.Sum = note.sum()
	data, err := json.Marshal(note)
	if err != nil {
		return err
	}
	return durable.Replace(c.noteFile(), data, 0o600)
}

// copiesSubject is where all nodes are asked about their copies, and copySubject where one of them
// is asked for a piece of a file.
func copiesSubject(stream string) string { return "signalbox." + stream + ".copies" }
func copySubject(stream, node string) string {
	return "signalbox." + stream + ".copy." + node
}

// pieceRequest asks for a piece of a file.
type pieceRequest struct {
	Block  uint32 `json:"block"`
	Offset int64  `json:"offset"`
}

// answer answers questions about the copy on a connection of this process, which need not be to its
// own node: one with a damaged copy does not run.
func (c *ownCopy) answer(conn *natsgo.Conn) error {
	_, err := conn.Subscribe(copiesSubject(c.stream), func(m *natsgo.Msg) {
		report := c.current()
		if report.Node == "" {
			return
		}
		report.Blocks, _ = blockNumbers(c.dir())
		if data, err := json.Marshal(report); err == nil {
			_ = m.Respond(data)
		}
	})
	if err != nil {
		return err
	}
	_, err = conn.Subscribe(copySubject(c.stream, c.cluster.Node), func(m *natsgo.Msg) {
		var request pieceRequest
		if json.Unmarshal(m.Data, &request) != nil || c.current().Node == "" {
			return
		}
		file, err := os.Open(blockFile(c.dir(), request.Block))
		if err != nil {
			return
		}
		defer file.Close()
		data := make([]byte, copyPiece)
		n, err := file.ReadAt(data, request.Offset)
		if err == nil || errors.Is(err, io.EOF) {
			_ = m.Respond(data[:n])
		}
	})
	return err
}

// askCopies asks the nodes about their copies until so many have answered or time is up.
func askCopies(ctx context.Context, conn *natsgo.Conn, stream string,
	nodes int) (map[string]copyReport, error) {
	ctx, cancel := context.WithTimeout(ctx, copyPatience)
	defer cancel()
	answers, err := conn.SubscribeSync(conn.NewInbox())
	if err != nil {
		return nil, err
	}
	defer answers.Unsubscribe()
	if err := conn.PublishRequest(copiesSubject(stream), answers.Subject, nil); err != nil {
		return nil, err
	}
	reports := map[string]copyReport{}
	for len(reports) < nodes {
		m, err := answers.NextMsgWithContext(ctx)
		if err != nil { // those that have not answered are not known
			return reports, nil
		}
		var report copyReport
		if json.Unmarshal(m.Data, &report) == nil && report.Node != "" {
			reports[report.Node] = report
		}
	}
	return reports, nil
}

// findBetter connects to another node, and returns the report of the one that has verified most:
// more than the events up to good, and at least as many as the note says.
func (c *ownCopy) findBetter(ctx context.Context, note copyMark,
	good uint64) (conn *natsgo.Conn, from copyReport, err error) {
	if len(c.cluster.Nodes) == 1 {
		return nil, from, errors.New("there is no other node")
	}
	conn, err = natsgo.Connect(strings.Join(c.cluster.urls()[1:], ","), natsgo.Secure(c.tls),
		natsgo.TLSHandshakeFirst(), natsgo.IgnoreDiscoveredServers(),
		natsgo.Timeout(defaultAttempt), natsgo.Name("signalbox "+c.stream))
	if err != nil {
		return nil, from, fmt.Errorf("no other node can be reached: %w", err)
	}
	reports, err := askCopies(ctx, conn, c.stream, len(c.cluster.Nodes))
	for _, r := range reports {
		if r.Node != c.cluster.Node && r.Problem == "" && r.Seq > from.Seq {
			from = r
		}
	}
	if err == nil && (from.Seq < note.Seq || from.Seq <= good) {
		err = errors.New("no other node has verified these events in its own copy")
	}
	if err != nil {
		conn.Close()
		return nil, from, err
	}
	return conn, from, nil
}

// refill replaces the copy by one that another node has verified. The damaged files are kept. It
// changes nothing if it fails.
func (c *ownCopy) refill(ctx context.Context, note copyMark, good uint64) (*copyReader, error) {
	conn, from, err := c.findBetter(ctx, note, good)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	dir := filepath.Join(c.cluster.Dir, "refill-"+c.stream)
	if err := errors.Join(os.RemoveAll(dir), os.Mkdir(dir, 0o700)); err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	for _, block := range from.Blocks {
		if err := c.fetch(ctx, conn, from.Node, dir, block); err != nil {
			return nil, fmt.Errorf("copy from node %s: %w", from.Node, err)
		}
	}
	expect := note
	if from.Seq > note.Seq {
		expect = from.copyMark
	}
	r := c.newReader(dir, expect)
	if err := r.advance(); err != nil {
		return nil, fmt.Errorf("the copy of node %s: %w", from.Node, err)
	}
	// The last file may end in the middle of an event, which was being written.
	if err := os.Truncate(blockFile(dir, r.block), r.offset); err != nil {
		return nil, err
	}
	aside := filepath.Join(c.cluster.Dir,
		"damaged"+asideSuffix+time.Now().UTC().Format("20060102T150405Z"))
	if err := os.Rename(c.dir(), aside); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if err := errors.Join(durable.SyncFolder(dir), os.Rename(dir, c.dir()),
		durable.SyncFolder(filepath.Dir(c.dir())), durable.SyncFolder(c.cluster.Dir)); err != nil {
		return nil, err
	}
	r.dir, r.expect = c.dir(), copyMark{}
	c.log.Warn("replaced the damaged copy of the ledger on this machine by a verified one: remove the damaged files when you no longer need them",
		"from", from.Node, "events", r.last.Seq, "damaged", aside)
	return r, nil
}

// fetch copies a file of another node.
func (c *ownCopy) fetch(ctx context.Context, conn *natsgo.Conn, node, dir string,
	block uint32) error {
	file, err := os.Create(blockFile(dir, block))
	if err != nil {
		return err
	}
	defer file.Close()
	for offset := int64(0); ; {
		request, err := json.Marshal(pieceRequest{block, offset})
		if err != nil {
			return err
		}
		attempt, cancel := context.WithTimeout(ctx, defaultAttempt)
		m, err := conn.RequestWithContext(attempt, copySubject(c.stream, node), request)
		cancel()
		if err != nil {
			return err
		}
		if len(m.Data) == 0 {
			return file.Sync()
		}
		if _, err := file.Write(m.Data); err != nil {
			return err
		}
		offset += int64(len(m.Data))
	}
}

// Copies returns what the nodes of a cluster say about their own copies of the ledger, and a
// journal.Copy without a time for each that does not answer. It returns none if the servers are not
// nodes of signalbox.
func (j *Journal) Copies(ctx context.Context) (copies []journal.Copy, err error) {
	err = j.Do(ctx, func(ctx context.Context) error {
		if !j.embedded {
			return nil
		}
		var reports map[string]copyReport
		err := j.retry(ctx, func() (err error) { // a lost connection comes back
			reports, err = askCopies(ctx, j.conn, j.name, len(j.nodes))
			return sendError(err)
		})
		for _, node := range j.nodes {
			r := reports[node]
			copies = append(copies, journal.Copy{Node: node, Events: r.Seq, Hash: r.Hash,
				Verified: r.Time, Problem: r.Problem})
		}
		return err
	}, "ask the nodes about their copies of the ledger")
	return copies, err
}
