package main

// explore: the user states the task and its limits; the agent reads.
func (s *story) explore() {
	s.User(`Hi. Ticket HARB-2187: last week two ships were given berth B-07 for the same night, "Grey Osprey" and "Brisa". The port office noticed before anything happened, but it must not happen again. Please find the race and fix it, and after that we add rate limiting (I will tell you the numbers when we get there).

Some rules for this repository:
- Never touch the migrations folder. The schema belongs to the data team.
- Keep the public error codes exactly as they are. The pilots' tablets compare them as strings, above all BERTH_TAKEN, and they are only updated twice a year.
- Run make test before you say that something is done. Not just go test of one package.
- No new dependencies, the standard library is enough.`)
	s.Think("The user wants a race found and fixed first, then rate limiting. Rules: never touch migrations, keep error codes (BERTH_TAKEN above all), make test before done, no dependencies. I read the repository before I guess.")
	s.Say("I'll get to know the code first, then reproduce the double booking in a test before I change anything.")
	s.Together(func() {
		s.Bash("git log --oneline -8", "Recent commits", "4be1f07 httpapi: refuse unknown fields in bodies\n9d20c4a berth: holds for agents who fill in the form\n71aa3e9 store: bookings sorted by begin\n0c5e6d2 docs: say how a berth is chosen\nd3b9a10 config: durations from the environment\n5f0717b migrations: bookings may not overlap (data team)\n2a64c8f httpapi: public error codes\n8e1d5b3 harbour-api: first version")
		s.Bash("git status --short", "Working tree", "")
		s.Glob("**/*.go", "", ".go")
	})
	s.Together(func() {
		s.Read("README.md")
		s.Read("Makefile")
	})
	s.Read("internal/berth/model.go")
	s.Read("internal/berth/assign.go")
	s.Think("free() and book() are two steps. Between the check and the insert another request can check too. holds is a map without any lock, which is a data race of its own: concurrent map writes would crash the process. Let me see what the store promises.")
	s.Read("internal/store/memory.go")
	s.Read("internal/store/postgres.go")
	s.Say("Two findings already: `Assigner` checks and then inserts without anything in between to stop a second request, and `holds` is a plain map used from many goroutines. I look at who calls it and at what production does.")
	s.Grep(`Assigner\.|NewAssigner`, "")
	s.Read("internal/httpapi/bookings.go")
	s.Read("internal/httpapi/errors.go")
	s.Together(func() {
		s.Grep("bookings_no_overlap", "")
		s.Read("migrations/0002_booking_window.sql")
	})
	s.Think("The database has an exclusion constraint, so in production the second insert fails, but Insert wraps the raw error: it becomes INTERNAL 500 and not BERTH_TAKEN. And main.go uses NewMemory... even in production? cfg.DatabaseURL is read but is it used?")
	s.Read("cmd/harbour-api/main.go")
	s.Grep("DatabaseURL|NewPostgres", "")
	s.Read("internal/berth/assign_test.go")
	s.Say("Where we are:\n\n1. `Assign` and `AssignTo` check with `free` and then `book`: two requests can both see the berth as free. With the store in memory (staging, and what `main.go` starts today) both bookings are kept.\n2. `holds` is written without a lock.\n3. In PostgreSQL the constraint `bookings_no_overlap` stops the second insert, but `Postgres.Insert` returns the raw error, so the client sees `INTERNAL` where it must see `BERTH_TAKEN`.\n\nNo test is concurrent. I make a plan and begin with one that is.")
	s.Plan("> Reproduce the double booking in a test with many agents", "- Make check and insert one step in Assigner", "- Protect the holds", "- Postgres: map bookings_no_overlap to ErrBerthTaken", "- Rate limiting (numbers come from the user)", "- make test")
}

