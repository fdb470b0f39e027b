package main

// language is the info string of a fenced block, and complete pieces of code, in which braces and
// quotes balance as they do in real files.
type language struct {
	name   string
	pieces []string
}

var languages = []language{
	{"go", []string{`// ~I keeps the ~w of one ~w.
type ~I struct {
	mu    sync.Mutex // guards ~w
	~w map[string]*~I
	limit int
}
`, `func (s *~I) ~I(ctx context.Context, ~w string) (*~I, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(~w) == 0 || s.limit < ~n {
		return nil, fmt.Errorf("~w %q: %w", ~w, Err~I)
	}
	for i := 0; i < s.limit; i++ {
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case ch <- ~i{~w: i}:
		}
	}
	return s.~w[~w], nil
}
`, `func Test~I(t *testing.T) {
	for _, tc := range []struct{ in, want string }{
		{"~w", "~w"},
		{"~w: ~w", ""},
	} {
		if got := ~I(tc.in); got != tc.want {
			t.Errorf("~I(%q) = %q, want %q", tc.in, got, tc.want)
		}
	}
}
`}},
	{"python", []string{`class ~I(Base~I):
    """A ~w with its ~w."""

    def __init__(self, ~w, *, ~w=None):
        self.~w = ~w
        self._cache: dict[str, list[int]] = {}

    @property
    def ~i(self):
        return {"~w": self.~w, "size": len(self._cache)}
`, `def ~i(~w, limit=~n):
    result = []
    for key, value in sorted(~w.items()):
        if value < limit and not key.startswith("_"):
            result.append(f"{key}={value}")
        elif value is None:
            raise ValueError(f"no ~w for {key!r}")
    return "\n".join(result)
`}},
	{"tsx", []string{`export function ~I({ ~w, onClose }: ~IProps) {
  const [open, setOpen] = useState<boolean>(false);
  const ~w = useMemo(() => build~I(~w), [~w]);
  return (
    <section className="~w">
      <span onClick={() => setOpen(!open)}>{~w.title}</span>
      {open && <~I items={~w} onClose={onClose} />}
    </section>
  );
}
`, `const ~i: Record<string, ~I<number>> = {
  ~w: { min: ~n, max: ~n, step: 1 },
  ~w: { min: 0, max: ~n, step: ~n },
};
`}},
	{"rust", []string{`impl<'a, T: ~I> Iterator for ~I<'a, T> {
    type Item = Result<T, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        match self.~w.pop_front()? {
            Some(~w) if ~w.len() < ~n => Some(Ok(~w.into())),
            _ => None,
        }
    }
}
`, `#[derive(Debug, Clone, Default)]
pub struct ~I {
    pub ~w: Vec<Option<String>>,
    ~w: HashMap<u64, Box<dyn ~I>>,
}
`}},
	{"c", []string{`#include <~w/~w.h>
#include "~w.h"

#define ~I_LIMIT ~n

static int ~i(struct ~w *p, size_t n)
{
	if (p == NULL || n > ~I_LIMIT)
		return -EINVAL;
	while (n-- > 0)
		p->~w[n] = '"';
	return 0;
}
`, `struct ~w
{
	uint32_t ~w;
	char name[~n]; /* the ~w's name */
};
`}},
	{"html", []string{`<div class="~w">
  <p>The <strong>~w</strong> of the <a href="/~w/~n">~w</a></p>
  <select name="~w"><option value="~n">~w</option></select>
</div>
`, `<script src="/static/~w.js"></script>
<style>
.~w > .~w { margin: 0 ~dpx; }
</style>
<small>Copyright ~w</small>
`}},
	{"sql", []string{`SELECT t.id, t.~w, COUNT(*) AS n
FROM ~w_~w AS t
JOIN ~ws ON ~ws.id = t.~w_id
WHERE t.~w <> '~w' AND t.size < ~n
GROUP BY t.id, t.~w
HAVING COUNT(*) > ~n;
`}},
	{"json", []string{`{
  "name": "~w-~w",
  "version": "~n.~d.~d",
  "~w": {
    "~w": ["~w", "~w"],
    "limit": ~n
  }
}
`}},
	{"yaml", []string{`~w:
  image: registry.example.org/~w:~n
  command: ["~w", "--~w", "~n"]
  environment:
    ~I: "~w"
  depends_on:
    - ~w
`}},
	{"sh", []string{`set -eu
for f in ~w/*.~w; do
  if [ "$(wc -c < "$f")" -gt ~n ]; then
    echo "~w: $f" >&2
  fi
done | sort | head -n ~n
`}},
}
