package browser_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"signalbox/internal/testkit/built"
)

// patience is how long a page or a program may take. It is far longer than any does.
const patience = 3 * time.Minute

var (
	// scratch is a folder for all tests; program is the path of signalbox.
	scratch, program string
	// sharedStage is a stage for tests that change nothing.
	sharedStage = sync.OnceValues(func() (*stage,
		error) {
		return setUp(filepath.Join(scratch, "shared"), demoScene())
	})
	// chromium starts the browser. All tests share it, and each has a profile of its own.
	chromium     = sync.OnceValues(startChromium)
	stopChromium = func() {}
)

func TestMain(m *testing.M) { os.Exit(runTests(m)) }

// runTests builds signalbox, runs the tests, and stops what they have started.
func runTests(m *testing.M) int {
	dir, err := os.MkdirTemp("", "signalbox-browser-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	if scratch, err = filepath.EvalSymlinks(dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	if program, err = built.Program(scratch); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer stopServers()
	defer func() { stopChromium() }()
	return m.Run()
}

// startChromium starts the browser, and installs it if that is possible without a password.
func startChromium() (context.Context, error) {
	if runtime.GOOS == "windows" {
		return nil, errors.New("the scripted agents do not run on Windows")
	}
	path, err := findChromium()
	if err != nil {
		if out, needErr := exec.Command(filepath.Join("..", "..", "scripts", "need"),
			"chromium").CombinedOutput(); needErr != nil {
			return nil, fmt.Errorf(
				"chromium is needed (apt-get install chromium, or https://www.chromium.org): %s",
				out)
		}
		if path, err = findChromium(); err != nil {
			return nil, err
		}
	}
	opts := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path),
		chromedp.UserDataDir(filepath.Join(scratch, "profile")),
		// The sandbox of Chromium does not work for root, nor in most containers. The pages are
		// those of the program under test.
		chromedp.NoSandbox)
	allocator, stop := chromedp.NewExecAllocator(context.Background(), opts...)
	browser, _ := chromedp.NewContext(allocator)
	if err := chromedp.Do(browser); err != nil {
		stop()
		return nil, fmt.Errorf("start %s: %w", path, err)
	}
	stopChromium = func() {
		chromedp.Cancel(browser) // waits until it has ended
		stop()
	}
	return browser, nil
}

// needChromium returns the context of the browser. Without one, the test ends.
func needChromium(t *testing.T) context.Context {
	t.Helper()
	browser, err := chromium()
	if err != nil {
		skipOrFail(t, "%v", err)
	}
	return browser
}

// findChromium returns the path of the browser.
func findChromium() (path string, err error) {
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err = exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", err
}

// skipOrFail ends a test that this machine cannot run. It skips the test, but in CI, where a
// skipped test would go unnoticed, it fails the test.
func skipOrFail(t *testing.T, format string, args ...any) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatalf("this test must run in CI: "+format, args...)
	}
	t.Skipf(format, args...)
}
