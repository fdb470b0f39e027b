package box

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"signalbox"
	"signalbox/internal/core/rules"
)

// A backup is a tar file with these entries, in this order and no others. docs/backup.md specifies it.
const (
	manifestEntry   = "manifest.json"
	keyEntry        = "key.pub"
	checkpointEntry = "checkpoint"
	settingPrefix   = "settings/"
	eventPrefix     = "events/"
	blobPrefix      = "blobs/"
	absentEntry     = "absent"
	sumsEntry       = "SHA256SUMS"
)

// backupFormat names the format, and its version, in every manifest.
const backupFormat = "signalbox-backup/v1"

// promptFolder is the folder in the box whose files are backed up with the configuration.
const promptFolder = "prompts"

const (
	pieceBytes = 1 << 20 // an entry of events is written once it has as many
	maxSetting = 1 << 20
)

// manifest says what a backup is of.
type manifest struct {
	Format string         `json:"format"`
	Box    string         `json:"box"`
	Events uint64         `json:"events"`
	Head   signalbox.Hash `json:"head"`
	Time   time.Time      `json:"time"`
	// Signalbox is the version of the program that made it.
	Signalbox string `json:"signalbox"`
}

func eventsEntry(first uint64) string { return fmt.Sprintf("%s%012d.jsonl", eventPrefix, first) }

// sumLine is a line as the program sha256sum writes and reads it.
func sumLine(sum []byte, name string) string { return fmt.Sprintf("%x  %s\n", sum, name) }

// isSetting tells whether a file of the box, named with slashes, is one of the configuration: in the box's folder a text by its
// ending, and all in the folder of prompts. Hidden files and names that another system could take for another file are none.
func isSetting(name string) bool {
	for part := range strings.SplitSeq(name, "/") {
		if part == "" || strings.HasPrefix(part, ".") || strings.HasSuffix(part, ".") || strings.ContainsFunc(part, notInName) {
			return false
		}
	}
	if !filepath.IsLocal(filepath.FromSlash(name)) || len(name) > 200 {
		return false
	}
	if folder, _, below := strings.Cut(name, "/"); below {
		return folder == promptFolder
	}
	return slices.Contains([]string{".yaml", ".yml", ".md", ".tmpl", ".txt"}, path.Ext(name))
}

func notInName(r rune) bool { return r <= ' ' || r >= 0x7f || strings.ContainsRune(`\:*?"<>|`, r) }

// eventLine is an event as a backup has it. It is that of ledger tail --json but for data, which is base64 of its exact bytes.
type eventLine struct {
	Seq     uint64         `json:"seq"`
	Time    string         `json:"time"`
	Type    string         `json:"type"`
	Work    string         `json:"work"`
	Session string         `json:"session"`
	Actor   string         `json:"actor"`
	Data    []byte         `json:"data"`
	Prev    signalbox.Hash `json:"prev"`
	Hash    signalbox.Hash `json:"hash"`
}

func writeEvent(w *bytes.Buffer, e *signalbox.Event) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	return enc.Encode(eventLine{e.Seq, e.Time.UTC().Format(signalbox.EventTime), e.Type, e.Work, e.Session, e.Actor, e.Data, e.Prev, e.Hash})
}

func readEvent(line []byte) (signalbox.Event, error) {
	var read eventLine
	dec := json.NewDecoder(bytes.NewReader(line))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&read); err != nil {
		return signalbox.Event{}, err
	}
	if rest := bytes.TrimSpace(line[dec.InputOffset():]); len(rest) > 0 {
		return signalbox.Event{}, errors.New("more than one object is on the line")
	}
	at, err := time.Parse(signalbox.EventTime, read.Time)
	return signalbox.Event{Seq: read.Seq, Time: at, Type: read.Type, Work: read.Work, Session: read.Session, Actor: read.Actor,
		Data: read.Data, Prev: read.Prev, Hash: read.Hash}, err
}

// named collects the blobs that events name. Which fields have digests is for the rules to say, now and later; here it is
// any run of 64 hexadecimal digits, so that no blob is overlooked.
type named struct {
	blobs    []signalbox.Hash // in the order in which they were first named
	seen     map[signalbox.Hash]bool
	required map[signalbox.Hash]bool // one of blobFields has it
	redacted map[signalbox.Hash]bool
}

func newNamed() *named {
	return &named{seen: map[signalbox.Hash]bool{}, required: map[signalbox.Hash]bool{}, redacted: map[signalbox.Hash]bool{}}
}

func (n *named) add(e *signalbox.Event) {
	if e.Type == rules.TypeBlobRedacted {
		var gone rules.BlobRedacted
		if json.Unmarshal(e.Data, &gone) == nil {
			n.redacted[gone.Blob] = true
		}
		return
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
		if digest.UnmarshalText(e.Data[start:i]) != nil {
			continue
		}
		if !n.seen[digest] {
			n.seen[digest] = true
			n.blobs = append(n.blobs, digest)
		}
		if slices.Contains(blobFields, fieldBefore(e.Data[:start])) {
			n.required[digest] = true
		}
	}
}

// blobFields are the fields of events that hold the digest of a blob. A blob that another field names is backed up as well, but
// not missed if it is not there.
var blobFields = []string{"blob", "body", "output", "plan", "prompt", "text"}

// fieldBefore returns the name of the field whose string begins after these bytes of a JSON document, "" if there is none.
func fieldBefore(data []byte) string {
	// Inside a string a quotation mark has a backslash before it, so this cannot be a part of one.
	before, ok := bytes.CutSuffix(data, []byte(`":"`))
	if !ok {
		return ""
	}
	return string(before[bytes.LastIndexByte(before, '"')+1:])
}

func isHexDigit(c byte) bool { return '0' <= c && c <= '9' || 'a' <= c && c <= 'f' }
