package nats

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"errors"
	"io"
	"os"
	"testing"
	"testing/iotest"
	"time"

	natsgo "github.com/nats-io/nats.go"

	"signalbox"
	"signalbox/internal/testkit/must"
	"signalbox/internal/testkit/natsserver"
)

// wantStored checks how many pieces and notes the stream of files has.
func wantStored(t *testing.T, j *Journal, when string, pieces, notes int) {
	t.Helper()
	for pattern, want := range map[string]int{"signalbox." + j.name + ".piece.>": pieces,
		j.noteSubject("*"): notes} {
		info, err := j.findSubjects(t.Context(), pattern)
		if err != nil || len(info.State.Subjects) != want {
			t.Errorf("%s: %d messages of %s, %v, want %d", when, len(info.State.Subjects), pattern,
				err, want)
		}
	}
}

// content returns different bytes for each first byte, which need a number of pieces.
func content(first byte, pieces int) []byte {
	b := make([]byte, pieces*pieceBytes)
	b[0] = first
	return b
}

func wantBlob(t *testing.T, j *Journal, want []byte) {
	t.Helper()
	r, err := j.GetBlob(t.Context(), sha256.Sum256(want))
	must.Succeed(t, err)
	defer r.Close()
	if got, err := io.ReadAll(r); err != nil || !bytes.Equal(got, want) {
		t.Errorf("read %d bytes, %v, want %d", len(got), err, len(want))
	}
}

// What the upload of a killed process has left is deleted by the next upload, when it is old.
func TestKilledUpload(t *testing.T) {
	address := natsserver.Start(t, nil) + "/box"
	j := openJournal(t, address)
	defer j.Close()
	cmd := child{Address: address, Upload: true}.command(t)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	must.Succeed(t, err)
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "ready\n" {
		t.Fatalf("%q, %v", line, err)
	}
	must.Succeed(t, cmd.Process.Kill())
	_ = cmd.Wait()
	wantStored(t, j, "after the kill", 3, 1)
	if _, err := j.PutBlob(t.Context(), bytes.NewReader(content(1, 2))); err != nil {
		t.Fatal(err)
	}
	wantStored(t, j, "after an upload", 3+2, 1)

	later, err := Open(t.Context(), address, Options{uploadAge: 1, attempt: time.Minute})
	must.Succeed(t, err)
	defer later.Close()
	if _, err := later.PutBlob(t.Context(), bytes.NewReader(content(2, 2))); err != nil {
		t.Fatal(err)
	}
	wantStored(t, j, "after a later upload", 2+2, 0)
	wantBlob(t, j, content(1, 2))
	wantBlob(t, j, content(2, 2))
}

// An upload leaves nothing but its blob, however it ends.
func TestUploadLeavesNothing(t *testing.T) {
	j := openJournal(t, natsserver.Start(t, nil)+"/box")
	defer j.Close()
	for range 2 { // the second time the blob is known
		if _, err := j.PutBlob(t.Context(), bytes.NewReader(content(1, 2))); err != nil {
			t.Fatal(err)
		}
		wantStored(t, j, "after an upload", 2, 0)
	}
	broken := errors.New("the pipe broke")
	if _, err := j.PutBlob(t.Context(), io.MultiReader(bytes.NewReader(content(2, 2)),
		iotest.ErrReader(broken))); !errors.Is(err, broken) {
		t.Errorf("put: %v", err)
	}
	wantStored(t, j, "after a failure", 2, 0)
	must.Succeed(t, j.DeleteBlob(t.Context(), sha256.Sum256(content(1, 2))))
	wantStored(t, j, "after a deletion", 0, 0)
}

// Another process collects while an upload is at each of its steps. An upload that is not old
// succeeds. One that is given up never reports a blob as stored that it is not, and a blob that is
// complete stays.
func TestCollectDuringUpload(t *testing.T) {
	address := natsserver.Start(t, nil)
	digest := signalbox.Hash(sha256.Sum256(content(1, 2)))
	for name, age := range map[string]time.Duration{"new": 0, "old": 1} {
		for step := range 4 {
			box := address + "/" + newName()
			j := openJournal(t, box)
			defer j.Close()
			other, err := Open(t.Context(), box, Options{uploadAge: age, attempt: time.Minute})
			must.Succeed(t, err)
			defer other.Close()
			collect := func(now int) {
				if now == step {
					if err := other.collectUploads(t.Context()); err != nil {
						t.Errorf("%s %d: %v", name, step, err)
					}
				}
			}
			u, err := j.upload(t.Context(), io.MultiReader(bytes.NewReader(content(1, 1)),
				readerFunc(func([]byte) (int, error) {
					collect(0)
					return 0, io.EOF
				}), bytes.NewReader(make([]byte, pieceBytes))))
			must.Succeed(t, err)
			collect(1)
			if err = j.writeNote(t.Context(), &u, digest[:]); err == nil {
				collect(2)
				if _, err = j.addBlob(t.Context(), digest, u.file); err != nil {
					t.Fatal(err)
				}
				collect(3)
				err = j.finish(t.Context(), u)
			}
			_, _, bad := j.verifyBlob(t.Context(), digest)
			switch {
			case name == "new" && (err != nil || bad != nil):
				t.Errorf("%s %d: %v, %v", name, step, err, bad)
			case name == "old" && !errors.Is(err, errGivenUp):
				t.Errorf("%s %d: %v, want %v", name, step, err, errGivenUp)
			case name == "old" && step == 3 && bad != nil:
				t.Errorf("%s %d: the pieces of a blob were deleted: %v", name, step, bad)
			}
			// It can be stored again.
			if _, err := j.PutBlob(t.Context(), bytes.NewReader(content(1, 2))); err != nil {
				t.Errorf("%s %d: %v", name, step, err)
			}
			wantBlob(t, j, content(1, 2))
		}
	}
}

// A collection that was interrupted is completed.
func TestCollectionIsKilled(t *testing.T) {
	j := openJournal(t, natsserver.Start(t, nil)+"/box")
	defer j.Close()
	u, err := j.upload(t.Context(), bytes.NewReader(content(1, 2)))
	must.Succeed(t, err)
	must.Succeed(t, j.writeNote(t.Context(), &u, []byte(givenUp)))
	must.Succeed(t, j.erase(t.Context(), u.pieces[0]))
	wantStored(t, j, "before", 1, 1)
	must.Succeed(t, j.collectUploads(t.Context()))
	wantStored(t, j, "after", 0, 0)
}

// While the servers do not answer, deleting what is not needed does not take longer than an
// attempt.
func TestDiscardIsShort(t *testing.T) {
	j := fakeServer(t, Options{attempt: 20 * time.Millisecond, patience: 24 * time.Hour},
		map[string]func(*natsgo.Msg){
			"$JS.API.STREAM.MSG.DELETE.shop_files": func(*natsgo.Msg) {}})
	j.discard(t.Context(), upload{file: file{pieces: make([]uint64, 1_000_000)}, id: "x", note: 1})
}
