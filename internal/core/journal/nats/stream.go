package nats

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"signalbox"
	"signalbox/internal/core/journal"
	"signalbox/internal/core/journal/driver"
)

// formatVersion increases when older programs can no longer use the streams.
const formatVersion = 1

// Metadata marks the streams of a box.
const (
	metaKind   = "signalbox"        // kindEvents or kindFiles
	metaFormat = "signalbox-format" // the format version
	kindEvents = "events"
	kindFiles  = "files"
)

// Every subject of a box begins with its name. No other stream may have them.
func (c *client) eventSubject() string { return "signalbox." + c.name + ".event" }
func (c *client) wakeSubject() string  { return "signalbox." + c.name + ".wake" }
func (c *client) blobSubject(digest signalbox.Hash) string {
	return "signalbox." + c.name + ".blob." + fmt.Sprintf("%x", digest[:])
}
func (c *client) pieceSubject(upload string, piece int) string {
	return "signalbox." + c.name + ".piece." + upload + "." + strconv.Itoa(piece)
}

// files returns the name of the stream with the blobs.
func (c *client) files() string { return c.name + "_files" }

// config returns the configuration of a stream of the box.
func (j *Journal) config(kind string, replicas int) jetstream.StreamConfig {
	c := jetstream.StreamConfig{
		Name:         j.name,
		Retention:    jetstream.LimitsPolicy,
		MaxConsumers: -1, MaxMsgs: -1, MaxBytes: -1, MaxMsgsPerSubject: -1,
		MaxMsgSize: maxEventMessage,
		Storage:    jetstream.FileStorage,
		Replicas:   replicas,
		Metadata:   map[string]string{metaKind: kind, metaFormat: strconv.Itoa(formatVersion)},
	}
	if kind == kindFiles {
		c.Name = j.files()
		c.Description = "blobs of the signalbox " + j.name
		c.Subjects = []string{"signalbox." + j.name + ".blob.*", "signalbox." + j.name + ".piece.>",
			j.noteSubject("*")}
		c.Discard = jetstream.DiscardOld
		c.MaxMsgsPerSubject = 1
		c.DenyPurge = true
		return c
	}
	c.Description = "the ledger of the signalbox " + j.name
	c.Subjects = []string{j.eventSubject()}
	c.Discard = jetstream.DiscardNew
	c.DenyDelete, c.DenyPurge = true, true
	c.AllowAtomicPublish = true
	c.AllowDirect = true
	c.RePublish = &jetstream.RePublish{Source: j.eventSubject(), Destination: j.wakeSubject(),
		HeadersOnly: true}
	return c
}

// check returns an error unless a stream is what config returns, as far as it matters.
func check(kind string, c *jetstream.StreamConfig) error {
	refuse := func(hint, format string, args ...any) error {
		return signalbox.CodeFailed.Errorf(hint,
			"the stream %s "+format,
			append([]any{c.Name}, args...)...)
	}
	if c.Metadata[metaKind] != kind {
		return refuse("choose another name in the address of the journal",
			"exists, but does not belong to signalbox")
	}
	if format := c.Metadata[metaFormat]; format != strconv.Itoa(formatVersion) {
		return refuse("use the version of signalbox that made it, or a newer one",
			"has format %q, and this program knows format %d", format, formatVersion)
	}
	const repair = "restore the configuration that signalbox gave the stream, with nats stream edit"
	switch {
	case c.Storage != jetstream.FileStorage:
		return refuse(repair, "is only in memory")
	case c.Retention != jetstream.LimitsPolicy || c.MaxAge != 0 || c.MaxMsgs > 0 ||
		c.MaxBytes > 0 || kind == kindEvents && c.MaxMsgsPerSubject > 0:
		return refuse(repair, "has limits that would delete messages")
	case c.AllowRollup || c.AllowMsgTTL && kind == kindEvents || c.Sealed || c.NoAck ||
		c.Mirror != nil || len(c.Sources) > 0 || c.SubjectTransform != nil:
		return refuse(repair,
			"has settings with which it cannot be used: rollup, TTL, sealed, no_ack, mirror, sources or a subject transform")
	case c.PersistMode != jetstream.DefaultPersistMode:
		return refuse(repair, "acknowledges messages before they are on disk")
	case c.MaxMsgSize > 0 && c.MaxMsgSize < maxEventMessage:
		return refuse(repair, "accepts messages of at most %d bytes, but events need %d",
			c.MaxMsgSize, maxEventMessage)
	case kind == kindEvents && (!c.AllowAtomicPublish || !c.AllowDirect):
		return refuse(repair, "does not allow atomic batches or direct reads")
	case kind == kindEvents && (!c.DenyDelete || !c.DenyPurge):
		return refuse(repair, "allows deleting events")
	}
	return nil
}

// minServer is the first version with atomic batches.
const minServer = "2.12.0"

