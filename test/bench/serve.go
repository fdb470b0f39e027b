package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"signalbox"
	"signalbox/internal/core/box"
	"signalbox/internal/core/rules"
	"signalbox/internal/serve/access"
)

// Goals of the server.
const (
	goalBoard      = 200 * time.Millisecond
	goalDelivery   = 200 * time.Millisecond
	goalRequest    = 50 * time.Millisecond
	goalSlowReader = 0.9 // times as many appends as without
	goalFirstPage  = 1.0 // seconds

	boardTasks      = 100  // on the board
	subscribers     = 1000 // of the stream
	slowSubscribers = 50   // that never read
	requestRate     = 2000 // a second
)

// measureServe measures the HTTP server: the program itself, in another process.
func measureServe(s settings) error {
	return s.withProgram("serve", func(dir, program string) error {
		with := func(measure func(program, dir string, s settings) error) func(string) error {
			return func(dir string) error { return measure(program, dir, s) }
		}
		return measureAll(dir, []section{
			{"board", with(timeBoard)},
			{"subscribers", with(timeSubscribers)},
			{"JSON", with(timeJSON)},
			{"slow subscribers", with(compareSlowSubscribers)},
			{"first page", with(timeFirstPage)},
		})
	})
}

// site is a box that a server serves, and that this process changes.
type site struct {
	*box.Box
	server *webServer
	token  string // with the scope read
}

// openSite makes a box with some tasks, and serves it.
func openSite(program, dir string) (*site, error) {
	ctx, folder := context.Background(), filepath.Join(dir, box.FolderName)
	opts := &box.Options{KeyFile: filepath.Join(dir, "key")}
	if _, err := box.Init(ctx, folder, "bench", opts); err != nil {
		return nil, err
	}
	b, err := box.Open(ctx, folder, opts)
	if err != nil {
		return nil, err
	}
	for i := range boardTasks {
		if err := openTask(b, fmt.Sprintf("task-%d", i)); err != nil {
			return nil, errors.Join(err, b.Close())
		}
	}
	token, err := newToken(folder)
	if err != nil {
		return nil, errors.Join(err, b.Close())
	}
	server, err := startServer(program, folder, opts.KeyFile)
	if err != nil {
		return nil, errors.Join(err, b.Close())
	}
	return &site{b, server, token}, nil
}

// newToken returns a token that may read the box in a folder.
func newToken(folder string) (string, error) {
	return access.NewStore(folder).Create(context.Background(),
		access.Token{Name: "bench", Kind: access.KindToken, Scope: access.Read,
			Created: time.Now()})
}

func openTask(b *box.Box, id string) error {
	_, err := b.Engine.Do(context.Background(),
		rules.OpenWork{Work: id, Title: "Show the total of the order on its page",
			Phase: signalbox.PhaseImplementation, Actor: "bench"})
	return err
}

func (s *site) close() error { return errors.Join(s.server.stop(), s.Box.Close()) }

// webServer is signalbox serve.
type webServer struct {
	cmd *exec.Cmd
	url string
}

var servesAt = regexp.MustCompile(`serving the dashboard at ([^\s,]+)`)

func startServer(program, folder, key string) (*webServer, error) {
	cmd := exec.Command(program, "serve", "--box", folder, "--listen", "127.0.0.1:0")
	cmd.Env = append(os.Environ(), "SIGNALBOX_KEY="+key)
	stderr, err := cmd.StderrPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	lines := bufio.NewReader(stderr)
	for notes := ""; ; {
		line, err := lines.ReadString('\n')
		notes += line
		if match := servesAt.FindStringSubmatch(line); match != nil {
			go io.Copy(io.Discard, lines)
			return &webServer{cmd, match[1]}, nil
		}
		if err != nil {
			return nil, fmt.Errorf("serve ended: %w: %s", cmd.Wait(), notes)
		}
	}
}

func (w *webServer) stop() error {
	return errors.Join(w.cmd.Process.Signal(os.Interrupt), w.cmd.Wait())
}

