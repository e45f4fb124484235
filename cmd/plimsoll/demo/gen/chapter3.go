package main

// metrics: a counter of refusals, in the text form of the usual collector.
func (s *story) metrics() {
	s.User("Now the metric. The monitoring scrapes GET /metrics as plain text. One counter is enough: harbour_ratelimit_rejected_total with a label key_owner. No client library please, it is one line of text per owner.")
	s.Plan("x Fix the double booking (HARB-2187)", "x Token bucket with tests", "x Middleware: 429 RATE_LIMITED with Retry-After, health check exempt", "x Settings HARBOUR_RATE_BURST and HARBOUR_RATE_REFILL", "x Try it on staging (port 7480)", "x Limit per API key, capacity 60", "> Metric for refused requests", "- Forget idle buckets", "- Describe RATE_LIMITED and Retry-After in docs/api.md", "- Load test staging with 300 requests per second (needs the VPN)", "- make test")
	s.Think("/metrics: who may read it? The scraper has no API key probably. Ask? The monitoring network is separate... It lists key owners, not keys. Exempt from the limit? I would keep it behind authenticate unless told otherwise. Ask the user.")
	s.Say("One question first: does the scraper send an API key? If not I have to leave `/metrics` open, and it shows the names of the key owners.")
	s.User("It sends one, key owner is called monitoring. So keep it behind the key, and count it like everybody else. It scrapes every 15 seconds, it will never reach the limit.")
	s.Read("internal/httpapi/middleware.go")
	s.Write("internal/httpapi/metrics.go", `package httpapi

import (
	"fmt"
	"net/http"
	"slices"
	"sync"
)

// rejections counts refused requests by the owner of the key.
type rejections struct {
	mu    sync.Mutex
	total map[string]int
}

func (r *rejections) add(owner string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.total == nil {
		r.total = map[string]int{}
	}
	r.total[owner]++
}

// metrics writes the counters in the text format of the monitoring.
func (s *server) metrics(w http.ResponseWriter, _ *http.Request) {
	s.rejected.mu.Lock()
	defer s.rejected.mu.Unlock()
	owners := []string{}
	for owner := range s.rejected.total {
		owners = append(owners, owner)
	}
	slices.Sort(owners)
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	fmt.Fprintln(w, "# TYPE harbour_ratelimit_rejected_total counter")
	for _, owner := range owners {
		fmt.Fprintf(w, "harbour_ratelimit_rejected_total{key_owner=%q} %d\n", owner, s.rejected.total[owner])
	}
}
`)
	s.Edit("internal/httpapi/server.go", "type server struct {\n	Options\n}", "type server struct {\n	Options\n	rejected rejections\n}")
	s.Edit("internal/httpapi/server.go", "	s := &server{o}\n", "	s := &server{Options: o}\n")
	s.Edit("internal/httpapi/server.go", "	mux.HandleFunc(\"GET /v1/ships\", s.listShips)", "	mux.HandleFunc(\"GET /metrics\", s.metrics)\n	mux.HandleFunc(\"GET /v1/ships\", s.listShips)")
	s.Edit("internal/httpapi/limit.go", "			w.Header().Set(\"Retry-After\", strconv.Itoa(after))\n", "			s.rejected.add(agentOf(r.Context()))\n			w.Header().Set(\"Retry-After\", strconv.Itoa(after))\n")
	s.Edit("internal/httpapi/limit_test.go", "	if header.Get(\"Retry-After\") != \"1\" {\n		t.Errorf(\"Retry-After %q, want 1\", header.Get(\"Retry-After\"))\n	}\n}", "	if header.Get(\"Retry-After\") != \"1\" {\n		t.Errorf(\"Retry-After %q, want 1\", header.Get(\"Retry-After\"))\n	}\n}\n\n// TestRefusalsAreCountedByOwner reads /metrics with a key that has tokens left.\nfunc TestRefusalsAreCountedByOwner(t *testing.T) {\n	srv := newServer(t)\n	for range 8 {\n		call(t, srv, \"k-agent\", \"GET\", \"/v1/berths\", \"\")\n	}\n	req, err := http.NewRequest(\"GET\", srv.URL+\"/metrics\", nil)\n	if err != nil {\n		t.Fatal(err)\n	}\n	req.Header.Set(\"X-Api-Key\", \"k-office\")\n	res, err := srv.Client().Do(req)\n	if err != nil {\n		t.Fatal(err)\n	}\n	defer res.Body.Close()\n	text, err := io.ReadAll(res.Body)\n	if err != nil {\n		t.Fatal(err)\n	}\n	if want := `harbour_ratelimit_rejected_total{key_owner=\"agent-1\"} 3`; !strings.Contains(string(text), want) {\n		t.Errorf(\"metrics:\\n%s\\nwant %s\", text, want)\n	}\n}")
	s.Fails("go vet ./internal/httpapi", "Vet", 1, "# harbour.example/api/internal/httpapi_test\nvet: internal/httpapi/limit_test.go:44:15: undefined: io")
	s.Edit("internal/httpapi/limit_test.go", "import (\n	\"net/http\"\n	\"testing\"\n)", "import (\n	\"io\"\n	\"net/http\"\n	\"strings\"\n	\"testing\"\n)")
	s.Bash("go test -race -count=1 -v ./internal/httpapi", "Tests of the API", s.GoTest("internal/httpapi", nil))
	s.Bash("go test -race -count=30 ./internal/httpapi", "The same thirty times", "ok  \tharbour.example/api/internal/httpapi\t9.114s")
	s.Commit("internal/httpapi/metrics.go", "internal/httpapi/server.go", "internal/httpapi/limit.go", "internal/httpapi/limit_test.go")
	s.Bash("make test", "Everything that must pass", s.MakeTest(nil))
	s.Bash("git add -A internal && git commit -q -m 'httpapi: count refused requests (HARB-2187)' && git log --oneline -1", "Commit", "6ac0417 httpapi: count refused requests (HARB-2187)")
	s.Say("`GET /metrics` shows `harbour_ratelimit_rejected_total{key_owner=\"…\"}`, behind a key as you said. Committed as 6ac0417.")
}

