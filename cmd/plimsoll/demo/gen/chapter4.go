package main

// drain: deploys lose requests; the health check has to say so in time.
func (s *story) drain(fresh map[string]string) {
	s.User("Something else while you are at it: at every deploy of production the office sees two or three \"connection refused\". Two machines, the balancer should move everything to the other one. It probes /healthz every 2 seconds and takes a machine out after two failures. What do we do wrong?")
	s.Plan("x Fix the double booking (HARB-2187)", "x Token bucket with tests", "x Middleware: 429 RATE_LIMITED with Retry-After, health check exempt", "x Settings HARBOUR_RATE_BURST and HARBOUR_RATE_REFILL", "x Try it on staging (port 7480)", "x Limit per API key, capacity 60", "x Metric for refused requests", "x Forget idle buckets", "> Drain before shutdown", "- Describe RATE_LIMITED and Retry-After in docs/api.md", "- Load test staging with 300 requests per second (needs the VPN)", "- make test")
	s.Together(func() {
		s.Read("cmd/harbour-api/main.go")
		s.Read("internal/httpapi/server.go")
		s.Read("deploy/production.env")
	})
	s.Bash("journalctl -u harbour-api -o cat --since '2040-05-10 06:00' -n 20 # copied from production", "The log around the last deploy", Journal(9, 18)+"\n{\"time\":\"2040-05-10T06:31:12.004Z\",\"level\":\"INFO\",\"msg\":\"stopped\"}\n{\"time\":\"2040-05-10T06:31:14.870Z\",\"level\":\"INFO\",\"msg\":\"listening\",\"addr\":\":8080\",\"berths\":31}")
	s.Think("Shutdown closes the listener at once. The balancer needs up to 2 probes x 2 s = 4 s plus to notice. In that time new connections are refused. Fix: on SIGTERM, healthz answers 503, keep serving for a drain delay > 4 s, then Shutdown. 5 s is the natural number. ShutdownGrace 20 s stays for running requests.")
	s.Say("`srv.Shutdown` closes the listener at once, but the balancer notices only after two failed probes, up to 4 seconds later. In between it still sends us connections, and they are refused. The usual way: on SIGTERM `/healthz` answers 503 while everything else goes on for a few seconds, then we shut down. With your figures 5 seconds are enough. Shall I make it a setting?")
	s.User("No setting, a constant of 5 seconds, with a comment why. And the body of /healthz must stay \"ok\" when healthy, the probe compares it. When draining the body does not matter.")
	s.Edit("internal/httpapi/server.go", "	Timeout  time.Duration\n}", "	Timeout  time.Duration\n	Draining func() bool // reports whether the server is about to stop; may be nil\n}")
	s.Edit("internal/httpapi/server.go", "	w.Header().Set(\"Content-Type\", \"text/plain; charset=utf-8\")\n	w.Write", "	w.Header().Set(\"Content-Type\", \"text/plain; charset=utf-8\")\n	if s.Draining != nil && s.Draining() {\n		w.WriteHeader(http.StatusServiceUnavailable)\n		w.Write([]byte(\"draining\\n\"))\n		return\n	}\n	w.Write")
	s.Write("internal/httpapi/drain_test.go", fresh["internal/httpapi/drain_test.go"])
	s.Bash("go test -race -count=1 -run 'Drain|Health' -v ./internal/httpapi", "The new test and that of the health check", "=== RUN   TestADrainingServerTellsTheBalancerAndGoesOnServing\n--- PASS: TestADrainingServerTellsTheBalancerAndGoesOnServing (0.002s)\n=== RUN   TestTheHealthCheckIsNeverLimited\n--- PASS: TestTheHealthCheckIsNeverLimited (0.024s)\nPASS\nok  \tharbour.example/api/internal/httpapi\t1.036s")
	const path = "cmd/harbour-api/main.go"
	s.Edit(path, "func main() {", "// drainFor is how long the server goes on after it was told to stop. The balancer\n// probes every 2 s and takes a machine out after two failures, so that after 5 s\n// no new connection comes.\nconst drainFor = 5 * time.Second\n\nfunc main() {")
	s.Edit(path, "		Timeout:  cfg.RequestTimeout,\n	})", "		Timeout:  cfg.RequestTimeout,\n		Draining: func() bool { return ctx.Err() != nil },\n	})")
	s.Edit(path, "	case <-ctx.Done():\n	}\n	shutdown", "	case <-ctx.Done():\n	}\n	log.Info(\"draining\", \"for\", drainFor.String())\n	select {\n	case err := <-failed:\n		return err\n	case <-time.After(drainFor):\n	}\n	shutdown")
	s.Bash("go vet ./... && go build -o /tmp/harbour-api ./cmd/harbour-api", "Vet and build", "")
	s.Fails("HARBOUR_LISTEN=:18080 /tmp/harbour-api & sleep 1; kill -TERM $!; for i in 1 2 3 4 5 6; do curl -s -o /dev/null -w '%{http_code} ' localhost:18080/healthz; sleep 1; done", "Watch the health check while it stops", 7, "{\"time\":\"2040-05-11T09:01:40.113Z\",\"level\":\"INFO\",\"msg\":\"listening\",\"addr\":\":18080\",\"berths\":0}\n{\"time\":\"2040-05-11T09:01:41.118Z\",\"level\":\"INFO\",\"msg\":\"draining\",\"for\":\"5s\"}\n503 503 503 503 503 {\"time\":\"2040-05-11T09:01:46.120Z\",\"level\":\"INFO\",\"msg\":\"stopped\"}\n000 ")
	s.Say("As wanted: five times 503 while it drains, then it is gone; the exit code 7 is only curl's last attempt.")
	s.Bash("git diff cmd/harbour-api/main.go internal/httpapi/server.go", "Review before the commit", s.Diff(path)+"\n"+s.Diff("internal/httpapi/server.go"))
	s.Bash("make test", "Everything that must pass", s.MakeTest(nil))
	s.Commit(path, "internal/httpapi/server.go", "internal/httpapi/drain_test.go")
	s.Bash("git add -A cmd internal && git commit -q -m 'harbour-api: drain for 5 s before shutdown' && git log --oneline -1", "Commit", "e94b6f7 harbour-api: drain for 5 s before shutdown")
}

