package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/chromedp/chromedp"

	"signalbox/internal/serve/access"
)

// logIn logs a browser in, and returns the address of the board under the name at which it is.
func (s *site) logIn(tab context.Context) (board string, err error) {
	store := access.NewStore(s.Dir)
	host, err := store.LoginHost(tab)
	if err != nil {
		return "", err
	}
	link, err := store.NewLink(tab, "browser", access.Read, time.Now())
	if err != nil {
		return "", err
	}
	address := "http://" + host + s.server.url[strings.LastIndex(s.server.url, ":"):]
	if _, err := chromedp.Run(tab, chromedp.Navigate(address+"/login")); err != nil {
		return "", err
	}
	const submit = `fetch("/login", { method: "POST", body: new URLSearchParams({ link: %q }) }).then((answer) => answer.ok)`
	in, err := chromedp.Run(tab, chromedp.Evaluate[bool](fmt.Sprintf(submit, link),
		chromedp.EvalAwaitPromise))
	if err == nil && !in {
		err = errors.New("the browser cannot log in")
	}
	return address + "/board", err
}

// timeBrowser measures how long after an event of another process a browser shows the board with
// it. Without Chromium it measures nothing.
func timeBrowser(s *site, samples int) (took []time.Duration, err error) {
	path, err := exec.LookPath("chromium")
	if err != nil {
		progress("board: Chromium is not installed")
		return nil, nil
	}
	opts := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path),
		chromedp.UserDataDir(filepath.Join(filepath.Dir(s.Dir), "profile")), chromedp.NoSandbox)
	allocator, stop := chromedp.NewExecAllocator(context.Background(), opts...)
	defer stop()
	tab, _ := chromedp.NewContext(allocator)
	if err := chromedp.Do(tab); err != nil {
		return nil, fmt.Errorf("start %s: %w", path, err)
	}
	defer chromedp.Cancel(tab) // waits until it has ended
	board, err := s.logIn(tab)
	if err != nil {
		return nil, err
	}
	if _, err := chromedp.Run(tab, chromedp.Navigate(board)); err != nil {
		return nil, err
	}
	watch := func(expression string) error {
		_, err := chromedp.Run(tab, chromedp.Evaluate[bool](expression, chromedp.EvalAwaitPromise))
		return err
	}
	// promise returns an expression whose value is a promise that a condition holds.
	promise := func(condition string) string {
		return `new Promise((resolve) => {
			const look = () => { if (` + condition + `) { observer.disconnect(); resolve(true); } };
			const observer = new MutationObserver(look);
			observer.observe(document.body, { childList: true, subtree: true, characterData: true });
			look();
		})`
	}
	if err := watch(promise(
		`document.getElementById("live").textContent.includes("live")`)); err != nil {
		return nil, err
	}
	for i := range samples {
		id := fmt.Sprintf("seen-%d", i)
		if err := watch(`window.seen = ` + promise(`document.getElementById("task-`+id+`")`) +
			`, true`); err != nil {
			return nil, err
		}
		time.Sleep(idle)
		start := time.Now()
		if err := openTask(s.Box, id); err != nil {
			return nil, err
		}
		if err := watch(`window.seen`); err != nil {
			return nil, err
		}
		took = append(took, time.Since(start))
	}
	return took, nil
}