// get returns the body of an answer to a caller with a token.
func get(client *http.Client, url, token string) ([]byte, error) {
	answer, err := ask(client, url, token)
	if err != nil {
		return nil, err
	}
	defer answer.Close()
	return io.ReadAll(answer)
}

// ask returns the body of an answer, which the caller closes.
func ask(client *http.Client, url, token string) (io.ReadCloser, error) {
	request, err := http.NewRequest(http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Authorization", "Bearer "+token)
	answer, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	if answer.StatusCode != http.StatusOK {
		body, _ := io.ReadAll(answer.Body)
		answer.Body.Close()
		return nil, fmt.Errorf("%s: %s: %.200s", url, answer.Status, body)
	}
	return answer.Body, nil
}

// follow reads the stream of events, and calls arrived for each, until it returns false or the
// stream ends.
func follow(url, token string, arrived func(seq uint64) bool) error {
	answer, err := ask(http.DefaultClient, url+"/api/v1/events?after=0", token)
	if err != nil {
		return err
	}
	defer answer.Close()
	lines := bufio.NewReader(answer)
	seq, data := uint64(0), false
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			return err
		}
		if id, ok := strings.CutPrefix(line, "id: "); ok {
			if seq, err = strconv.ParseUint(strings.TrimSpace(id), 10, 64); err != nil {
				return err
			}
		}
		data = data || strings.HasPrefix(line, "data: ")
		if line == "\n" {
			if data && !arrived(seq) {
				return nil
			}
			data = false
		}
	}
}

// timeBoard measures how long after an event of another process a client has the message, and then
// the board that shows it.
func timeBoard(program, dir string, s settings) error {
	site, err := openSite(program, dir)
	if err != nil {
		return err
	}
	type message struct {
		seq uint64
		at  time.Time
	}
	messages, ended := make(chan message, 10_000), make(chan error, 1)
	go func() {
		ended <- follow(site.server.url, site.token,
			func(seq uint64) bool { messages <- message{seq, time.Now()}; return true })
	}()
	var told, shown, browser latencies
	told, shown, browser = latencies{"the message is at the client", nil, 0},
		latencies{"the client has the board that shows it", nil, goalBoard},
		latencies{"Chromium shows it", nil, goalBoard}
	for i := range samplesARound * s.rounds {
		id := fmt.Sprintf("new-%d", i)
		time.Sleep(idle)
		start := time.Now()
		if err := openTask(site.Box, id); err != nil {
			return err
		}
		want := site.Engine.Tail().Seq
		for last := uint64(0); last < want; {
			select {
			case m := <-messages:
				if last = m.seq; last == want {
					told.took = append(told.took, m.at.Sub(start))
				}
			case err := <-ended:
				return fmt.Errorf("the stream ended: %w", err)
			}
		}
		page, err := get(http.DefaultClient, site.server.url+"/board", site.token)
		if err != nil {
			return err
		}
		if !bytes.Contains(page, []byte(`id="task-`+id+`"`)) {
			return fmt.Errorf("the board does not show %s after its event", id)
		}
		shown.took = append(shown.took, time.Since(start))
	}
	rows := []latencies{told, shown}
	if browser.took, err = timeBrowser(site, samplesARound); err != nil {
		return err
	}
	if len(browser.took) > 0 {
		rows = append(rows, browser)
	}
	printLatencies("The board", "command of another process →", rows...)
	return site.close()
}

