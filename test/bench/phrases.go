package main

// The building blocks of the generated transcript. In a template ~w is a word, ~I a CamelCase name,
// ~i a snake_case name, ~f a path, ~n a number, ~d two digits and ~h eight hexadecimal digits.

var words = []string{
	"account", "adapter", "address", "archive", "balance", "batch", "branch", "buffer", "cache",
	"channel",
	"client", "cluster", "column", "config", "context", "counter", "cursor", "decoder", "digest",
	"document",
	"driver", "encoder", "engine", "entry", "event", "factory", "feature", "filter", "folder",
	"frame",
	"gateway", "handler", "header", "history", "import", "index", "invoice", "item", "journal",
	"key",
	"layout", "ledger", "limit", "listener", "loader", "lock", "manager", "message", "metric",
	"migration",
	"module", "network", "node", "offset", "order", "package", "parser", "payload", "payment",
	"pipeline",
	"plugin", "policy", "pool", "price", "profile", "proxy", "query", "queue", "record", "region",
	"registry", "report", "request", "resolver", "response", "retry", "route", "rule", "runner",
	"sample",
	"schedule", "schema", "section", "segment", "server", "session", "setting", "shard", "snapshot",
	"socket",
	"source", "stream", "summary", "table", "target", "template", "tenant", "thread", "ticket",
	"timeout",
	"token", "topic", "tracker", "trigger", "upload", "user", "validator", "version", "window",
	"worker",
}

var extensions = []string{".go", ".py", ".ts", ".tsx", ".rs", ".c", ".sql", ".yaml", ".md", ".sh"}

var sentences = []string{
	"I'll start by looking at how the ~w ~w is built before I change anything.",
	"The ~w in ~f holds on to the ~w after the ~w has been closed, which explains the leak.",
	"There are ~n callers of ~I, and all but two of them ignore the error.",
	"That test fails because the ~w is created before the ~w is ready; the order was never guaranteed.",
	"Now let me run the tests again to see whether the ~w still times out.",
	"I've moved the ~w logic out of ~f, so that the ~w no longer needs to know about the ~w.",
	"When x < y the ~w takes the short path, and the ~w is never asked.",
	"The type is Map<~I, List<~I>> today; a plain slice would do, as there are never more than ~n.",
	"Note that ~i returns an empty ~w → the caller treats that as success.",
	"This keeps the ~w small: the ~w only sees what it needs, and the ~w can be replaced in tests.",
	"Two things remain: the ~w does not retry, and the ~w — as far as I can tell — is never flushed.",
	"Reading ~f:~n, the lock is taken twice when the ~w is resumed during a ~w.",
	"It would be simpler to pass {~w, ~w} parallel, since both change at the same time.",
	"The build is green again, with ~n tests in the ~w package and ~n in the ~w package.",
	"Everything else in the ~w stays as it was.",
	"Because the ~w is shared, a slow ~w blocks every other ~w on the same ~w.",
	"Checking the documentation first: the ~w should accept any ~w up to ~n bytes.",
	"Reviewing the diff once more, I see that the ~w is still exported although no other package uses it.",
	"Expected behaviour is that the ~w falls back to the ~w, but the fallback is never reached.",
	"Files under ~w/ are generated, so I leave them alone and change the template instead.",
	"Audit logs show the ~w being written ~n times for one ~w.",
	"In short, the ~w is correct and the ~w was looking at the wrong ~w.",
}

var items = []string{
	"**~w ~w**: moved to ~f",
	"the ~w no longer reads the ~w twice",
	"`~i` takes a ~w instead of a ~w",
	"~f: handle an empty ~w",
	"add a test for a ~w without a ~w",
	"check that the ~w survives a restart of the ~w",
	"remove the old ~w ~w (unused since the ~w change)",
	"~n of ~n ~w cases pass, the rest need the new ~w",
	"why does `<~w>` come before `<~w>` here?",
}

