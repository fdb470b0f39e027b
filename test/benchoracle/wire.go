package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"signalbox/internal/oracle/model"
)

// tap looks at the connection of one conversation, whose requests follow one another.
type tap struct {
	// trip is the time until the answer began, reading that in which its body was waited for and read.
	trip, reading time.Duration
	// arrived is when the bytes of the first content came out of the connection; zero if they did not yet.
	arrived time.Time
	seen    []byte
	// counted is for whoever looks at the first content only; each request clears it.
	counted bool
	// sent is the body of the last request, for whoever wants to send the same.
	sent []byte
	path string
}

type tapKey struct{}

// tapped is a transport that tells the tap of a request's context, if it has one.
type tapped struct{ *http.Transport }

// newTransport is as that of a model's client, which has its own unless it is given one.
func newTransport() tapped {
	return tapped{&http.Transport{MaxIdleConnsPerHost: 1024, IdleConnTimeout: 90 * time.Second, DisableCompression: true}}
}

func (t tapped) RoundTrip(r *http.Request) (*http.Response, error) {
	tap, _ := r.Context().Value(tapKey{}).(*tap)
	if tap == nil {
		return t.Transport.RoundTrip(r)
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	r = r.Clone(r.Context())
	r.Body = io.NopCloser(bytes.NewReader(body))
	tap.sent, tap.path, tap.arrived, tap.seen, tap.counted = body, r.URL.Path, time.Time{}, tap.seen[:0], false
	begun := time.Now()
	res, err := t.Transport.RoundTrip(r)
	tap.trip += time.Since(begun)
	if err == nil {
		res.Body = &tappedBody{res.Body, tap}
	}
	return res, err
}

type tappedBody struct {
	io.ReadCloser
	tap *tap
}

func (b *tappedBody) Read(p []byte) (int, error) {
	begun := time.Now()
	n, err := b.ReadCloser.Read(p)
	now := time.Now()
	b.tap.reading += now.Sub(begun)
	if b.tap.arrived.IsZero() {
		b.tap.seen = append(b.tap.seen, p[:n]...) // the marker may come in two parts
		if bytes.Contains(b.tap.seen, []byte(marker)) {
			b.tap.arrived = now
		}
	}
	return n, err
}

// bareEvent has the text of an event of either protocol.
type bareEvent struct {
	Choices []struct {
		Delta struct{ Content string }
	}
	Delta struct{ Text string }
}

func (e *bareEvent) text() string {
	if len(e.Choices) > 0 {
		return e.Choices[0].Delta.Content
	}
	return e.Delta.Text
}

// bareReply is the least that any client must do: it sends a request that is there already, takes the events apart, and hands
// on their text.
func bareReply(ctx context.Context, client *http.Client, url string, body []byte, on func(string)) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Anthropic-Version", "2023-06-01")
	res, err := client.Do(r)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("the model server answers %s", res.Status)
	}
	lines := bufio.NewScanner(res.Body)
	for lines.Scan() {
		data, there := bytes.CutPrefix(lines.Bytes(), []byte("data: "))
		if !there || data[0] != '{' {
			continue
		}
		var e bareEvent
		if err := json.Unmarshal(data, &e); err != nil {
			return err
		}
		if text := e.text(); text != "" {
			on(text)
		}
	}
	return lines.Err()
}

// clientTimes are those of whole replies, and of the part in which nothing was waited for.
type clientTimes struct{ whole, own samples }

// compareClients asks for the same reply through a model's client and through a bare reader, in turn.
func compareClients(ctx context.Context, url string, rounds int) (ours, bare [len(providers)]clientTimes, size int, err error) {
	transport := newTransport()
	defer transport.CloseIdleConnections()
	for i, p := range providers {
		client, err := model.New(p, "rehearsal", &model.Options{BaseURL: url, Transport: transport})
		if err != nil {
			return ours, bare, 0, err
		}
		request := model.Request{System: strings.Repeat("Answer with what the tools found. ", 100),
			Messages: []model.Message{{Role: model.User, Text: question(i, 1_000_000+i, false)}}}
		want := strings.Join(append(said(i, 1, pieces), signal(1, turnsEach)...), "")
		var sent []byte
		path := ""
		for range rounds {
			through := func(into *clientTimes, ask func(ctx context.Context, on func(string)) error) error {
				tap, text := &tap{}, strings.Builder{}
				begun := time.Now()
				err := ask(context.WithValue(ctx, tapKey{}, tap), func(s string) { text.WriteString(s) })
				whole := time.Since(begun)
				into.whole, into.own = append(into.whole, whole), append(into.own, whole-tap.trip-tap.reading)
				if sent, path = tap.sent, tap.path; err == nil && text.String() != want {
					err = errors.New("a reply is not that of the script")
				}
				return err
			}
			err := through(&ours[i], func(ctx context.Context, on func(string)) error {
				_, err := client.Reply(ctx, request, func(e model.Event) { on(e.Text) })
				return err
			})
			if err == nil {
				err = through(&bare[i], func(ctx context.Context, on func(string)) error {
					return bareReply(ctx, &http.Client{Transport: transport}, url+path, sent, on)
				})
			}
			if err != nil {
				return ours, bare, 0, err
			}
		}
		size = len(sent)
	}
	return ours, bare, size, nil
}
