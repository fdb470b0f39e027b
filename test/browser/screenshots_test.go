package browser_test

import (
	"bytes"
	"flag"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"signalbox/internal/testkit/must"
)

var update = flag.Bool("update", false, "write the pictures in docs/pictures/dashboard")

const (
	pictures = "../../docs/pictures/dashboard"
	// How large a picture, and all of them, may be.
	maxPicture, maxPictures = 90 << 10, 1500 << 10
)

// screenshots are the pictures in the documentation.
var screenshots = []struct{ name, path string }{
	{"inbox", "/"}, {"board", "/board"}, {"run", "/run"}, {"crew", "/crew"}, {"cost", "/cost"},
	{"ledger", "/ledger?work=T5&text=audit"}, {"event", "/ledger/30"}, {"verify", "/verify"},
	{"task", "/work/T3"}, {"diff", "/work/T5/diff"}, {"log", "/work/T3/log"},
	{"portfolio", "/portfolio"},
	{"calendar", "/portfolio?min_loss=150#calendar"}, {"position", "/portfolio/SLV"},
	{"treerun", "/trees/{run}?tick=2"},
}

// TestScreenshots checks that every picture exists, is small, and is shown in the documentation.
// With -update it takes them.
func TestScreenshots(t *testing.T) {
	if *update {
		takeScreenshots(t)
	}
	shown := ""
	for _, name := range []string{"../../docs/how-to/dashboard.md", "../../README.md"} {
		text, err := os.ReadFile(name)
		must.Succeed(t, err)
		shown += string(text)
	}
	files, err := filepath.Glob(filepath.Join(pictures, "*"))
	must.Succeed(t, err)
	if want := 2*len(screenshots) + 3 + oraclePictures; len(files) != want {
		t.Errorf("there are %d pictures, not %d: go test ./test/browser -run Screenshots -update",
			len(files), want)
	}
	total := int64(0)
	for _, name := range files {
		info, err := os.Stat(name)
		must.Succeed(t, err)
		if info.Size() > maxPicture {
			t.Errorf("%s has %d bytes", name, info.Size())
		}
		total += info.Size()
		if !strings.Contains(shown, "pictures/dashboard/"+filepath.Base(name)) {
			t.Errorf("no document shows %s", name)
		}
	}
	if total > maxPictures {
		t.Errorf("the pictures have %d bytes", total)
	}
}

func takeScreenshots(t *testing.T) {
	p := loggedIn(t, onSharedStage(t))
	must.Succeed(t, os.MkdirAll(pictures, 0o755))
	for _, picture := range screenshots {
		for _, scheme := range []string{"light", "dark"} {
			p.scheme(scheme)
			p.picture(picture.name+"-"+scheme, picture.path, 1280, 860)
		}
	}
	p.scheme("light")
	p.picture("inbox-phone", "/", 390, 844)
	p.picture("task-phone", "/work/T3", 390, 844)
	p.picture("treerun-phone", "/trees/{run}?tick=2", 390, 844)
	takeOraclePictures(t)
}

// picture takes a picture of a page in a window of at most a height.
func (p *tab) picture(name, path string, width, height int64) {
	p.t.Helper()
	p.size(width, 200)
	p.open(path)
	p.until(`!document.querySelector("main [data-live]") || document.getElementById("live").textContent.includes("live")`)
	p.size(width, min(height, eval[int64](p, "document.scrollingElement.scrollHeight")))
	data, err := run(p, chromedp.CaptureScreenshot())
	must.Succeed(p.t, err)
	shot, err := png.Decode(bytes.NewReader(data))
	must.Succeed(p.t, err)
	var small bytes.Buffer
	encoder := png.Encoder{CompressionLevel: png.BestCompression}
	must.Succeed(p.t, encoder.Encode(&small, paletted(shot)))
	must.Succeed(p.t, os.WriteFile(filepath.Join(pictures, name+".png"), small.Bytes(), 0o644))
}

// paletted returns a picture with the colours that occur most. A page has few, and the shades of
// the edges of letters.
func paletted(shot image.Image) *image.Paletted {
	const colours = 256
	counts := map[color.Color]int{}
	bounds := shot.Bounds()
	for y := bounds.Min.Y; y < bounds.Max.Y; y++ {
		for x := bounds.Min.X; x < bounds.Max.X; x++ {
			counts[shot.At(x, y)]++
		}
	}
	var palette color.Palette
	for c := range counts {
		palette = append(palette, c)
	}
	slices.SortFunc(palette, func(a, b color.Color) int { return counts[b] - counts[a] })
	small := image.NewPaletted(bounds, palette[:min(colours, len(palette))])
	draw.Draw(small, bounds, shot, bounds.Min, draw.Src)
	return small
}
