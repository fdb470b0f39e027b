package box

import (
	"bytes"
	"encoding/json"
	"slices"

	"signalbox"
	"signalbox/internal/core/rules"
)

// blobRefs collects references to blobs in events.
type blobRefs struct {
	blobs    []signalbox.Hash // in the order of their first reference
	seen     map[signalbox.Hash]bool
	required map[signalbox.Hash]bool
	redacted map[signalbox.Hash]bool
	last     uint64 // the last event that was added
}

func newBlobRefs() *blobRefs {
	return &blobRefs{seen: map[signalbox.Hash]bool{}, required: map[signalbox.Hash]bool{},
		redacted: map[signalbox.Hash]bool{}}
}

func (refs *blobRefs) add(e *signalbox.Event) {
	refs.last = e.Seq
	if digest, ok := redactedBlob(e); ok {
		refs.redacted[digest] = true
		return
	}
	for _, ref := range blobsIn(e) {
		if !refs.seen[ref.digest] {
			refs.seen[ref.digest] = true
			refs.blobs = append(refs.blobs, ref.digest)
		}
		if ref.required {
			refs.required[ref.digest] = true
		}
	}
}

// redactedBlob returns the blob whose redaction an event records.
func redactedBlob(e *signalbox.Event) (digest signalbox.Hash, ok bool) {
	if e.Type != rules.TypeBlobRedacted {
		return digest, false
	}
	var redaction rules.BlobRedacted
	err := json.Unmarshal(e.Data, &redaction)
	return redaction.Blob, err == nil
}

// blobRef is a reference from an event to a blob. If the blob is not required, it need not exist.
type blobRef struct {
	digest   signalbox.Hash
	required bool
}

// blobsIn returns the blobs that an event refers to: those in its fields, which are required, and
// every other run of 64 hexadecimal digits, such as in a note, which may be the digest of a blob.
func blobsIn(e *signalbox.Event) (refs []blobRef) {
	digests, newer := rules.Blobs(e)
	for _, digest := range digests {
		refs = append(refs, blobRef{digest, true})
	}
	const digits = 2 * len(signalbox.Hash{})
	for i := 0; i < len(e.Data); i++ {
		start := i
		for i < len(e.Data) && isHexDigit(e.Data[i]) {
			i++
		}
		if i-start != digits {
			continue
		}
		var digest signalbox.Hash
		if digest.UnmarshalText(e.Data[start:i]) != nil || slices.Contains(digests, digest) {
			continue
		}
		refs = append(refs, blobRef{digest, newer != nil &&
			slices.Contains(blobFields, fieldBefore(e.Data[:start]))})
	}
	return refs
}

// EventBlob is a blob that an event refers to.
type EventBlob struct {
	// Field is the field of the event's data that has the digest, "" if it is not known.
	Field  string
	Digest signalbox.Hash
}

// EventBlobs returns the blobs that an event refers to in its fields.
func EventBlobs(e *signalbox.Event) (blobs []EventBlob) {
	for _, ref := range blobsIn(e) {
		if ref.required {
			before, _, _ := bytes.Cut(e.Data, []byte(ref.digest.String()))
			blobs = append(blobs, EventBlob{fieldBefore(before), ref.digest})
		}
	}
	return blobs
}

// blobFields are fields that contain the digest of a blob in the events that this program knows,
// and probably also in those of a newer signalbox.
var blobFields = []string{"blob", "body", "output", "plan", "prompt", "text"}

// fieldBefore returns the name of the field whose string value starts after data, "" if there is
// none.
func fieldBefore(data []byte) string {
	// Inside a string a quotation mark is escaped, so this cannot be part of one.
	before, ok := bytes.CutSuffix(data, []byte(`":"`))
	if !ok {
		return ""
	}
	return string(before[bytes.LastIndexByte(before, '"')+1:])
}

func isHexDigit(c byte) bool { return '0' <= c && c <= '9' || 'a' <= c && c <= 'f' }