// prune: buckets that nobody uses are forgotten; one test is flaky at first.
func (s *story) prune() {
	const path = "internal/ratelimit/bucket.go"
	s.Plan("x Fix the double booking (HARB-2187)", "x Token bucket with tests", "x Middleware: 429 RATE_LIMITED with Retry-After, health check exempt", "x Settings HARBOUR_RATE_BURST and HARBOUR_RATE_REFILL", "x Try it on staging (port 7480)", "x Limit per API key, capacity 60", "x Metric for refused requests", "> Forget idle buckets", "- Describe RATE_LIMITED and Retry-After in docs/api.md", "- Load test staging with 300 requests per second (needs the VPN)", "- make test")
	s.Think("With API keys the number of buckets is bounded by the configured keys. Is pruning needed at all? Keys are rotated with a restart. So at most a few dozen. Say so rather than build it? User asked? It was my own plan item. Propose to drop... but keys may be reloaded later. Let me look at the size first.")
	s.Read(path)
	s.Say("Since the limit is per API key, the map has at most as many buckets as there are configured keys. A full bucket is the same as no bucket, so forgetting is easy: drop it when it is full. But is it worth code?")
	s.User("We will load keys from the office directory soon, several thousand agents. So yes please, but simple: no background goroutine.")
	s.Say("Without a goroutine then: every so many calls `Allow` sweeps out the buckets that have filled up again.")
	s.Edit(path, "	mu      sync.Mutex\n	buckets map[string]*bucket\n}", "	mu      sync.Mutex\n	buckets map[string]*bucket\n	calls   int // since the last sweep\n}")
	s.Edit(path, "	now := l.now()\n	b := l.buckets[client]", "	now := l.now()\n	l.sweep(now)\n	b := l.buckets[client]")
	s.Edit(path, "// Allow takes a token", "// sweepEvery is how many calls pass between sweeps: rare enough to cost nothing,\n// often enough that the map stays near the number of active clients.\nconst sweepEvery = 1024\n\n// sweep forgets the buckets that are full again: a new one would be the same.\nfunc (l *Limiter) sweep(now time.Time) {\n	if l.calls++; l.calls < sweepEvery {\n		return\n	}\n	l.calls = 0\n	for client, b := range l.buckets {\n		if b.tokens+now.Sub(b.at).Seconds()*l.limit.Refill >= float64(l.limit.Burst) {\n			delete(l.buckets, client)\n		}\n	}\n}\n\n// Len is the number of buckets in memory.\nfunc (l *Limiter) Len() int {\n	l.mu.Lock()\n	defer l.mu.Unlock()\n	return len(l.buckets)\n}\n\n// Allow takes a token")
	s.Edit("internal/ratelimit/bucket_test.go", "func TestRetryAfterIsNeverZero", "// TestFullBucketsAreForgotten: a thousand clients come once, one stays.\nfunc TestFullBucketsAreForgotten(t *testing.T) {\n	l, c := setup(ratelimit.Limit{Burst: 2, Refill: 1})\n	for n := range 1000 {\n		l.Allow(strconv.Itoa(n))\n	}\n	c.Add(time.Minute)\n	allowed(l, \"tablet\", 1100)\n	if n := l.Len(); n > 2 {\n		t.Errorf(\"%d buckets in memory, want that of the tablet\", n)\n	}\n}\n\nfunc TestRetryAfterIsNeverZero")
	s.Edit("internal/ratelimit/bucket_test.go", "import (\n	\"sync\"", "import (\n	\"strconv\"\n	\"sync\"")
	s.Bash("go test -race -count=1 -v ./internal/ratelimit", "Tests of the bucket", s.GoTest("internal/ratelimit", nil))
	s.Fails("make test", "Everything that must pass", 2, s.MakeTest(map[string]string{"internal/berth": "--- FAIL: TestBerthsDoNotWaitForEachOther (0.00s)\npanic: close of closed channel\n\ngoroutine 58 [running]:\nharbour.example/api/internal/berth_test.(*slowStore).Bookings(0xc00012c060, {0x7f1c40, 0xa3b2e0}, {0x77d0f2, 0x4})\n\t/code/harbour-api/internal/berth/parallel_test.go:22 +0x9e"}))
	s.Think("Closed channel closed twice: Bookings called twice for B-11? In AssignTo → bookIfFree → free → one Bookings call. Hmm: only when the test's a.AssignTo is retried? With -count=1... which other caller? The flake: agent-1 AssignTo B-11 calls Bookings once. Unless the earlier run... Let me rerun many times and read.")
	s.Say("A panic in a test that passed fifty times before. I run it often to see how often it happens, before I change anything.")
	s.Bash("go test -race -count=200 -run TestBerthsDoNotWait ./internal/berth", "Two hundred runs of the test", "ok  \tharbour.example/api/internal/berth\t2.871s")
	s.Fails("go test -race -count=200 -cpu 1,2,4 -run TestBerthsDoNotWait ./internal/berth", "With other numbers of processors", 1, "--- FAIL: TestBerthsDoNotWaitForEachOther (0.00s)\npanic: close of closed channel\n\ngoroutine 1913 [running]:\nharbour.example/api/internal/berth_test.(*slowStore).Bookings(0xc0002a4120, {0x7f1c40, 0xa3b2e0}, {0x77d0f2, 0x4})\n\t/code/harbour-api/internal/berth/parallel_test.go:22 +0x9e\nFAIL\tharbour.example/api/internal/berth\t0.404s")
	s.Read("internal/berth/parallel_test.go")
	s.Say("The fault is in the test: `slowStore` may be asked for B-11 more than once, and closes `entered` each time. `sync.Once` makes it right; the code under test is not involved.")
	s.Edit("internal/berth/parallel_test.go", "	name    string\n	entered chan struct{}\n	release chan struct{}\n}", "	name    string\n	once    sync.Once\n	entered chan struct{}\n	release chan struct{}\n}")
	s.Edit("internal/berth/parallel_test.go", "		close(s.entered)\n", "		s.once.Do(func() { close(s.entered) })\n")
	s.Edit("internal/berth/parallel_test.go", "	\"context\"\n	\"testing\"", "	\"context\"\n	\"sync\"\n	\"testing\"")
	s.Bash("go test -race -count=200 -cpu 1,2,4 -run TestBerthsDoNotWait ./internal/berth", "With other numbers of processors", "ok  \tharbour.example/api/internal/berth\t8.655s")
	s.Bash("make test", "Everything that must pass", s.MakeTest(nil))
	s.Commit(path, "internal/ratelimit/bucket_test.go", "internal/berth/parallel_test.go")
	s.Bash("git commit -q -am 'ratelimit: forget full buckets (HARB-2187)' && git log --oneline -1", "Commit", "b58d02f ratelimit: forget full buckets (HARB-2187)")
}