const profile = `File: berth.test
Type: cpu
Duration: 3.21s, Total samples = 3.05s (95.02%)
Showing nodes accounting for 2.71s, 88.85% of 3.05s total
Dropped 41 nodes (cum <= 0.02s)
Showing top 14 nodes out of 58
      flat  flat%   sum%        cum   cum%
     0.88s 28.85% 28.85%      0.97s 31.80%  internal/runtime/maps.(*Iter).Next
     0.41s 13.44% 42.30%      1.66s 54.43%  harbour.example/api/internal/store.(*Memory).Bookings
     0.29s  9.51% 51.80%      0.29s  9.51%  memeqbody
     0.22s  7.21% 59.02%      0.63s 20.66%  harbour.example/api/internal/store.(*Memory).Berths
     0.19s  6.23% 65.25%      0.24s  7.87%  runtime.mallocgc
     0.16s  5.25% 70.49%      0.38s 12.46%  sort.insertionSort_func
     0.14s  4.59% 75.08%      0.14s  4.59%  sync.(*RWMutex).RLock
     0.11s  3.61% 78.69%      0.22s  7.21%  harbour.example/api/internal/berth.(*Assigner).candidates.func1
     0.09s  2.95% 81.64%      0.09s  2.95%  sync.(*RWMutex).RUnlock
     0.07s  2.30% 83.93%      2.94s 96.39%  harbour.example/api/internal/berth.(*Assigner).Assign
     0.05s  1.64% 85.57%      0.06s  1.97%  harbour.example/api/internal/berth.(*locks).lock
     0.04s  1.31% 86.89%      0.04s  1.31%  time.Time.Before
     0.03s  0.98% 87.87%      1.78s 58.36%  harbour.example/api/internal/berth.(*Assigner).bookIfFree
     0.03s  0.98% 88.85%      0.04s  1.31%  crypto/rand.Read`