var headings = []string{
	"The ~w ~w", "What changed in the ~w", "Next steps", "Why the ~w fails", "Findings in ~f",
	"Results",
	"Root cause", "Trade-offs of the ~w ~w",
}

var requests = []string{
	"Please also make the ~w configurable, and keep the default.",
	"The ~w in ~f looks wrong to me, can you check it?",
	"Continue with the ~w, then run all the tests.",
	"Yes, use the ~w. Do not touch the ~w.",
}

var logLines = []string{
	"2026-03-~d 14:~d:~d.~n INFO  [~w-~d] ~w: handled GET /api/v1/~w/~n?limit=~d in ~nms status=200 request=~h~h",
	"2026-03-~d 14:~d:~d.~n DEBUG ~w: ~w acquired after ~nms (~d waiting)",
	"2026-03-~d 14:~d:~d.~n WARN  ~w: ~w is slow, ~nms > ~nms, id=~h",
	"2026-03-~d 14:~d:~d.~n ERROR ~w: cannot open ~f: permission denied",
	"Mar ~d 09:~d:~d build-~d systemd[~n]: Started ~w ~w.",
	"time=2026-03-~dT10:~d:~dZ level=INFO msg=\"~w stored\" ~w=~h bytes=~n",
	"[~d:~d:~d] <~w> connected from 10.0.~d.~d",
	"ERROR: could not resolve ~w '~i' (tried ~n paths)",
	"INFO: ~w ~h is up to date",
	"10.0.~d.~d - - [~d/Mar/2026:14:~d:~d +0000] \"POST /~w/~w HTTP/1.1\" 201 ~n \"-\" \"Mozilla/5.0 (X11; Linux x86_64)\"",
	"Fetching ~w ~n.~n.~n",
}

var testLines = []string{
	"=== RUN   Test~I",
	"--- PASS: Test~I (0.~ds)",
	"=== RUN   Test~I/~w_~w",
	"    --- PASS: Test~I/~w_~w (0.00s)",
	"    ~w_test.go:~n: got ~n, want ~n",
	"ok  \texample.org/~w/~w\t0.~ns",
	"FAIL\texample.org/~w/~w [build failed]",
	"PASS",
	"tests/test_~w.py::test_~i PASSED            [ ~d%]",
	"tests/test_~w.py::test_~i FAILED            [ ~d%]",
	"E       AssertionError: assert <~I object at 0x7f~h> == None",
	"  \x1b[32m✓\x1b[39m renders the ~w with a ~w \x1b[2m(~n ms)\x1b[22m",
	"test ~w::tests::~i ... ok",
	"test result: ok. ~n passed; 0 failed; 0 ignored; finished in 0.~ds",
	"    at Object.<anonymous> (src/~w.test.ts:~n:~d)",
	"Tests:       1 failed, ~n passed, ~n total",
}

var jsonLines = []string{
	`{"level":"info","ts":"2026-03-~dT08:~d:~dZ","caller":"~w/~w.go:~n","msg":"~w updated","~w":"~h","trace":"~h~h","took_ms":~n}`,
	`{"id":~n,"type":"~w","tags":["~w","~w"],"owner":{"name":"~i","active":true},"path":"~f","note":"the ~w of \"~w\" <~w>"}`,
	`{"protocol":"http/1.1","method":"POST","status":~n,"body":{"~w":null,"~w":[~n,~n,~n]}}`,
	`{"Time":"2026-03-~dT08:~d:~dZ","Action":"output","Test":"Test~I","Output":"--- PASS: Test~I\n"}`,
}

var grepLines = []string{
	"~f:~n:	return ~i.~I(ctx, ~w, &~I{~w: ~n, ~w: true})",
	"~f:~n:func (s *~I) ~I(~w ~I) error {",
	"~f:~n:    <~w class=\"~w\">",
	"./~w/~w/~w~n.json",
	"-rw-r--r-- 1 build build ~n Mar ~d 10:~d ~w.~w",
	"drwxr-xr-x 2 build build 4096 Mar ~d 10:~d ~w",
}