// review: a colleague's remarks, one of which is declined by an earlier rule.
func (s *story) review() {
	s.User(`Ines has reviewed the branch. Her remarks:
1. Assign: when the ship fits nowhere we answer NO_BERTH_FITS, when everything is taken BERTH_TAKEN. Is there a test over HTTP that keeps the two apart?
2. She would rename BERTH_TAKEN to BERTH_OCCUPIED, "nicer English".
3. The lock map in locks.go never shrinks. Is that all right?
4. Does Hold check that the berth exists? It looks as if one can hold "B-99".`)
	s.Think("1: add a test. 2: decline, codes are a contract. 3: berths are never removed; but Hold/AssignTo with unknown names? AssignTo only locks candidates which exist. OK. 4: indeed Hold does not check. Would be unbounded map by arbitrary names. Which code? ErrNoBerth → NO_BERTH_FITS 422. Hmm, existing code; no new one needed.")
	s.Say("In order:\n\n1. There is not; I add one.\n2. I would decline: you said that the public codes stay exactly as they are, `BERTH_TAKEN` above all, because the tablets compare it as a string.\n3. Yes: only berths that exist are locked, since `AssignTo` looks for the name among the candidates first, and berths are not removed while the server runs.\n4. She is right, that is a hole: any name can be held, and `holds` grows with it. I fix that.")
	s.User("Agreed on all four, 2 is declined. For 4 use NO_BERTH_FITS, no new code.")
	s.Together(func() {
		s.Grep(`holds\[`, "internal/berth")
		s.Lines("internal/berth/assign.go", 36, 40)
	})
	s.Edit("internal/berth/assign.go", "func (a *Assigner) Hold(ctx context.Context, name, agent string) (time.Time, error) {\n", "func (a *Assigner) Hold(ctx context.Context, name, agent string) (time.Time, error) {\n	all, err := a.store.Berths(ctx)\n	if err != nil {\n		return time.Time{}, fmt.Errorf(\"list berths: %w\", err)\n	}\n	if !slices.ContainsFunc(all, func(b Berth) bool { return b.Name == name }) {\n		return time.Time{}, fmt.Errorf(\"hold %s: %w\", name, ErrNoBerth)\n	}\n")
	s.Edit("internal/berth/assign.go", "	\"fmt\"\n	\"sort\"\n", "	\"fmt\"\n	\"slices\"\n	\"sort\"\n")
	s.Edit("internal/berth/assign_test.go", "func TestBadWindowsAreRefused", "func TestOnlyBerthsThatExistCanBeHeld(t *testing.T) {\n	a, _ := setup(t)\n	if _, err := a.Hold(context.Background(), \"B-99\", \"agent-1\"); !errors.Is(err, berth.ErrNoBerth) {\n		t.Fatalf(\"error %v, want no berth\", err)\n	}\n}\n\nfunc TestBadWindowsAreRefused")
	s.Edit("internal/httpapi/bookings_test.go", "func TestErrorCodes(", "// TestTakenAndTooLongAreDifferentAnswers: the tablets show a list of other times\n// for the first and call the office for the second.\nfunc TestTakenAndTooLongAreDifferentAnswers(t *testing.T) {\n	srv := newServer(t)\n	any := strings.Replace(osprey, `\"berth\":\"B-07\",`, \"\", 1)\n	call(t, srv, \"k-agent\", \"POST\", \"/v1/bookings\", any)\n	if status, body, _ := call(t, srv, \"k-agent\", \"POST\", \"/v1/bookings\", any); status != 409 || code(body) != \"BERTH_TAKEN\" {\n		t.Errorf(\"%d %v, want 409 BERTH_TAKEN\", status, body)\n	}\n	call(t, srv, \"k-office\", \"PUT\", \"/v1/ships/9100003\", `{\"name\":\"Titan of Lund\",\"lengthM\":290,\"draughtM\":13.2}`)\n	long := strings.Replace(any, \"9100002\", \"9100003\", 1)\n	if status, body, _ := call(t, srv, \"k-office\", \"POST\", \"/v1/bookings\", long); status != 422 || code(body) != \"NO_BERTH_FITS\" {\n		t.Errorf(\"%d %v, want 422 NO_BERTH_FITS\", status, body)\n	}\n}\n\nfunc TestErrorCodes(")
	s.Bash("go test -race -count=1 -v ./internal/berth ./internal/httpapi", "Tests of both packages", s.GoTest("internal/berth", nil)+"\n"+s.GoTest("internal/httpapi", nil))
	s.Bash("make test", "Everything that must pass", s.MakeTest(nil))
	s.Bash("git diff internal/berth/assign.go internal/httpapi/bookings_test.go", "Review before the commit", s.Diff("internal/berth/assign.go")+"\n"+s.Diff("internal/httpapi/bookings_test.go"))
	s.Commit("internal/berth/assign.go", "internal/berth/assign_test.go", "internal/httpapi/bookings_test.go")
	s.Bash("git commit -q -am 'berth: only berths that exist can be held (HARB-2187)' && git log --oneline -1", "Commit", "17e6b4d berth: only berths that exist can be held (HARB-2187)")
	s.Say("Remarks 1 and 4 are done and committed as 17e6b4d, 2 is declined, 3 is answered. `make test` passes.")
}

