package main

// bucket: the decision for a token bucket, and the limiter itself.
func (s *story) bucket(fresh map[string]string) {
	s.User(`Now rate limiting. One tablet with a broken retry loop sent 90 requests a second last month. Decision of the team: token bucket, capacity 40, refill 8 tokens per second, per client IP. Over the limit: status 429 with the new code RATE_LIMITED and a Retry-After header in whole seconds. The health check is never limited. The existing codes stay as they are, a new one is fine.`)
	s.Think("Token bucket, capacity 40, refill 8/s, per IP. 429 RATE_LIMITED, Retry-After in whole seconds. healthz exempt. No dependency: write it by hand, injectable clock.")
	s.Plan("x Fix the double booking (HARB-2187)", "> Token bucket with tests (capacity 40, refill 8/s)", "- Middleware: 429 RATE_LIMITED with Retry-After, health check exempt", "- Settings HARBOUR_RATE_BURST and HARBOUR_RATE_REFILL", "- Try it on staging", "- Describe RATE_LIMITED and Retry-After in docs/api.md", "- make test")
	s.Together(func() {
		s.Read("internal/httpapi/server.go")
		s.Read("internal/httpapi/middleware.go")
	})
	s.Missing("internal/ratelimit/bucket.go")
	s.Write("internal/ratelimit/bucket.go", fresh["internal/ratelimit/bucket.go"])
	s.Write("internal/ratelimit/bucket_test.go", fresh["internal/ratelimit/bucket_test.go"])
	s.Fails("go test -race -count=1 -v ./internal/ratelimit", "Run the tests of the bucket", 1, s.GoTest("internal/ratelimit", map[string]string{
		"TestRetryAfterIsNeverZero": "    bucket_test.go:74: allowed false, retry after 0 s, want 1",
	}))
	s.Think("Round gives 0 for 0.125 s. A client that waits 0 s retries at once: exactly the loop we want to stop. Ceil, at least 1.")
	s.Say("A good failure: an eighth of a second rounds to `Retry-After: 0`, which invites the loop that we want to stop. It has to round up.")
	s.Edit("internal/ratelimit/bucket.go", "	return false, int(math.Round((1 - b.tokens) / l.limit.Refill))", "	return false, max(1, int(math.Ceil((1-b.tokens)/l.limit.Refill)))")
	s.Bash("go test -race -count=1 -v ./internal/ratelimit", "Run the tests of the bucket again", s.GoTest("internal/ratelimit", nil))
	s.Read("internal/ratelimit/bucket.go")
}

