package main

import (
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"syscall"
	"testing"
)

// Ten thousand subscribers of an idle thread get an event, and each costs the
// server no more than 20 KB while it idles. The clients are a process of their
// own. The command is built without the race detector, whose shadow memory would
// be what is measured.
func TestS12TenThousandIdleSubscribersGetAnEvent(t *testing.T) {
	const subscribers, mostKB = 10_000, 20.0
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil || limit.Max < subscribers+100 {
		t.Skipf("SKIPPED: at most %d files may be open here (%v); this needs %d", limit.Max, err, subscribers+100)
	}
	bin := filepath.Join(t.TempDir(), "sse")
	if out, err := exec.Command("go", "build", "-race=false", "-o", bin, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	out, err := exec.Command(bin, "-n", strconv.Itoa(subscribers)).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Logf("%s", out)
	m := regexp.MustCompile(`10000 idle subscribers: ([0-9.]+) KB`).FindSubmatch(out)
	if m == nil {
		t.Fatalf("no figure in %s", out)
	}
	if kb, err := strconv.ParseFloat(string(m[1]), 64); err != nil || kb > mostKB {
		t.Errorf("a subscriber costs %s KB (%v), want at most %v", m[1], err, mostKB)
	}
}