// measure: is the lock per berth expensive? It is not, and nothing is changed.
func (s *story) measure(fresh map[string]string) {
	s.User("Has the locking made booking slower? The harbour in the south has about 400 berths and wants to use this too. Measure, please do not optimise yet. Anything under 5 ms a booking is fine.")
	s.Think("Benchmark with 8, 64, 400 berths, half of them taken. Compare with the commit before the fix (4be1f07) through git stash/worktree.")
	s.Write("internal/berth/bench_test.go", fresh["internal/berth/bench_test.go"])
	s.Bash("go test -run XXX -bench Assign -benchmem -count=5 ./internal/berth", "Benchmark with the locks", "goos: linux\ngoarch: amd64\npkg: harbour.example/api/internal/berth\nBenchmarkAssign/berths=8-4         \t  182340\t      6571 ns/op\t    2104 B/op\t      31 allocs/op\nBenchmarkAssign/berths=8-4         \t  181022\t      6604 ns/op\t    2104 B/op\t      31 allocs/op\nBenchmarkAssign/berths=8-4         \t  183117\t      6549 ns/op\t    2104 B/op\t      31 allocs/op\nBenchmarkAssign/berths=64-4        \t   14210\t     84120 ns/op\t   16984 B/op\t     149 allocs/op\nBenchmarkAssign/berths=64-4        \t   14188\t     84377 ns/op\t   16984 B/op\t     149 allocs/op\nBenchmarkAssign/berths=64-4        \t   14251\t     83906 ns/op\t   16984 B/op\t     149 allocs/op\nBenchmarkAssign/berths=400-4       \t     566\t   2104318 ns/op\t  118240 B/op\t     827 allocs/op\nBenchmarkAssign/berths=400-4       \t     571\t   2098845 ns/op\t  118240 B/op\t     827 allocs/op\nBenchmarkAssign/berths=400-4       \t     569\t   2101002 ns/op\t  118240 B/op\t     827 allocs/op\nPASS\nok  \tharbour.example/api/internal/berth\t16.402s")
	s.Bash("git worktree add -q /tmp/before 4be1f07 && cp internal/berth/bench_test.go /tmp/before/internal/berth/ && cd /tmp/before && go test -run XXX -bench Assign -benchmem -count=3 ./internal/berth; git worktree remove --force /tmp/before", "The same on the commit before the fix", "goos: linux\ngoarch: amd64\npkg: harbour.example/api/internal/berth\nBenchmarkAssign/berths=8-4         \t  190118\t      6302 ns/op\t    2072 B/op\t      30 allocs/op\nBenchmarkAssign/berths=8-4         \t  189920\t      6311 ns/op\t    2072 B/op\t      30 allocs/op\nBenchmarkAssign/berths=64-4        \t   14490\t     82790 ns/op\t   15960 B/op\t     117 allocs/op\nBenchmarkAssign/berths=400-4       \t     578\t   2071554 ns/op\t  111840 B/op\t     627 allocs/op\nPASS\nok  \tharbour.example/api/internal/berth\t9.871s")
	s.Bash("go test -run XXX -bench 'Assign/berths=400' -cpuprofile /tmp/cpu.out ./internal/berth && go tool pprof -top -nodecount=14 /tmp/cpu.out", "Where the time goes with 400 berths", profile)
	s.Lines("internal/store/memory.go", 84, 30)
	s.Think("2.1 ms at 400 berths, dominated by Bookings scanning all bookings per berth: quadratic. Locks: 2 %. Under 5 ms. The user said do not optimise.")
	s.Say("With 400 berths a booking takes 2.1 ms, before the fix it was 2.07 ms: the locks cost about 1.5 %. The time goes into `Memory.Bookings`, which looks at all bookings for every berth. It is under your 5 ms, so I change nothing; I keep the benchmark in the repository.")
	s.User("Keep it. One more number: in the south the hold has to be 25 minutes, their agents are slower. Only note it for later, do not change a default.")
	s.Say("Noted: the southern harbour wants `HARBOUR_HOLD_FOR=25m`; the default stays at 10 minutes.")
	s.Grep("HoldFor|HOLD_FOR", "")
	s.Bash("make test", "Everything that must pass", s.MakeTest(nil))
	s.Commit("internal/berth/bench_test.go")
	s.Bash("git add internal/berth/bench_test.go && git commit -q -m 'berth: benchmark of Assign' && git log --oneline -1", "Commit", "3fd20b8 berth: benchmark of Assign")
}