// middleware: the limiter in front of the API.
func (s *story) middleware(fresh map[string]string) {
	s.Plan("x Fix the double booking (HARB-2187)", "x Token bucket with tests (capacity 40, refill 8/s)", "> Middleware: 429 RATE_LIMITED with Retry-After, health check exempt", "- Settings HARBOUR_RATE_BURST and HARBOUR_RATE_REFILL", "- Try it on staging", "- Describe RATE_LIMITED and Retry-After in docs/api.md", "- make test")
	s.Write("internal/httpapi/limit.go", fresh["internal/httpapi/limit.go"])
	s.Edit("internal/httpapi/server.go", "	\"harbour.example/api/internal/berth\"\n)", "	\"harbour.example/api/internal/berth\"\n	\"harbour.example/api/internal/ratelimit\"\n)")
	s.Edit("internal/httpapi/server.go", "	APIKeys  map[string]string\n", "	APIKeys  map[string]string\n	Limiter  *ratelimit.Limiter\n")
	s.Edit("internal/httpapi/server.go", "	h = s.authenticate(h)\n", "	h = s.limit(h)\n	h = s.authenticate(h)\n")
	s.Read("internal/httpapi/bookings_test.go")
	s.Write("internal/httpapi/limit_test.go", fresh["internal/httpapi/limit_test.go"])
	s.Fails("go test -race -count=1 ./internal/httpapi", "Tests of the API", 1, "--- FAIL: TestABookingIsCreatedAndReadBack (0.004s)\n    bookings_test.go:65: 500 map[error:map[code:INTERNAL message:something went wrong on our side]]\n--- FAIL: TestTheSecondBookingOfAWindowIsBerthTaken (0.002s)\n    bookings_test.go:76: 500 map[error:map[code:INTERNAL message:something went wrong on our side]]\npanic: runtime error: invalid memory address or nil pointer dereference\n\ngoroutine 41 [running]:\nharbour.example/api/internal/ratelimit.(*Limiter).Allow(0x0, {0xc0001820a0, 0x9})\n\t/code/harbour-api/internal/ratelimit/bucket.go:38 +0x4c\nharbour.example/api/internal/httpapi.New.(*server).limit.func2({0x8a1f40, 0xc0000b2180}, 0xc000188280)\n\t/code/harbour-api/internal/httpapi/limit.go:20 +0x9a\nFAIL\tharbour.example/api/internal/httpapi\t0.031s\nFAIL")
	s.Say("The existing tests make a server without a limiter. A nil limiter should not be possible in production, so I give the tests one instead of a special case in the code. The burst of the tests is 5.")
	s.Edit("internal/httpapi/bookings_test.go", "		Timeout:  time.Second,\n", "		Limiter:  ratelimit.New(ratelimit.Limit{Burst: 5, Refill: 8}, time.Now),\n		Timeout:  time.Second,\n")
	s.Edit("internal/httpapi/bookings_test.go", "	\"harbour.example/api/internal/httpapi\"\n", "	\"harbour.example/api/internal/httpapi\"\n	\"harbour.example/api/internal/ratelimit\"\n")
	s.Fails("go test -race -count=1 -v ./internal/httpapi", "Tests of the API", 1, s.GoTest("internal/httpapi", map[string]string{
		"TestErrorCodes": "    --- FAIL: TestErrorCodes/a_bad_window (0.00s)\n        bookings_test.go:104: 429 map[error:map[code:RATE_LIMITED message:too many requests; wait as long as Retry-After says]], want 422 BAD_WINDOW",
	}))
	s.Think("TestErrorCodes makes 6 requests on one server; the burst is 5. Also order: limit is inside authenticate, so requests without a key are not limited: someone guessing keys is not slowed. But the first request with no key isn't counted, so the sixth is the fifth counted... it is refused at the sixth counted. Whatever: make a new server per case.")
	s.Say("`TestErrorCodes` makes six requests on one server. Each case gets a server of its own, which is cleaner anyway.")
	s.Edit("internal/httpapi/bookings_test.go", "func TestErrorCodes(t *testing.T) {\n	srv := newServer(t)\n", "func TestErrorCodes(t *testing.T) {\n")
	s.Edit("internal/httpapi/bookings_test.go", "			status, body, _ := call(t, srv, c.key, \"POST\"", "			status, body, _ := call(t, newServer(t), c.key, \"POST\"")
	s.Bash("go test -race -count=1 -v ./internal/httpapi", "Tests of the API", s.GoTest("internal/httpapi", nil))
	s.Grep(`"[A-Z]+_?[A-Z]*(_[A-Z]+)*",`, "internal/httpapi/errors.go")
	s.Say("All eight old codes are as they were, BERTH_TAKEN among them; RATE_LIMITED is the only new one.")
}

// settings: the numbers come from the environment.
func (s *story) settings(fresh map[string]string) {
	const path = "internal/config/config.go"
	s.Plan("x Fix the double booking (HARB-2187)", "x Token bucket with tests (capacity 40, refill 8/s)", "x Middleware: 429 RATE_LIMITED with Retry-After, health check exempt", "> Settings HARBOUR_RATE_BURST and HARBOUR_RATE_REFILL", "- Try it on staging", "- Describe RATE_LIMITED and Retry-After in docs/api.md", "- make test")
	s.Read(path)
	s.Edit(path, "	ShutdownGrace  time.Duration\n}", "	ShutdownGrace  time.Duration\n	RateBurst      int     // requests that a client may make at once\n	RateRefill     float64 // and how many more a second\n}")
	s.Edit(path, "		ShutdownGrace:  20 * time.Second,\n	}\n	for", "		ShutdownGrace:  20 * time.Second,\n		RateBurst:      40,\n		RateRefill:     8,\n	}\n	if err := rate(get, &cfg); err != nil {\n		return Config{}, err\n	}\n	for")
	s.Edit(path, "func durations(", "// rate reads the limit of requests. A limit of nothing would lock everybody out.\nfunc rate(get func(string) string, cfg *Config) error {\n	if s := get(\"HARBOUR_RATE_BURST\"); s != \"\" {\n		n, err := strconv.Atoi(s)\n		if err != nil || n < 1 {\n			return fmt.Errorf(\"HARBOUR_RATE_BURST: %q is not a positive number\", s)\n		}\n		cfg.RateBurst = n\n	}\n	if s := get(\"HARBOUR_RATE_REFILL\"); s != \"\" {\n		n, err := strconv.ParseFloat(s, 64)\n		if err != nil || n <= 0 {\n			return fmt.Errorf(\"HARBOUR_RATE_REFILL: %q is not a positive number\", s)\n		}\n		cfg.RateRefill = n\n	}\n	return nil\n}\n\nfunc durations(")
	s.Write("internal/config/config_test.go", fresh["internal/config/config_test.go"])
	s.Edit("cmd/harbour-api/main.go", "		APIKeys:  cfg.APIKeys,\n", "		APIKeys:  cfg.APIKeys,\n		Limiter:  ratelimit.New(ratelimit.Limit{Burst: cfg.RateBurst, Refill: cfg.RateRefill}, time.Now),\n")
	s.Fails("go build ./...", "Build", 1, "# harbour.example/api/cmd/harbour-api\ncmd/harbour-api/main.go:50:13: undefined: ratelimit")
	s.Edit("cmd/harbour-api/main.go", "	\"harbour.example/api/internal/httpapi\"\n", "	\"harbour.example/api/internal/httpapi\"\n	\"harbour.example/api/internal/ratelimit\"\n")
	s.Bash("go build ./... && go test -race -count=1 -v ./internal/config", "Build and test the settings", s.GoTest("internal/config", nil))
	s.Bash("make test", "Everything that must pass", s.MakeTest(nil))
	s.Bash("git status --short", "What is not committed", s.Status())
	s.Bash("git diff internal/config/config.go internal/httpapi/server.go cmd/harbour-api/main.go", "Review before the commit", s.Diff(path)+"\n"+s.Diff("internal/httpapi/server.go")+"\n"+s.Diff("cmd/harbour-api/main.go"))
	s.Commit(path, "internal/config/config_test.go", "cmd/harbour-api/main.go", "internal/httpapi/server.go", "internal/httpapi/limit.go", "internal/httpapi/limit_test.go", "internal/httpapi/bookings_test.go", "internal/ratelimit/bucket.go", "internal/ratelimit/bucket_test.go")
	s.Bash("git add -A internal cmd && git commit -q -m 'httpapi: rate limit with a token bucket (HARB-2187)' && git log --oneline -1", "Commit", "0b7c3aa httpapi: rate limit with a token bucket (HARB-2187)")
	s.Say("Rate limiting is in and committed as 0b7c3aa: capacity 40, refill 8 per second, per client IP, all configurable. `make test` passes. Next I try it on staging.")
}