// findOrCreate checks the streams of the box, and creates them if there are none and that is
// wanted. Replicas is for new streams; 0 means three in a cluster, one on a single server.
func (j *Journal) findOrCreate(ctx context.Context, replicas int) error {
	version, most := j.conn.ConnectedServerVersion(), j.conn.MaxPayload()
	switch {
	case version == "" || most == 0:
		return j.unavailable(natsgo.ErrDisconnected)
	case olderThan(version, minServer):
		return signalbox.CodeFailed.Errorf("install nats-server "+minServer+" or newer",
			"the server has version %s, which has no atomic batches", version)
	case most < maxEventMessage:
		return signalbox.CodeFailed.Errorf("raise max_payload in the configuration of the server",
			"the server accepts messages of at most %d bytes, but events need %d",
			most, maxEventMessage)
	}
	if err := j.checkJetStream(ctx); err != nil {
		return err
	}
	if replicas == 0 {
		replicas = 1
		if j.conn.ConnectedClusterName() != "" {
			replicas = 3
		}
	}
	// The stream with the events is created last: where it is, the other one is too.
	for _, kind := range []string{kindEvents, kindFiles} {
		config := j.config(kind, replicas)
		var info *jetstream.StreamInfo
		missing := 0
		err := j.retry(ctx, func() (err error) {
			if info, err = j.streamInfo(ctx,
				config.Name); apiCode(err) == jetstream.JSErrCodeStreamNotFound {
				info, err = nil, nil
				// A server that has just become the leader may not know a stream that was created a
				// moment ago.
				if missing++; kind == kindFiles && missing < looksForFiles {
					err = errPending
				}
			}
			return err
		})
		switch {
		case err != nil:
			return err
		case info != nil:
			if err := check(kind, &info.Config); err != nil {
				return err
			}
			if kind == kindEvents {
				j.warn(info.Config.Replicas)
			}
			continue
		case !j.opts.Create:
			return signalbox.CodeNotFound.Errorf(
				"create a box with signalbox init, or correct the address of the journal",
				"there is no stream %s", config.Name)
		case kind == kindEvents:
			if err := j.create(ctx, replicas); err != nil {
				return err
			}
			j.warn(replicas)
		default:
			return driver.Damaged(fmt.Errorf("the stream %s is missing", config.Name))
		}
	}
	return nil
}

// looksForFiles is how often the stream with the files is looked for, in about three seconds,
// before the journal counts as damaged.
const looksForFiles = 12

// create creates both streams. Where another process created one in the meantime, the server
// returns that.
func (j *Journal) create(ctx context.Context, replicas int) error {
	if err := j.checkSubjects(ctx); err != nil {
		return err
	}
	for _, kind := range []string{kindFiles, kindEvents} {
		config := j.config(kind, replicas)
		info := &jetstream.StreamInfo{}
		err := j.retry(ctx, func() error {
			return j.api(ctx, "STREAM.CREATE."+config.Name, config, info)
		})
		switch code := apiCode(err); {
		case code == jetstream.JSErrCodeStreamNameInUse: // another process created it with other settings, or it is foreign
			if info, err = j.streamInfo(ctx, config.Name); err != nil {
				return err
			}
		case code == codeNoPeers &&
			j.embedded: // some are still being started, and a ledger is created on all of them
			return signalbox.CodeFailed.Errorf(
				"start signalbox worker on the other machines of the cluster",
				"%w: not all nodes of the cluster run: %w", journal.ErrUnavailable,
				err)
		case code == codeNoPeers, code == codeReplicasNotSupported:
			return signalbox.CodeFailed.Errorf(
				"start three servers, or add ?replicas=1 to the address of the journal: then, if the disk of that replica is lost, so is the ledger",
				"the cluster has too few servers for %d replicas: %w", replicas,
				err)
		case code == codeSubjectsOverlap:
			return j.subjectsTaken(err)
		case err != nil:
			return err
		}
		if err := check(kind, &info.Config); err != nil {
			return err
		}
	}
	return nil
}

// checkSubjects returns an error if another stream has subjects of the box, before anything is
// created.
func (j *Journal) checkSubjects(ctx context.Context) error {
	request := struct {
		Subject string `json:"subject"`
	}{"signalbox." + j.name + ".>"}
	var response struct {
		Streams []string `json:"streams"`
	}
	if err := j.retry(ctx,
		func() error { return j.api(ctx, "STREAM.NAMES", request, &response) }); err != nil {
		return err
	}
	for _, name := range response.Streams {
		if name != j.name && name != j.files() {
			return j.subjectsTaken(fmt.Errorf("stream %s", name))
		}
	}
	return nil
}

func (j *Journal) subjectsTaken(err error) error {
	return signalbox.CodeFailed.Errorf("choose another name in the address of the journal",
		"another stream has the subjects of the box %s: %w", j.name, err)
}

// checkJetStream returns an error if the server has no JetStream. A server that starts has none for
// a moment.
func (j *Journal) checkJetStream(ctx context.Context) error {
	end := time.Now().Add(min(j.opts.patience, defaultAttempt))
	return j.retry(ctx, func() error {
		err := j.api(ctx, "INFO", nil, nil)
		if errors.Is(err, natsgo.ErrNoResponders) && time.Now().After(end) {
			err = &jetstream.APIError{Code: 503, ErrorCode: jetstream.JSErrCodeJetStreamNotEnabled,
				Description: "no server answers requests to JetStream"}
		}
		return err
	})
}

// warn warns of a stream that can be used but is not as safe as it could be.
func (j *Journal) warn(replicas int) {
	if replicas == 1 && !j.alone {
		j.warned.Do(func() {
			j.log.Warn("the ledger has only one replica: if its disk is lost, so is the ledger",
				"stream", j.name)
		})
	}
}

// olderThan compares two versions such as 2.12.0.
func olderThan(version, other string) bool {
	v, w := numbers(version), numbers(other)
	for i := range v {
		if v[i] != w[i] {
			return v[i] < w[i]
		}
	}
	return false
}

func numbers(version string) (n [3]int) {
	version, _, _ = strings.Cut(strings.TrimPrefix(version, "v"), "-")
	for i, part := range strings.SplitN(version, ".", 3) {
		n[i], _ = strconv.Atoi(part)
	}
	return n
}