// timeSubscribers measures how long after an event each of many subscribers has it.
func timeSubscribers(program, dir string, s settings) error {
	site, err := openSite(program, dir)
	if err != nil {
		return err
	}
	events := 20 * s.rounds
	first := site.Engine.Tail().Seq + 1
	last := first + uint64(events) - 1
	starts := make([]time.Time, events)
	took := make([][]time.Duration, subscribers)
	ready, arrivals, ended := make(chan struct{}, subscribers),
		make(chan struct{}, subscribers*events), make(chan error, subscribers)
	for i := range subscribers {
		go func() {
			ended <- follow(site.server.url, site.token, func(seq uint64) bool {
				if seq == first-1 {
					ready <- struct{}{}
				}
				if seq >= first {
					took[i] = append(took[i], time.Since(starts[seq-first]))
					arrivals <- struct{}{}
				}
				return seq < last
			})
		}()
	}
	wait := func(c chan struct{}) error {
		for range subscribers {
			select {
			case <-c:
			case err := <-ended:
				if err != nil {
					return err
				}
				ended <- nil // a subscriber that has everything
				<-c
			}
		}
		return nil
	}
	if err := wait(ready); err != nil {
		return err
	}
	for i := range events {
		time.Sleep(idle)
		starts[i] = time.Now()
		if err := openTask(site.Box, fmt.Sprintf("new-%d", i)); err != nil {
			return err
		}
		if err := wait(arrivals); err != nil {
			return err
		}
	}
	var all []time.Duration
	for _, t := range took {
		all = append(all, t...)
	}
	if len(all) != events*subscribers {
		return fmt.Errorf("%d deliveries of %d", len(all), events*subscribers)
	}
	printLatencies("Many subscribers", "command of another process → a subscriber has the message",
		latencies{fmt.Sprintf("%d subscribers", subscribers), all, goalDelivery})
	return site.close()
}

// bareTask serves a file with a bare handler.
func bareTask(name string, _ int, send func(report) error) error {
	data, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	if err := send(report{What: "http://" + l.Addr().String()}); err != nil {
		return err
	}
	return http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Write(data)
	}))
}

// timeJSON measures requests for the board in JSON at a fixed rate, beside a bare handler with the
// same answer.
func timeJSON(program, dir string, s settings) error {
	site, err := openSite(program, dir)
	if err != nil {
		return err
	}
	url := site.server.url + "/api/v1/work"
	data, err := get(http.DefaultClient, url, site.token)
	if err != nil {
		return err
	}
	file := filepath.Join(dir, "work.json")
	if err := os.WriteFile(file, data, 0o600); err != nil {
		return err
	}
	bare, err := startChild("bare", file, 0)
	if err != nil {
		return err
	}
	at, err := bare.receive()
	if err != nil {
		return err
	}
	var ours, theirs []time.Duration
	var ratios []float64
	for range s.rounds {
		a, err := requestsAtRate(url, site.token)
		if err != nil {
			return err
		}
		b, err := requestsAtRate(at.What, site.token)
		if err != nil {
			return err
		}
		ours, theirs = append(ours, a...), append(theirs, b...)
		ratios = append(ratios, percentile(a, 50).Seconds()/percentile(b, 50).Seconds())
	}
	printLatencies(fmt.Sprintf("%d requests a second", requestRate),
		fmt.Sprintf("JSON of %d work items, %d KB, from the time at which a request is due",
			boardTasks, len(data)/1000),
		latencies{"signalbox", ours, goalRequest}, latencies{"a bare handler with the same answer",
			theirs, 0})
	fmt.Printf("\nThe median request takes %.1f times as long as that of the bare handler (median of %d interleaved rounds).\n", median(ratios), s.rounds)
	return errors.Join(bare.Process.Kill(), site.close())
}

// requestsAtRate sends requests at requestRate for two seconds, and returns how long after its time
// each was answered.
func requestsAtRate(url, token string) (took []time.Duration, err error) {
	const workers = 64
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: workers,
		MaxConnsPerHost: workers}}
	defer client.CloseIdleConnections()
	due := make(chan time.Time, 2*requestRate)
	results := make([][]time.Duration, workers)
	failures := make([]error, workers)
	var all sync.WaitGroup
	for i := range workers {
		all.Go(func() {
			for at := range due {
				if _, err := get(client, url, token); err != nil {
					failures[i] = err
				}
				results[i] = append(results[i], time.Since(at))
			}
		})
	}
	start := time.Now()
	for i := range 2 * requestRate {
		at := start.Add(time.Duration(i) * time.Second / requestRate)
		time.Sleep(time.Until(at))
		due <- at
	}
	close(due)
	all.Wait()
	for _, t := range results {
		took = append(took, t...)
	}
	return took, errors.Join(failures...)
}