// staging: a command is interrupted; the port has moved.
func (s *story) staging() {
	s.User("Fine. Try it on staging, the machine has the new build since ten minutes ago. Key for you: stg-agent.")
	s.Together(func() {
		s.Read("docs/runbook.md")
		s.Read("deploy/staging.env")
	})
	s.Fails("curl -sS -m 10 https://harbour-staging.example:7443/healthz", "Is staging up?", 28, "curl: (28) Connection timed out after 10001 milliseconds")
	s.Think("Port 7443 from runbook and staging.env does not answer. VPN? Try again with a longer wait in a loop.")
	s.Say("Staging does not answer on 7443. I wait for it in a loop, perhaps it is still starting.")
	s.Interrupted("for i in $(seq 1 60); do curl -sS -m 10 https://harbour-staging.example:7443/healthz && break; sleep 10; done", "Wait for staging")
	s.User("Stop, that will never work: since Monday staging listens on port 7480, 7443 belongs to the gate cameras now. Please correct the runbook and deploy/staging.env, both still say 7443.")
	s.Say("Then 7480 it is. I correct both files and look for other places that have the old port.")
	s.Grep("7443", "")
	s.Edit("docs/runbook.md", "https://harbour-staging.example:7443/healthz", "https://harbour-staging.example:7480/healthz")
	s.Edit("deploy/staging.env", "HARBOUR_LISTEN=:7443", "HARBOUR_LISTEN=:7480")
	s.Grep("7443|7480", "")
	s.Bash("curl -sS -m 10 https://harbour-staging.example:7480/healthz", "Is staging up?", "ok")
	s.Bash("for i in $(seq 1 50); do curl -s -o /dev/null -w '%{http_code}\\n' -H 'X-Api-Key: stg-agent' https://harbour-staging.example:7480/v1/berths; done | sort | uniq -c", "Fifty requests in a row", "     42 200\n      8 429")
	s.Bash("curl -si -H 'X-Api-Key: stg-agent' https://harbour-staging.example:7480/v1/berths | head -12", "What a refusal looks like", "HTTP/2 429\ncontent-type: application/json\nretry-after: 1\ncontent-length: 97\n\n{\"error\":{\"code\":\"RATE_LIMITED\",\"message\":\"too many requests; wait as long as Retry-After says\"}}")
	s.Bash("for i in $(seq 1 60); do curl -s -o /dev/null -w '%{http_code}\\n' https://harbour-staging.example:7480/healthz; done | sort | uniq -c", "The health check is not limited", "     60 200")
	s.Bash("journalctl -u harbour-api -o cat -n 30", "The log of staging", Journal(6, 30))
	s.Say("On staging (port 7480) 42 of 50 requests got through, which is the burst of 40 and two refilled ones; the rest got 429 with `Retry-After: 1`. The health check was never refused.")
	s.Commit("docs/runbook.md", "deploy/staging.env")
	s.Bash("git commit -q -am 'docs: staging listens on 7480' && git log --oneline -1", "Commit", "93e5d18 docs: staging listens on 7480")
}

