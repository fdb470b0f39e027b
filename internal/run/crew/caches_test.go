package crew

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"signalbox/internal/core/rules"
	"signalbox/internal/testkit/must"
)

// ecosystem is a build tool and how it gets the package dep, which its registry has.
type ecosystem struct {
	needs string // a program
	// online gets the package on the base, and offline from the cache. offline must fail if that
	// does not have it.
	online, offline string
	// files of the project. $URL is the registry, and $DIR a folder with it.
	files map[string]string
	// registry are the answers of the registry, by their paths, and files in its folder.
	registry map[string]string
}

// archived returns a compressed archive.
func archived(t *testing.T, files map[string]string) string {
	t.Helper()
	var b bytes.Buffer
	compressed := gzip.NewWriter(&b)
	w := tar.NewWriter(compressed)
	for name, text := range files {
		must.Succeed(t, w.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(text))}))
		_, err := w.Write([]byte(text))
		must.Succeed(t, err)
	}
	must.Succeed(t, w.Close())
	must.Succeed(t, compressed.Close())
	return b.String()
}

// wheelBuilder is a Python package that builds itself without any other package.
const wheelBuilder = `import zipfile
def build_wheel(folder, settings=None, metadata=None):
    wheel = 'dep-1.0-py3-none-any.whl'
    with zipfile.ZipFile(folder + '/' + wheel, 'w') as z:
        info = 'dep-1.0.dist-info/'
        z.writestr('dep.py', '')
        z.writestr(info + 'METADATA', 'Metadata-Version: 2.1\nName: dep\nVersion: 1.0\n')
        z.writestr(info + 'WHEEL', 'Wheel-Version: 1.0\nGenerator: x\nRoot-Is-Purelib: true\nTag: py3-none-any\n')
        z.writestr(info + 'RECORD', '')
    return wheel
`

func ecosystems(t *testing.T) map[string]ecosystem {
	crate := archived(t, map[string]string{"dep-1.0.0/src/lib.rs": "",
		"dep-1.0.0/Cargo.toml": "[package]\nname = \"dep\"\nversion = \"1.0.0\"\nedition = \"2021\"\n"})
	// not through a version manager, which would note the new package elsewhere
	const pip = `"$(python3 -c 'import sys; print(sys.executable)')" -m pip install ` +
		"--disable-pip-version-check --no-deps -i file://$DIR/simple --target out dep"
	return map[string]ecosystem{
		"npm": {
			needs: "npm", online: "npm install", offline: "npm install --offline",
			files: map[string]string{".npmrc": "registry=$URL/\naudit=false\nfund=false\n",
				"package.json": `{"name": "own", "version": "1.0.0", "dependencies": {"dep": "1.0.0"}}`},
			registry: map[string]string{
				"dep": `{"name": "dep", "dist-tags": {"latest": "1.0.0"}, "versions": {"1.0.0":
					{"name": "dep", "version": "1.0.0", "dist": {"tarball": "$URL/dep.tgz"}}}}`,
				"dep.tgz": archived(t, map[string]string{
					"package/package.json": `{"name": "dep", "version": "1.0.0"}`}),
			},
		},
		"cargo": {
			needs: "cargo", online: "cargo build", offline: "cargo build --offline",
			files: map[string]string{"src/lib.rs": "",
				"Cargo.toml":         "[package]\nname = \"own\"\nversion = \"1.0.0\"\nedition = \"2021\"\n[dependencies]\ndep = {version = \"1.0.0\", registry = \"local\"}\n",
				".cargo/config.toml": "[registries.local]\nindex = \"sparse+$URL/index/\"\n"},
			registry: map[string]string{
				"index/config.json": `{"dl": "$URL/crates"}`,
				"index/3/d/dep": fmt.Sprintf(`{"name":"dep","vers":"1.0.0","deps":[],"cksum":"%x","features":{},"yanked":false}`,
					sha256.Sum256([]byte(crate))),
				"crates/dep/1.0.0/download": crate,
			},
		},
		"pip": {
			needs: "python3", online: pip, offline: pip + " | tee pip.log && grep 'Using cached' pip.log",
			files: map[string]string{},
			registry: map[string]string{
				"simple/dep/index.html": `<a href="dep-1.0.tar.gz">dep-1.0.tar.gz</a>`,
				"simple/dep/dep-1.0.tar.gz": archived(t, map[string]string{
					"dep-1.0/PKG-INFO":       "Metadata-Version: 2.1\nName: dep\nVersion: 1.0\n",
					"dep-1.0/backend.py":     wheelBuilder,
					"dep-1.0/pyproject.toml": "[build-system]\nrequires = []\nbuild-backend = \"backend\"\nbackend-path = [\".\"]\n"}),
			},
		},
	}
}

// What a build tool has downloaded or built on the base is there for developers, reviewers and
// checks, which need no registry.
func TestCachesOfBuildTools(t *testing.T) {
	needSandbox(t)
	for name, e := range ecosystems(t) {
		t.Run(name, func(t *testing.T) {
			if _, err := exec.LookPath(e.needs); err != nil {
				t.Skip(err)
			}
			dir := t.TempDir()
			server := httptest.NewServer(http.FileServer(http.Dir(dir)))
			t.Cleanup(server.Close)
			at := strings.NewReplacer("$URL", server.URL, "$DIR", dir)
			for name, text := range e.registry {
				file := filepath.Join(dir, name)
				must.Succeed(t, os.MkdirAll(filepath.Dir(file), 0o755))
				must.Succeed(t, os.WriteFile(file, []byte(at.Replace(text)), 0o644))
			}
			files := map[string]string{
				".gitignore": "node_modules\ntarget\nout\n*.log\n*lock*\n",
				"build.sh": at.Replace("case $SIGNALBOX_WORK in\nB-*) " + e.online + " ;;\n*) " +
					e.offline + " ;;\nesac\n"),
				"agent.sh": `cat >/dev/null
sh build.sh 2>&1 || exit 1
case $SIGNALBOX_ROLE in
developer) echo x >x.txt; echo READY_FOR_REVIEW: $SIGNALBOX_WORK;;
critic) echo REVIEW_PASSED: $SIGNALBOX_WORK;;
auditor) echo AUDIT_PASSED: $SIGNALBOX_WORK;;
esac
`}
			for name, text := range e.files {
				files[name] = at.Replace(text)
			}
			s := set(t, scene{git: true, plan: task("T1"), files: files,
				options:  Options{LeaveQuestions: true},
				settings: fmt.Sprintf("sandbox: {mode: enforce, read: [%q]}\nagent: shell\nslots: 1\nchecks: [{name: build, command: sh build.sh}]\n", dir)})
			s.begin().end()
			for _, e := range all[rules.ChecksRan](s, "") {
				if !e.Body.Rows[0].Passed {
					t.Errorf("%s: the check fails:\n%s", e.Work, s.blobText(e.Body.Rows[0].Output))
				}
			}
			s.wantCompleted("T1")
			for _, e := range all[rules.AgentTurnEnded](s, "T1") {
				if e.Body.Exit != 0 {
					t.Errorf("it built:\n%s", s.blobText(e.Body.Output))
				}
			}
		})
	}
}
