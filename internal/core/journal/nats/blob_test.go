package nats

import (
	"bytes"
	"context"
	"crypto/sha256"
	"testing"
	"time"

	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"signalbox/internal/testkit/must"
	"signalbox/internal/testkit/natsserver"
)

// The server stores which pieces a blob has, its answer is lost, and the server has forgotten the
// message when it is sent again. Then the pieces that it finds are its own, and are not erased.
func TestAnswerToBlobIsLost(t *testing.T) {
	t.Parallel()
	address := natsserver.Start(t, nil)
	other := openJournal(t, address+"/box")
	defer other.Close()
	info, err := other.streamInfo(t.Context(), other.files())
	must.Succeed(t, err)
	info.Config.Duplicates = 100 * time.Millisecond // the least
	must.Succeed(t, other.api(t.Context(), "STREAM.UPDATE."+other.files(), info.Config, nil))
	data := content(1, 2)
	p := &proxy{mark: "PUB signalbox.box.blob.", forward: true, broken: func() {
		for stored := false; !stored; {
			var err error
			if _, stored, err = other.entry(context.Background(),
				other.blobSubject(sha256.Sum256(data))); err != nil {
				t.Error(err)
				return
			}
		}
		// The server forgets messages in the order in which it got them, so this one is forgotten
		// last.
		later := natsgo.NewMsg(other.noteSubject("later"))
		later.Header.Set(jetstream.MsgIDHeader, "later")
		for first, known := true, true; known; first = false {
			var ack pubAck
			answer, err := other.request(context.Background(), later)
			if err == nil {
				err = decodeAnswer(answer, &ack)
			}
			if err != nil {
				t.Error(err)
				return
			}
			known = first || ack.Duplicate
		}
	}}
	j, err := Open(t.Context(), startProxy(t, address, p)+"/box",
		Options{patience: time.Minute, attempt: time.Minute})
	must.Succeed(t, err)
	defer j.Close()
	if _, err := j.PutBlob(t.Context(), bytes.NewReader(data)); err != nil {
		t.Fatal(err)
	}
	wantBlob(t, other, data)
	wantStored(t, other, "after the upload", 2, 1) // the note is that of the other message
}

// What was erased already is not an error, and no reason to doubt the ledger.
func TestEraseAgain(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	j := c.open(t, "a", "")
	defer j.Close()
	data := content(1, 2)
	digest, err := j.PutBlob(t.Context(), bytes.NewReader(data))
	must.Succeed(t, err)
	m, found, err := j.entry(t.Context(), j.blobSubject(digest))
	if err != nil || !found {
		t.Fatal(found, err)
	}
	f, err := decodeFile(m.Data)
	must.Succeed(t, err)
	for range 2 {
		must.Succeed(t, j.erase(t.Context(), f.pieces[0]))
	}
}
