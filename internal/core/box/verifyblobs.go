package box

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"

	"signalbox"
	"signalbox/internal/core/journal"
	"signalbox/internal/text"
	"signalbox/ledger"
)

// BlobStatus is what Verify found about a blob that is not simply intact.
type BlobStatus string

const (
	// BlobMissing is a blob that does not exist, although no event says that it was redacted.
	BlobMissing BlobStatus = "missing"
	// BlobAltered is a blob whose bytes do not have its digest.
	BlobAltered BlobStatus = "altered"
	// BlobRedacted is a blob whose bytes were destroyed, as an event says.
	BlobRedacted BlobStatus = "redacted"
	// BlobRemaining is a blob that was redacted, but whose file still exists: the redaction was
	// interrupted, or someone stored the bytes again.
	BlobRemaining BlobStatus = "remaining"

	blobIntact BlobStatus = ""
)

// BlobReport is what Verify found about the blobs that events refer to. Missing and altered blobs
// are errors.
type BlobReport struct {
	// Checked is the number of blobs that were not redacted. Those that are neither missing nor
	// altered are intact.
	Checked   uint64 `json:"checked"`
	Missing   uint64 `json:"missing"`
	Altered   uint64 `json:"altered"`
	Redacted  uint64 `json:"redacted"`
	Remaining uint64 `json:"remaining"`
	// List has the first hundred blobs of each status, in the order of the events that first refer
	// to them.
	List []BlobFinding `json:"list"`
}

// BlobFinding is a blob that is not simply intact, and the first event that refers to it.
type BlobFinding struct {
	Blob   signalbox.Hash `json:"blob"`
	Status BlobStatus     `json:"status"`
	Event  uint64         `json:"event"`
	Type   string         `json:"type"`
}

// maxFindings is the number of blobs of each status that a report lists.
const maxFindings = 100

// OK reports whether no blob is missing or altered.
func (r *BlobReport) OK() bool { return r.Missing == 0 && r.Altered == 0 }

// reason describes what is wrong, starting with the first bad blob.
func (r *BlobReport) reason(first BlobFinding) string {
	what := "is missing, and no event records that it was redacted"
	if first.Status == BlobAltered {
		what = "was changed: its bytes do not have its digest"
	}
	reason := fmt.Sprintf("blob %s, to which event %d (%s) refers, %s", first.Blob, first.Event,
		first.Type, what)
	if all := r.Missing + r.Altered; all > 1 {
		reason += fmt.Sprintf("; of %s, %d are missing and %d were changed",
			text.Count(int(r.Checked), "blob"), r.Missing, r.Altered)
	}
	return reason
}

func (r *BlobReport) add(found BlobFinding) {
	count := map[BlobStatus]*uint64{BlobMissing: &r.Missing, BlobAltered: &r.Altered,
		BlobRedacted: &r.Redacted, BlobRemaining: &r.Remaining}[found.Status]
	if *count++; *count <= maxFindings {
		r.List = append(r.List, found)
	}
}

// firstBad returns the first missing or altered blob.
func (r *BlobReport) firstBad() BlobFinding {
	for _, found := range r.List {
		if found.Status == BlobMissing || found.Status == BlobAltered {
			return found
		}
	}
	return BlobFinding{}
}

// redactions are the blobs that were redacted, according to the events read so far. It is safe for
// concurrent use.
type redactions struct {
	mu    sync.Mutex
	blobs map[signalbox.Hash]bool // guarded by mu
}

// collect returns a function that reads events and remembers the redactions among them.
func (r *redactions) collect(read ledger.ReadFunc) ledger.ReadFunc {
	return func(ctx context.Context, after uint64, limit int) ([]signalbox.Event, error) {
		events, err := read(ctx, after, limit)
		for i := range events {
			r.add(&events[i])
		}
		return events, err
	}
}

func (r *redactions) add(e *signalbox.Event) {
	if digest, ok := redactedBlob(e); ok {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.blobs[digest] = true
	}
}

func (r *redactions) has(digest signalbox.Hash) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.blobs[digest]
}

// blobVerifier checks the blobs that events refer to, a batch at a time. It holds one digest for
// each blob, never the content.
type blobVerifier struct {
	l        *Ledger
	redacted *redactions
	last     uint64 // the last event whose redaction is known
	report   BlobReport
	done     map[signalbox.Hash]bool
	batch    []pendingBlob
	queued   map[signalbox.Hash]int // indexes of batch
	progress func(seq uint64)       // called with the last event whose blobs were checked
}