// close: what is done, and what stays open.
func (s *story) close() {
	s.User("Good work. The VPN is down until tomorrow, so the load test has to wait. And the page in docs/api.md I want to write together with the tablet people, leave it open too. What is the state?")
	s.Plan("x Fix the double booking (HARB-2187)", "x Token bucket with tests", "x Middleware: 429 RATE_LIMITED with Retry-After, health check exempt", "x Settings HARBOUR_RATE_BURST and HARBOUR_RATE_REFILL", "x Try it on staging (port 7480)", "x Limit per API key, capacity 60", "x Metric for refused requests", "x Forget idle buckets", "x Drain for 5 s before shutdown", "x Measure 400 berths", "x Review of Ines", "- Describe RATE_LIMITED and Retry-After in docs/api.md", "- Load test staging with 300 requests per second (needs the VPN)")
	s.Together(func() {
		s.Bash("git status --short && git log --oneline -10", "State of the branch", "17e6b4d berth: only berths that exist can be held (HARB-2187)\n3fd20b8 berth: benchmark of Assign\ne94b6f7 harbour-api: drain for 5 s before shutdown\nb58d02f ratelimit: forget full buckets (HARB-2187)\n6ac0417 httpapi: count refused requests (HARB-2187)\nd2a94fe httpapi: limit per API key, capacity 60 (HARB-2187)\n93e5d18 docs: staging listens on 7480\n0b7c3aa httpapi: rate limit with a token bucket (HARB-2187)\nf40b9e1 store: an overlapping insert is a taken berth (HARB-2187)\nc81f2d6 berth: check and book in one step (HARB-2187)")
		s.Bash("git diff --stat 4be1f07 -- migrations", "Prove that migrations are as they were", "")
	})
	s.Bash("make test", "Everything that must pass", s.MakeTest(nil))
	s.Say("State of HARB-2187: ten commits, `make test` passes, `migrations` is untouched, the old error codes are unchanged.\n\nOpen:\n- Describe `RATE_LIMITED` and `Retry-After` in `docs/api.md`, together with the tablet people.\n- Load test staging (port 7480) with 300 requests per second, when the VPN is back.")
}