// compareSlowSubscribers compares appends without subscribers, and with subscribers that never
// read.
func compareSlowSubscribers(program, dir string, s settings) error {
	const events = 500
	var racers []*racer
	var sites []*site
	for _, slow := range []int{0, slowSubscribers} {
		folder, err := folderIn(dir, strconv.Itoa(slow))
		if err != nil {
			return err
		}
		site, err := openSite(program, folder)
		if err != nil {
			return err
		}
		sites = append(sites, site)
		for range slow {
			conn, err := net.Dial("tcp", strings.TrimPrefix(site.server.url, "http://"))
			if err != nil {
				return err
			}
			defer conn.Close()
			conn.(*net.TCPConn).SetReadBuffer(4 << 10)
			if _, err := fmt.Fprintf(conn,
				"GET /api/v1/events?after=0 HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\n\r\n", conn.RemoteAddr(), site.token); err != nil {
				return err
			}
		}
		next := 0
		racers = append(racers, &racer{name: fmt.Sprintf("%d subscribers that never read", slow),
			amount: events, run: func() error {
				for range events {
					next++
					if err := openTask(site.Box, fmt.Sprintf("new-%d", next)); err != nil {
						return err
					}
				}
				return nil
			}})
	}
	rounds := shortRounds * s.rounds
	if err := race("slow subscribers", rounds, racers...); err != nil {
		return err
	}
	var t table
	t.row("appends of another process", "a second", "slowest–fastest", "×", "goal")
	t.row(append(racers[0].cells(1), "1.00", "")...)
	times := racers[1].times(racers[0])
	t.row(append(racers[1].cells(1), fmt.Sprintf("%.2f", times),
		formatGoal(fmt.Sprintf("≥ %g ×", goalSlowReader), times >= goalSlowReader))...)
	t.print(fmt.Sprintf("Slow subscribers (median of %d interleaved rounds)", rounds))
	var err error
	for _, site := range sites {
		err = errors.Join(err, site.close())
	}
	return err
}

// timeFirstPage measures the first page of a long log: of a server that runs, and of one that is
// started for it.
func timeFirstPage(program, dir string, s settings) error {
	folder := filepath.Join(dir, box.FolderName)
	if err := writeLong(folder, s.events); err != nil {
		return err
	}
	token, err := newToken(folder)
	if err != nil {
		return err
	}
	pages := []string{"/", "/board"}
	running, started := make([][]float64, len(pages)), make([][]float64, len(pages))
	for range s.rounds {
		for i, page := range pages {
			start := time.Now()
			server, err := startServer(program, folder, filepath.Join(dir, "key"))
			if err != nil {
				return err
			}
			ready := time.Now()
			if _, err := get(http.DefaultClient, server.url+page, token); err != nil {
				return err
			}
			end := time.Now()
			running[i], started[i] = append(running[i], end.Sub(ready).Seconds()),
				append(started[i], end.Sub(start).Seconds())
			if err := server.stop(); err != nil {
				return err
			}
		}
	}
	var t table
	t.row(fmt.Sprintf("first page, %d events", s.events), "seconds", "goal")
	for i, page := range pages {
		for _, c := range []struct {
			name  string
			times []float64
		}{{"the server runs", running[i]}, {"the server is started", started[i]}} {
			t.row(fmt.Sprintf("%s, %s", page, c.name), fmt.Sprintf("%.3f", median(c.times)),
				formatGoal(fmt.Sprintf("≤ %g s", goalFirstPage), median(c.times) <= goalFirstPage))
		}
	}
	t.print(fmt.Sprintf("A long log (median of %d rounds)", s.rounds))
	return nil
}