// correct: the user supersedes two numbers of the decision.
func (s *story) correct() {
	s.User("Two corrections from the team meeting. First: per API key, not per IP. All tablets on the pier share one address behind the access point, they would throttle each other. Second: capacity 60 instead of 40, because the morning sync of the office makes 55 requests at once. The refill stays 8 per second.")
	s.Think("Supersedes: key = API key (not IP), burst 60 (not 40). Refill 8 unchanged. Requests with an unknown key never reach the limiter since authenticate is outside... order: limit wraps mux, then authenticate wraps limit: authenticate runs first. So the agent/key is known. Limit by key itself, not by owner name? 'per API key'. Owner name could have two keys. Use the key.")
	s.Plan("x Fix the double booking (HARB-2187)", "x Token bucket with tests", "x Middleware: 429 RATE_LIMITED with Retry-After, health check exempt", "x Settings HARBOUR_RATE_BURST and HARBOUR_RATE_REFILL", "x Try it on staging (port 7480)", "> Limit per API key, capacity 60", "- Metric for refused requests", "- Forget idle buckets", "- Describe RATE_LIMITED and Retry-After in docs/api.md", "- Load test staging with 300 requests per second (needs the VPN)", "- make test")
	s.Read("internal/httpapi/limit.go")
	s.Edit("internal/httpapi/limit.go", "		if ok, after := s.Limiter.Allow(clientOf(r)); !ok {", "		if ok, after := s.Limiter.Allow(r.Header.Get(\"X-Api-Key\")); !ok {")
	s.Edit("internal/httpapi/limit.go", "\n// clientOf is the address of the client without its port.\nfunc clientOf(r *http.Request) string {\n	host, _, err := net.SplitHostPort(r.RemoteAddr)\n	if err != nil {\n		return r.RemoteAddr\n	}\n	return host\n}\n", "")
	s.Edit("internal/httpapi/limit.go", "// limit refuses the requests of a client that makes too many of them.", "// limit refuses the requests of an API key that makes too many of them. It runs\n// after authenticate, so that only known keys have a bucket. It does not look at\n// addresses: the tablets on the pier share one.")
	s.Fails("go build ./internal/httpapi", "Build", 1, "# harbour.example/api/internal/httpapi\ninternal/httpapi/limit.go:4:2: \"net\" imported and not used")
	s.Edit("internal/httpapi/limit.go", "	\"net\"\n", "")
	s.Edit("internal/httpapi/limit_test.go", "// TestTheHealthCheckIsNeverLimited", "// TestKeysOfOneAddressDoNotShareALimit: the tablets are behind one access point.\nfunc TestKeysOfOneAddressDoNotShareALimit(t *testing.T) {\n	srv := newServer(t)\n	for range 6 {\n		call(t, srv, \"k-agent\", \"GET\", \"/v1/berths\", \"\")\n	}\n	if status, body, _ := call(t, srv, \"k-office\", \"GET\", \"/v1/berths\", \"\"); status != http.StatusOK {\n		t.Errorf(\"%d %v\", status, body)\n	}\n}\n\n// TestTheHealthCheckIsNeverLimited")
	s.Edit("internal/config/config.go", "		RateBurst:      40,\n", "		RateBurst:      60,\n")
	s.Fails("go test -race -count=1 ./internal/config ./internal/httpapi", "Tests of both packages", 1, "--- FAIL: TestDefaultsAreThoseOfTheTicket (0.00s)\n    config_test.go:26: burst 60, refill 8, listen :8080\nFAIL\nFAIL\tharbour.example/api/internal/config\t0.013s\nok  \tharbour.example/api/internal/httpapi\t1.061s\nFAIL")
	s.Say("The test of the defaults still has the old number, as it should until now. 60 is the decision.")
	s.Edit("internal/config/config_test.go", "	if cfg.RateBurst != 40 || cfg.RateRefill != 8", "	if cfg.RateBurst != 60 || cfg.RateRefill != 8")
	s.Bash("go test -race -count=1 -v ./internal/config ./internal/httpapi", "Tests of both packages", s.GoTest("internal/config", nil)+"\n"+s.GoTest("internal/httpapi", nil))
	s.Grep("40", "internal/ratelimit/bucket_test.go")
	s.Say("The tests of the bucket use 40 as an example of a limit, which says nothing about the setting; I leave them.")
	s.Bash("make test", "Everything that must pass", s.MakeTest(nil))
	s.Commit("internal/httpapi/limit.go", "internal/httpapi/limit_test.go", "internal/config/config.go", "internal/config/config_test.go")
	s.Bash("git commit -q -am 'httpapi: limit per API key, capacity 60 (HARB-2187)' && git log --oneline -1", "Commit", "d2a94fe httpapi: limit per API key, capacity 60 (HARB-2187)")
}
