package engine

import (
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"signalbox"
	"signalbox/internal/core/journal"
	"signalbox/internal/core/rules"
)

const secret = "the password is swordfish"

var secretDigest = signalbox.Hash(sha256.Sum256([]byte(secret)))

func redactSecret(t *testing.T, e *Engine) rules.Answer {
	t.Helper()
	answer, err := e.Redact(context.Background(),
		rules.RedactBlob{Blob: secretDigest, Reason: "a password", Actor: "me"})
	if err != nil {
		t.Fatalf("redact: %v", err)
	}
	return answer
}

func putSecret(t *testing.T, e *Engine) {
	t.Helper()
	digest, err := e.PutBlob(context.Background(), strings.NewReader(secret))
	if err != nil || digest != secretDigest {
		t.Fatalf("put: digest %s, error %v; want %s", digest, err, secretDigest)
	}
}

func checkSecret(t *testing.T, j journal.Journal, there bool) {
	t.Helper()
	r, err := j.GetBlob(context.Background(), secretDigest)
	if !there {
		if !errors.Is(err, journal.ErrNoBlob) {
			t.Errorf("get: error %v, want %v", err, journal.ErrNoBlob)
		}
		return
	}
	if err != nil {
		t.Fatalf("get: %v", err)
	}
	defer r.Close()
	if data, err := io.ReadAll(r); err != nil || string(data) != secret {
		t.Errorf("get: %q, %v", data, err)
	}
}

func TestRedact(t *testing.T) {
	m := newMemory()
	e := openBox(t, m, nil)
	putSecret(t, e)
	checkSecret(t, m, true)
	if a := redactSecret(t, e); a.Seq != 2 || a.Repeated {
		t.Errorf("redacted at event %d, repeated %t; want 2, false", a.Seq, a.Repeated)
	}
	checkSecret(t, m, false)
	putSecret(t, e)
	checkSecret(t, m, false)
	if a := redactSecret(t, e); a.Seq != 2 || !a.Repeated {
		t.Errorf("redacted again at event %d, repeated %t; want 2, true", a.Seq, a.Repeated)
	}
	checkTypes(t, m, 1, "BlobRedacted")
}

// An engine that has not heard of the redaction does not undo it.
func TestRedactedByAnother(t *testing.T) {
	m := newMemory()
	e := openBox(t, m, nil)
	other := open(t, m, nil)
	putSecret(t, e)
	redactSecret(t, other)
	putSecret(t, e)
	checkSecret(t, m, false)
}

func TestRedactMissingBlob(t *testing.T) {
	m := newMemory()
	e := openBox(t, m, nil)
	redactSecret(t, e)
	putSecret(t, e)
	checkSecret(t, m, false)
}

func TestRedactDeleteFails(t *testing.T) {
	e, f, m := faultyBox(t, nil)
	putSecret(t, e)
	f.deletes.then(fails(errCut))
	_, err := e.Redact(context.Background(),
		rules.RedactBlob{Blob: secretDigest, Reason: "a password", Actor: "me"})
	if !errors.Is(err, errCut) || !strings.Contains(err.Error(), "bytes could not be deleted") {
		t.Errorf("error %v, want one about the deletion", err)
	}
	checkSecret(t, m, true)
	redactSecret(t, e)
	checkSecret(t, m, false)
	checkTypes(t, m, 1, "BlobRedacted")
}

// What is not recorded is not destroyed.
func TestRefusedRedaction(t *testing.T) {
	e, f, m := faultyBox(t, nil)
	putSecret(t, e)
	if _, err := e.Redact(context.Background(),
		rules.RedactBlob{Blob: secretDigest, Actor: "me"}); err == nil {
		t.Error("a redaction without a reason was accepted")
	}
	f.appends.then(fails(journal.ErrNotStored))
	_, err := e.Redact(context.Background(),
		rules.RedactBlob{Blob: secretDigest, Reason: "a password", Actor: "me"})
	if !errors.Is(err, journal.ErrNotStored) {
		t.Errorf("error %v, want %v", err, journal.ErrNotStored)
	}
	checkSecret(t, m, true)
}

// Who puts redacted bytes that cannot be taken away again hears of it.
func TestPutRedactedBlobDeleteFails(t *testing.T) {
	e, f, m := faultyBox(t, nil)
	redactSecret(t, e)
	f.deletes.then(fails(errCut))
	_, err := e.PutBlob(context.Background(), strings.NewReader(secret))
	if !errors.Is(err, errCut) || !strings.Contains(err.Error(), "bytes could not be deleted") {
		t.Errorf("error %v, want one about the deletion", err)
	}
	putSecret(t, e)
	checkSecret(t, m, false)
}

func TestPutFails(t *testing.T) {
	e, f, _ := faultyBox(t, nil)
	broken := errors.New("the pipe broke")
	_, err := e.PutBlob(context.Background(), io.MultiReader(strings.NewReader("half"),
		iotest.ErrReader(broken)))
	if !errors.Is(err, broken) {
		t.Errorf("error %v, want %v", err, broken)
	}
	f.reads.then(fails(errCut)) // it cannot learn whether the bytes were redacted
	if _, err := e.PutBlob(context.Background(), strings.NewReader(secret)); !errors.Is(err,
		errCut) {
		t.Errorf("error %v, want %v", err, errCut)
	}
}
