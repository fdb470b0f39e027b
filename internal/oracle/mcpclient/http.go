package mcpclient

import (
	"cmp"
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

// streamTimeout is how long a server may take to open the stream of its own messages. Some open it
// only with the first message. The connection would wait for that, so they are treated as servers
// without such a stream.
const streamTimeout = 3 * time.Second

// httpTransport sends the requests to a server with a URL.
type httpTransport struct {
	server    *url.URL
	headers   map[string]string
	base      http.RoundTripper
	closeIdle func()        // closes connections that are not in use
	timeout   time.Duration // how long the server may take to open a stream; 0 means streamTimeout
}

// dial returns the transport of a server with a URL.
func (s *Server) dial() (*mcp.StreamableClientTransport, *httpTransport) {
	server, _ := url.Parse(s.URL) // validate has checked it
	base := http.DefaultTransport.(*http.Transport).Clone()
	t := &httpTransport{server: server, headers: s.Headers, base: base,
		closeIdle: base.CloseIdleConnections}
	return &mcp.StreamableClientTransport{Endpoint: s.URL, MaxEventSize: maxMessage,
		HTTPClient: &http.Client{Transport: t, CheckRedirect: t.checkRedirect}}, t
}

// checkRedirect rejects redirects to other hosts, because the headers are secret.
func (t *httpTransport) checkRedirect(request *http.Request, via []*http.Request) error {
	if request.URL.Scheme != t.server.Scheme || request.URL.Host != t.server.Host {
		return fmt.Errorf("it redirects to %s://%s, which is another host", request.URL.Scheme,
			request.URL.Host)
	}
	if len(via) >= 5 {
		return errors.New("it redirects too often")
	}
	return nil
}

// RoundTrip adds the headers and limits the size of the response.
func (t *httpTransport) RoundTrip(request *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancel(request.Context())
	late := make(chan struct{})
	if request.Method == http.MethodGet {
		timer := time.AfterFunc(cmp.Or(t.timeout, streamTimeout), func() {
			close(late)
			cancel()
		})
		defer timer.Stop()
	}
	request = request.Clone(ctx)
	for name, value := range t.headers {
		request.Header.Set(name, value)
	}
	response, err := t.base.RoundTrip(request)
	if err != nil {
		cancel()
		select {
		case <-late:
			return &http.Response{StatusCode: http.StatusMethodNotAllowed, ProtoMajor: 1,
				ProtoMinor: 1, Header: http.Header{},
				Body: http.NoBody, Request: request}, nil
		default:
			return nil, err
		}
	}
	body := &boundedBody{from: response.Body, left: maxMessage, cancel: cancel}
	if kind, _, _ := mime.ParseMediaType(
		response.Header.Get("Content-Type")); kind == "text/event-stream" {
		body.left = -1 // the SDK limits each event
	}
	response.Body = body
	return response, nil
}

// boundedBody is a body that returns an error if it is too long.
type boundedBody struct {
	from   io.ReadCloser
	left   int // bytes that may still be read; negative means no limit
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
