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
)

// A backup is a tar file with these entries, in this order and without others.
// docs/reference/backup-format.md specifies it.
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

// backupFormat is the format and version in every manifest.
const backupFormat = "signalbox-backup/v1"

// promptFolder is the folder of the box whose files are backed up with the configuration.
const promptFolder = "prompts"

const (
	pieceBytes = 1 << 20 // the minimum size of an entry of events, except the last
	maxSetting = 1 << 20
)

// manifest describes a backup.
type manifest struct {
	Format string         `json:"format"`
	Box    string         `json:"box"`
	Events uint64         `json:"events"`
	Head   signalbox.Hash `json:"head"`
	Time   time.Time      `json:"time"`
	// Signalbox is the version of the program that wrote the backup.
	Signalbox string `json:"signalbox"`
}

func eventsEntry(first uint64) string { return fmt.Sprintf("%s%012d.jsonl", eventPrefix, first) }

// sumLine returns a line in the format of the program sha256sum.
func sumLine(sum []byte, name string) string { return fmt.Sprintf("%x  %s\n", sum, name) }

// isSetting reports whether a file of the box, named with slashes, belongs to the configuration:
// text files in the box's folder, and all files in the folder of prompts. Hidden files, and names
// that another system could resolve to another file, do not.
func isSetting(name string) bool {
	for part := range strings.SplitSeq(name, "/") {
		if part == "" || strings.HasPrefix(part, ".") || strings.HasSuffix(part, ".") ||
			strings.ContainsFunc(part, notInName) {
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

// eventLine is an event in a backup: the fields of ledger tail --json, except that data is the
// exact bytes in base64.
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
	return enc.Encode(eventLine{e.Seq, e.Time.UTC().Format(signalbox.EventTime), e.Type, e.Work,
		e.Session, e.Actor, e.Data, e.Prev, e.Hash})
}

func readEvent(line []byte) (signalbox.Event, error) {
	var read eventLine
	dec := json.NewDecoder(bytes.NewReader(line))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&read); err != nil {
		return signalbox.Event{}, err
	}
	if rest := bytes.TrimSpace(line[dec.InputOffset():]); len(rest) > 0 {
		return signalbox.Event{}, errors.New("the line has more than one object")
	}
	at, err := time.Parse(signalbox.EventTime, read.Time)
	return signalbox.Event{Seq: read.Seq, Time: at, Type: read.Type, Work: read.Work,
		Session: read.Session, Actor: read.Actor,
		Data: read.Data, Prev: read.Prev, Hash: read.Hash}, err
}