const raceReport = `==================
WARNING: DATA RACE
Write at 0x00c000124a20 by goroutine 19:
  runtime.mapdelete_faststr()
      /usr/local/go/src/internal/runtime/maps/runtime_faststr_swiss.go:388 +0x0
  harbour.example/api/internal/berth.(*Assigner).book()
      /code/harbour-api/internal/berth/assign.go:172 +0x4c5
  harbour.example/api/internal/berth.(*Assigner).AssignTo()
      /code/harbour-api/internal/berth/assign.go:115 +0x58f
  harbour.example/api/internal/berth_test.TestOneWindowGoesToOneShip.func1()
      /code/harbour-api/internal/berth/race_test.go:27 +0x1b4

Previous read at 0x00c000124a20 by goroutine 23:
  runtime.mapaccess2_faststr()
      /usr/local/go/src/internal/runtime/maps/runtime_faststr_swiss.go:162 +0x0
  harbour.example/api/internal/berth.(*Assigner).free()
      /code/harbour-api/internal/berth/assign.go:151 +0x8e
  harbour.example/api/internal/berth.(*Assigner).AssignTo()
      /code/harbour-api/internal/berth/assign.go:108 +0x3fa
  harbour.example/api/internal/berth_test.TestOneWindowGoesToOneShip.func1()
      /code/harbour-api/internal/berth/race_test.go:27 +0x1b4

Goroutine 19 (running) created at:
  harbour.example/api/internal/berth_test.TestOneWindowGoesToOneShip()
      /code/harbour-api/internal/berth/race_test.go:24 +0x1ee
==================`

// reproduce: a concurrent test that fails, and the evidence of the incident.
func (s *story) reproduce(fresh map[string]string) {
	s.Write("internal/berth/race_test.go", fresh["internal/berth/race_test.go"])
	s.Fails("go test -race -count=1 -run 'TestOneWindow|TestAssignSpreads' ./internal/berth", "Run the new tests with the race detector", 1,
		"=== RUN   TestOneWindowGoesToOneShip\n"+raceReport+"\n    race_test.go:43: 7 agents got B-07, want 1\n    race_test.go:46: 7 bookings of B-07 overlap\n    testing.go:1617: race detected during execution of test\n--- FAIL: TestOneWindowGoesToOneShip (0.021s)\n=== RUN   TestAssignSpreadsOverTheBerths\n    race_test.go:64: 9 bookings of B-01, want 1\n    race_test.go:64: 4 bookings of B-02, want 1\n    race_test.go:64: 0 bookings of B-07, want 1\n    race_test.go:64: 0 bookings of B-11, want 1\n--- FAIL: TestAssignSpreadsOverTheBerths (0.009s)\nFAIL\nFAIL\tharbour.example/api/internal/berth\t1.052s")
	s.Say("Reproduced: 7 of 32 agents got B-07, and the race detector points at `holds`. Before I fix it I want to see the incident itself. Do you have the log of that night?")
	s.User("Yes, I copied the part from the staging machine to /tmp/incident.log, it is the same build. The two booking ids are bk_5d01aa93c7e2f410 and bk_e7730c1b9a4f2266.")
	s.Bash("wc -l /tmp/incident.log && sed -n 1,30p /tmp/incident.log", "First part of the incident log", "2140 /tmp/incident.log\n"+Journal(3, 30))
	s.Bash("grep -n 'bk_5d01aa93c7e2f410\\|bk_e7730c1b9a4f2266' /tmp/incident.log", "The two bookings of the incident", `1187:{"time":"2040-05-04T17:42:09.118Z","level":"INFO","msg":"booked","id":"bk_5d01aa93c7e2f410","berth":"B-07","imo":"9100002","agent":"agent-1"}
1188:{"time":"2040-05-04T17:42:09.121Z","level":"INFO","msg":"booked","id":"bk_e7730c1b9a4f2266","berth":"B-07","imo":"9100001","agent":"pilots"}`)
	s.Bash("sed -n 1180,1200p /tmp/incident.log", "Around the double booking", Journal(4, 20))
	s.Think("Three milliseconds apart, from two different agents. That is exactly check-then-insert. No hold was involved.")
	s.Say("The two bookings are 3 ms apart (17:42:09.118 and .121), from `agent-1` and `pilots`, without a hold. That is the race of the test.")
	s.Plan("x Reproduce the double booking in a test with many agents", "> Make check and insert one step in Assigner", "- Protect the holds", "- Postgres: map bookings_no_overlap to ErrBerthTaken", "- Rate limiting (numbers come from the user)", "- make test")
}

