package journaltest

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"io"
	"math/rand"
	"sync"
	"testing"
	"testing/iotest"

	"signalbox"
	"signalbox/internal/core/journal"
)

var blobTests = map[string]func(*testing.T, *log){
	"BlobPutGetDelete":    testBlob,
	"BlobOfManyMegabytes": testBlobLarge,
	"BlobDamage":          testBlobDamage,
	"BlobConcurrentPuts":  testBlobConcurrent,
	"BlobReaderFails":     testBlobReader,
}

func put(t *testing.T, j journal.Log, content []byte) signalbox.Hash {
	t.Helper()
	digest, err := j.PutBlob(testContext(t), bytes.NewReader(content))
	if err != nil {
		t.Fatalf("put: %v", err)
	}
	if want := signalbox.Hash(sha256.Sum256(content)); digest != want {
		t.Fatalf("put returned %v, want %v", digest, want)
	}
	return digest
}

func wantBlob(t *testing.T, j journal.Log, digest signalbox.Hash, want []byte) {
	t.Helper()
	r, err := j.GetBlob(testContext(t), digest)
	if err != nil {
		t.Fatalf("get: %v", err)
	}
	got, err := io.ReadAll(r)
	if err := errors.Join(err, r.Close()); err != nil {
		t.Fatalf("read: %v", err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("got %d other bytes, want %d", len(got), len(want))
	}
	wantParts(t, j, digest, want)
}

// wantParts reads parts of a blob.
func wantParts(t *testing.T, j journal.Log, digest signalbox.Hash, want []byte) {
	t.Helper()
	blob, err := j.OpenBlob(testContext(t), digest)
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	defer blob.Close()
	if blob.Size() != int64(len(want)) {
		t.Errorf("the size is %d, want %d", blob.Size(), len(want))
	}
	for _, at := range []int{0, len(want) / 2, max(0, len(want)-1)} {
		part := make([]byte, min(10, len(want)-at))
		if _, err := blob.ReadAt(part, int64(at)); err != nil && err != io.EOF ||
			!bytes.Equal(part, want[at:at+len(part)]) {
			t.Errorf("read at %d: %q, %v", at, part, err)
		}
	}
	if n, err := blob.ReadAt(make([]byte, 1), int64(len(want))); n != 0 || err != io.EOF {
		t.Errorf("read at the end: %d, %v", n, err)
	}
}

func wantNoBlob(t *testing.T, j journal.Log, digest signalbox.Hash) {
	t.Helper()
	r, err := j.GetBlob(testContext(t), digest)
	if err == nil {
		r.Close()
	}
	wantError(t, "get a blob that is not there", err, journal.ErrNoBlob)
	blob, err := j.OpenBlob(testContext(t), digest)
	if err == nil {
		blob.Close()
	}
	wantError(t, "open a blob that is not there", err, journal.ErrNoBlob)
}

func testBlob(t *testing.T, l *log) {
	a, b := l.open(t), l.open(t)
	for _, content := range [][]byte{nil, []byte("evidence"), {0},
		bytes.Repeat([]byte("x"), 200_000)} {
		digest := signalbox.Hash(sha256.Sum256(content))
		wantNoBlob(t, a, digest)
		put(t, a, content)
		wantBlob(t, b, digest, content)
		put(t, b, content)
		wantBlob(t, a, digest, content)
		wantBlob(t, l.open(t), digest, content)

		for range 2 {
			if err := b.DeleteBlob(testContext(t), digest); err != nil {
				t.Errorf("delete: %v", err)
			}
			wantNoBlob(t, a, digest)
		}
		put(t, a, content)
		wantBlob(t, b, digest, content)
	}
	if err := a.DeleteBlob(testContext(t), signalbox.Hash{1}); err != nil {
		t.Errorf("delete what was never put: %v", err)
	}
}

func testBlobLarge(t *testing.T, l *log) {
	content := make([]byte, 3<<20+1)
	rand.New(rand.NewSource(1)).Read(content)
	j := l.open(t)
	digest := put(t, j, content)
	wantBlob(t, j, digest, content)
}

func testBlobDamage(t *testing.T, l *log) {
	if l.DamageBlob == nil {
		t.Skip("the driver has no DamageBlob")
	}
	j := l.open(t)
	digest := put(t, j, []byte("evidence"))
	other := put(t, j, []byte("other evidence"))
	l.DamageBlob(t, digest)
	r, err := j.GetBlob(testContext(t), digest)
	if err == nil {
		r.Close()
	}
	wantError(t, "get a damaged blob", err, journal.ErrDamaged)
	wantBlob(t, j, other, []byte("other evidence"))
	put(t, j, []byte("evidence"))
	wantBlob(t, j, digest, []byte("evidence"))
}

func testBlobConcurrent(t *testing.T, l *log) {
	handles := []journal.Log{l.open(t), l.open(t)}
	content := bytes.Repeat([]byte("the same "), 10_000)
	digest := signalbox.Hash(sha256.Sum256(content))
	var wg sync.WaitGroup
	for i := range 12 {
		wg.Go(func() {
			got, err := handles[i%2].PutBlob(testContext(t), bytes.NewReader(content))
			if err != nil || got != digest {
				t.Errorf("put: %v, %v", got, err)
				return
			}
			r, err := handles[i%2].GetBlob(testContext(t), digest)
			if err != nil {
				t.Errorf("get what was put: %v", err)
				return
			}
			r.Close()
		})
	}
	wg.Wait()
	wantBlob(t, handles[0], digest, content)
}

func testBlobReader(t *testing.T, l *log) {
	j := l.open(t)
	content := []byte("half of it")
	broken := errors.New("the pipe broke")
	_, err := j.PutBlob(testContext(t), io.MultiReader(bytes.NewReader(content),
		iotest.ErrReader(broken)))
	wantError(t, "put from a reader that fails", err, broken)
	wantNoBlob(t, j, signalbox.Hash(sha256.Sum256(content)))
	digest, err := j.PutBlob(testContext(t), iotest.OneByteReader(bytes.NewReader(content)))
	if err != nil {
		t.Fatal(err)
	}
	wantBlob(t, j, digest, content)
}
