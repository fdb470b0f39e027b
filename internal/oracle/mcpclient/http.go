package mcpclient

import (
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// streamWait is how long a server may take to begin the stream of its own messages. Some begin it with the first one only;
// they are taken for servers that have none, as the connection would wait for it.
const streamWait = 3 * time.Second

// web is the way to a server that is reached by HTTP.
type web struct {
	to      *url.URL
	headers map[string]string
	base    http.RoundTripper
	idle    func() // closes connections that are not in use
}

func (s *Server) dial() (*mcp.StreamableClientTransport, *web) {
	to, _ := url.Parse(s.URL) // was checked
	own := http.DefaultTransport.(*http.Transport).Clone()
	w := &web{to: to, headers: s.Headers, base: own, idle: own.CloseIdleConnections}
	return &mcp.StreamableClientTransport{Endpoint: s.URL, MaxEventSize: maxMessage,
		HTTPClient: &http.Client{Transport: w, CheckRedirect: w.follow}}, w
}

// follow refuses to be sent elsewhere: the headers are a secret between the user and the server.
func (w *web) follow(request *http.Request, via []*http.Request) error {
	if request.URL.Scheme != w.to.Scheme || request.URL.Host != w.to.Host {
		return fmt.Errorf("it sends on to %s://%s, which is not followed", request.URL.Scheme, request.URL.Host)
	}
	if len(via) >= 5 {
		return errors.New("it sends on again and again")
	}
	return nil
}

// RoundTrip adds the headers, and bounds what comes back.
func (w *web) RoundTrip(request *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancel(request.Context())
	late := make(chan struct{})
	if request.Method == http.MethodGet {
		timer := time.AfterFunc(streamWait, func() {
			close(late)
			cancel()
		})
		defer timer.Stop()
	}
	request = request.Clone(ctx)
	for name, value := range w.headers {
		request.Header.Set(name, value)
	}
	response, err := w.base.RoundTrip(request)
	if err != nil {
		cancel()
		select {
		case <-late:
			return &http.Response{StatusCode: http.StatusMethodNotAllowed, ProtoMajor: 1, ProtoMinor: 1, Header: http.Header{},
				Body: http.NoBody, Request: request}, nil
		default:
			return nil, err
		}
	}
	body := &boundedBody{from: response.Body, left: maxMessage, cancel: cancel}
	if kind, _, _ := mime.ParseMediaType(response.Header.Get("Content-Type")); kind == "text/event-stream" {
		body.left = -1 // each event is bounded
	}
	response.Body = body
	return response, nil
}

// boundedBody is a body that ends with an error where it is too long.
type boundedBody struct {
	from   io.ReadCloser
	left   int // negative: no bound
	cancel context.CancelFunc
}

func (b *boundedBody) Read(into []byte) (int, error) {
	n, err := b.from.Read(into)
	if b.left < 0 {
		return n, err
	}
	if n > b.left {
		return 0, errTooLong
	}
	b.left -= n
	return n, err
}

func (b *boundedBody) Close() error {
	defer b.cancel()
	return b.from.Close()
}