// fix: first one lock for everything, which the user rejects, then one a berth.
func (s *story) fix(fresh map[string]string) {
	const path = "internal/berth/assign.go"
	s.Lines(path, 24, 30)
	s.Edit(path, "	holds   map[string]hold // berth name to the hold on it\n}", "	mu      sync.Mutex      // from the check of a berth to its booking\n	holds   map[string]hold // berth name to the hold on it\n}")
	s.Edit(path, "	\"sort\"\n	\"time\"", "	\"sort\"\n	\"sync\"\n	\"time\"")
	s.Edit(path, "	for _, b := range candidates {\n		free, err := a.free(ctx, b.Name, agent, w)", "	a.mu.Lock()\n	defer a.mu.Unlock()\n	for _, b := range candidates {\n		free, err := a.free(ctx, b.Name, agent, w)")
	s.Bash("go build ./... && go test -race -count=1 -run TestAssignSpreads ./internal/berth", "Build and run one of the tests", "ok  \tharbour.example/api/internal/berth\t1.044s")
	s.User("Wait, please not one lock for everything. A query on production can take a second when the replica lags, and then nobody could book anything. Bookings of different berths have to go on in parallel. One lock per berth.")
	s.Think("Right: per-berth lock. Assign iterates over candidates: lock each berth while checking and booking it, release before the next one. No two locks held at once, so no deadlock. holds needs its own small mutex, not held during store calls.")
	s.Say("Understood: one lock per berth, held from the check to the insert, never two at a time. The holds get a small lock of their own that is never held during a query. I take the global lock out again.")
	s.Edit(path, "	a.mu.Lock()\n	defer a.mu.Unlock()\n	for _, b := range candidates {\n		free, err := a.free(ctx, b.Name, agent, w)", "	for _, b := range candidates {\n		free, err := a.free(ctx, b.Name, agent, w)")
	s.Write("internal/berth/locks.go", fresh["internal/berth/locks.go"])
	s.Edit(path, "	mu      sync.Mutex      // from the check of a berth to its booking\n	holds   map[string]hold // berth name to the hold on it\n}", "	berths  *locks // of a berth, from its check to its booking; never two at once\n	mu      sync.Mutex\n	holds   map[string]hold // berth name to the hold on it; guarded by mu\n}")
	s.Edit(path, "now: time.Now, holds: map[string]hold{}}", "now: time.Now, berths: newLocks(), holds: map[string]hold{}}")
	s.Lines(path, 75, 75)
	s.Edit(path, "	for _, b := range candidates {\n		free, err := a.free(ctx, b.Name, agent, w)\n		if err != nil {\n			return Booking{}, err\n		}\n		if !free {\n			continue\n		}\n		return a.book(ctx, b.Name, imo, agent, w)\n	}", "	for _, b := range candidates {\n		booking, err := a.bookIfFree(ctx, b.Name, imo, agent, w)\n		if errors.Is(err, ErrBerthTaken) {\n			continue\n		}\n		return booking, err\n	}")
	s.Edit(path, "		free, err := a.free(ctx, name, agent, w)\n		if err != nil {\n			return Booking{}, err\n		}\n		if !free {\n			return Booking{}, fmt.Errorf(\"assign %s to %s: %w\", imo, name, ErrBerthTaken)\n		}\n		return a.book(ctx, name, imo, agent, w)\n	}", "		return a.bookIfFree(ctx, name, imo, agent, w)\n	}")
	s.Edit(path, "// free reports whether nobody else has the berth in the window.", "// bookIfFree books a berth unless somebody else has it in the window. Check and\n// booking are one step: the lock of the berth is held for both.\nfunc (a *Assigner) bookIfFree(ctx context.Context, name, imo, agent string, w Window) (Booking, error) {\n	defer a.berths.lock(name)()\n	free, err := a.free(ctx, name, agent, w)\n	if err != nil {\n		return Booking{}, err\n	}\n	if !free {\n		return Booking{}, fmt.Errorf(\"assign %s to %s: %w\", imo, name, ErrBerthTaken)\n	}\n	return a.book(ctx, name, imo, agent, w)\n}\n\n// free reports whether nobody else has the berth in the window.")
	s.Fails("go build ./...", "Build", 1, "# harbour.example/api/internal/berth\ninternal/berth/assign.go:87:6: undefined: errors")
	s.Edit(path, "	\"encoding/hex\"\n	\"fmt\"", "	\"encoding/hex\"\n	\"errors\"\n	\"fmt\"")
	s.holds(path)
	s.Write("internal/berth/parallel_test.go", fresh["internal/berth/parallel_test.go"])
	s.Bash("go test -race -count=1 -v ./internal/berth", "All tests of the package", s.GoTest("internal/berth", nil))
	s.Bash("make race", "Fifty times with the race detector", "go test -race -count=50 ./internal/berth ./internal/store\nok  \tharbour.example/api/internal/berth\t14.208s\n?   \tharbour.example/api/internal/store\t[no test files]")
	s.Bash("make test", "Everything that must pass", s.MakeTest(nil))
	s.Bash("git diff internal/berth/assign.go", "What has changed", s.Diff(path))
	s.Commit(path, "internal/berth/locks.go", "internal/berth/race_test.go", "internal/berth/parallel_test.go")
	s.Bash("git add internal/berth && git commit -q -m 'berth: check and book in one step (HARB-2187)' && git log --oneline -1", "Commit the fix", "c81f2d6 berth: check and book in one step (HARB-2187)")
	s.Say("The race is fixed and committed as c81f2d6. `make test` passes; the two race tests passed 50 times. `TestBerthsDoNotWaitForEachOther` proves that a slow query for B-11 does not hold up B-07.")
}