// pendingBlob is a blob to check, and the event that refers to it.
type pendingBlob struct {
	BlobFinding
	required bool
	err      error
}

// blobsAtOnce is the number of blobs in a batch.
const blobsAtOnce = 256

// verifyBlobs checks every blob that the events 1 to head of a ledger refer to.
func verifyBlobs(ctx context.Context, l *Ledger, head uint64, redacted *redactions,
	progress func(uint64)) (*BlobReport, error) {
	v := &blobVerifier{l: l, redacted: redacted, last: head, done: map[signalbox.Hash]bool{},
		queued: map[signalbox.Hash]int{}, progress: progress}
	v.report.List = []BlobFinding{}
	for e, err := range l.Events(ctx, 0) {
		if err != nil {
			return nil, err
		}
		if e.Seq > head {
			break
		}
		for _, ref := range blobsIn(e) {
			v.add(pendingBlob{BlobFinding{Blob: ref.digest, Event: e.Seq, Type: e.Type},
				ref.required, nil})
		}
		if len(v.batch) >= blobsAtOnce {
			if err := v.flush(ctx); err != nil {
				return nil, err
			}
		}
		if progress != nil && e.Seq%readAtOnce == 0 && len(v.batch) == 0 {
			progress(e.Seq)
		}
	}
	if err := v.flush(ctx); err != nil {
		return nil, err
	}
	return &v.report, nil
}

// add adds a blob to the batch, once. Of several references, the first that requires the blob
// counts.
func (v *blobVerifier) add(b pendingBlob) {
	i, queued := v.queued[b.Blob]
	switch {
	case v.done[b.Blob]:
	case !queued:
		v.queued[b.Blob] = len(v.batch)
		v.batch = append(v.batch, b)
	case b.required && !v.batch[i].required:
		v.batch[i] = b
	}
}

// flush checks the batch with several goroutines, because it is hashing that takes the time, and
// reports in order.
func (v *blobVerifier) flush(ctx context.Context) error {
	var next atomic.Int64
	var running sync.WaitGroup
	checked := make(chan struct{})
	for range min(runtime.GOMAXPROCS(0), len(v.batch)) {
		running.Go(func() {
			for i := int(next.Add(1)) - 1; i < len(v.batch); i = int(next.Add(1)) - 1 {
				b := &v.batch[i]
				b.Status, b.err = v.check(ctx, b.Blob)
				checked <- struct{}{}
			}
		})
	}
	for i := range v.batch {
		<-checked
		if v.progress != nil { // a blob may be large
			v.progress(v.batch[i].Event)
		}
	}
	running.Wait()
	for i := range v.batch {
		if err := v.record(ctx, &v.batch[i]); err != nil {
			return err
		}
	}
	v.batch = v.batch[:0]
	clear(v.queued)
	return nil
}

func (v *blobVerifier) check(ctx context.Context, digest signalbox.Hash) (BlobStatus, error) {
	r, err := v.l.Journal.GetBlob(ctx, digest)
	if err == nil {
		err = r.Close()
	}
	switch {
	case errors.Is(err, journal.ErrNoBlob):
		return BlobMissing, nil
	case errors.Is(err, journal.ErrDamaged):
		return BlobAltered, nil
	}
	return blobIntact, err
}

func (v *blobVerifier) record(ctx context.Context, b *pendingBlob) error {
	if b.err != nil {
		return fmt.Errorf("event %d: %w", b.Event, b.err)
	}
	if b.Status == BlobMissing && !v.redacted.has(b.Blob) {
		if err := v.readRedactions(ctx); err != nil {
			return err
		}
	}
	missing := b.Status == BlobMissing
	switch redacted := v.redacted.has(b.Blob); {
	case redacted && missing:
		b.Status = BlobRedacted
	case redacted:
		b.Status = BlobRemaining
	case missing && !b.required:
		return nil
	default:
		v.report.Checked++
	}
	v.done[b.Blob] = true
	if b.Status != blobIntact {
		v.report.add(b.BlobFinding)
	}
	return nil
}

// readRedactions reads the events that were appended meanwhile: a redaction is recorded before the
// bytes are destroyed. It does not follow a log that grows faster than it is read.
func (v *blobVerifier) readRedactions(ctx context.Context) error {
	head, err := v.l.Journal.Head(ctx)
	if err != nil || head <= v.last {
		return err
	}
	for e, err := range v.l.Events(ctx, v.last) {
		if err != nil {
			return err
		}
		v.redacted.add(e)
		if v.last = e.Seq; v.last >= head {
			break
		}
	}
	return nil
}