// holds: the map gets its own lock; the first attempt deadlocks.
func (s *story) holds(path string) {
	s.Edit(path, "	now := a.now()\n	if h, ok := a.holds[name]; ok && h.agent != agent && now.Before(h.until) {\n		return time.Time{}", "	a.mu.Lock()\n	defer a.mu.Unlock()\n	now := a.now()\n	if a.heldByOther(name, agent) {\n		return time.Time{}")
	s.Edit(path, "func (a *Assigner) Release(name, agent string) {\n", "func (a *Assigner) Release(name, agent string) {\n	a.mu.Lock()\n	defer a.mu.Unlock()\n")
	s.Edit(path, "	if h, ok := a.holds[name]; ok && h.agent != agent && a.now().Before(h.until) {\n		return false, nil\n	}\n", "	if a.heldByOther(name, agent) {\n		return false, nil\n	}\n")
	s.Edit(path, "func newID() string {", "// heldByOther reports whether another agent holds the berth right now.\nfunc (a *Assigner) heldByOther(name, agent string) bool {\n	a.mu.Lock()\n	defer a.mu.Unlock()\n	h, ok := a.holds[name]\n	return ok && h.agent != agent && a.now().Before(h.until)\n}\n\nfunc newID() string {")
	s.Edit(path, "	delete(a.holds, name)\n	return b, nil", "	a.mu.Lock()\n	delete(a.holds, name)\n	a.mu.Unlock()\n	return b, nil")
	s.Fails("timeout 20 go test -race -count=1 -run TestAHold ./internal/berth", "The test of the holds", 124, "=== RUN   TestAHoldKeepsOthersOut\nsignal: terminated")
	s.Think("Deadlock: Hold takes a.mu and calls heldByOther, which takes it again. Split: heldByOther expects the lock; free takes it.")
	s.Say("My own deadlock: `Hold` has the lock when it calls `heldByOther`, which takes it again. I make the helper expect the lock and name it so.")
	s.Edit(path, "// heldByOther reports whether another agent holds the berth right now.\nfunc (a *Assigner) heldByOther(name, agent string) bool {\n	a.mu.Lock()\n	defer a.mu.Unlock()\n	h, ok", "// heldByOtherLocked reports whether another agent holds the berth right now. The\n// caller has mu.\nfunc (a *Assigner) heldByOtherLocked(name, agent string) bool {\n	h, ok")
	s.Edit(path, "	now := a.now()\n	if a.heldByOther(name, agent) {\n		return time.Time{}", "	now := a.now()\n	if a.heldByOtherLocked(name, agent) {\n		return time.Time{}")
	s.Edit(path, "	if a.heldByOther(name, agent) {\n		return false, nil\n	}\n", "	a.mu.Lock()\n	held := a.heldByOtherLocked(name, agent)\n	a.mu.Unlock()\n	if held {\n		return false, nil\n	}\n")
	s.Bash("timeout 20 go test -race -count=1 -run TestAHold ./internal/berth", "The test of the holds", "ok  \tharbour.example/api/internal/berth\t1.021s")
	s.Read(path)
}

// postgres: the constraint's error becomes BERTH_TAKEN.
func (s *story) postgres() {
	const path = "internal/store/postgres.go"
	s.Plan("x Reproduce the double booking in a test with many agents", "x Make check and insert one step in Assigner", "x Protect the holds", "> Postgres: map bookings_no_overlap to ErrBerthTaken", "- Rate limiting (numbers come from the user)", "- make test")
	s.User("Great. Now the Postgres side. Two machines share one database, so the lock in the process is not enough there, right?")
	s.Think("Right. The exclusion constraint is the safety net across machines. Needs the mapping to ErrBerthTaken. No migration needed; must not touch the folder.")
	s.Say("Right. Across machines only the database can decide, and it does: `bookings_no_overlap` refuses the second insert. What is missing is that we tell the client so. That needs no change of the schema, only of `Insert`.")
	s.Lines(path, 74, 24)
	s.Edit(path, "		return fmt.Errorf(\"insert: %w\", err)\n	}\n	return err", "		return fmt.Errorf(\"insert into %s: %w\", b.Berth, errors.Join(berth.ErrBerthTaken, err))\n	}\n	return err")
	s.Think("strings.Contains on the error text: the constraint name is stable, owned by the data team. A typed check would need the driver as a dependency; no new dependencies allowed. Keep it, but say why in a comment.")
	s.Edit(path, "	if err != nil && strings.Contains(err.Error(), \"bookings_no_overlap\") {", "	// The name of the constraint is part of the schema; the type of the error is\n	// the driver's, which this package does not import.\n	if err != nil && strings.Contains(err.Error(), \"bookings_no_overlap\") {")
	s.Bash("go vet ./internal/store && go build ./...", "Vet and build", "")
	s.Grep("ErrBerthTaken", "internal")
	s.Say("`Insert` now joins `ErrBerthTaken` with the database error: the client gets `BERTH_TAKEN` with 409, the log keeps the original. `Assign` goes on to the next berth then, because it already treats `ErrBerthTaken` that way.")
	s.User("Should we not add a partial index in migrations too, so that the constraint check is faster?")
	s.Say("That would be a change in `migrations`, which you asked me never to touch. I can write down the suggestion for the data team instead: `CREATE INDEX ... ON bookings (berth) WHERE cancelled_at IS NULL`. The GiST index of the constraint is partial already, though, so I would measure first.")
	s.User("You are right, leave it. Just checking. Commit the store change.")
	s.Bash("make test", "Everything that must pass", s.MakeTest(nil))
	s.Commit(path)
	s.Bash("git commit -q -am 'store: an overlapping insert is a taken berth (HARB-2187)' && git log --oneline -1", "Commit", "f40b9e1 store: an overlapping insert is a taken berth (HARB-2187)")
	s.Bash("git diff --stat HEAD~2 -- migrations", "Prove that migrations are as they were", "")
}
