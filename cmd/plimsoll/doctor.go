package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"syscall"

	"github.com/plimsoll-dev/plimsoll/api"
	"github.com/plimsoll-dev/plimsoll/api/jsonrpc"
)

type doctorCmd struct {
	homeFlag
	JSON bool `name:"json" help:"Print one JSON object a line."`
}

// A finding is the result of one check. Fix says what to do if it is not ok.
type finding struct {
	Check  string `json:"check"`
	Status string `json:"status"` // ok | warning | failed | skipped
	Detail string `json:"detail"`
	Fix    string `json:"fix,omitempty"`
}

const (
	findingOK      = "ok"
	findingWarning = "warning"
	findingFailed  = "failed"
	findingSkipped = "skipped"
)

func okay(check, detail string) finding { return finding{check, findingOK, detail, ""} }

func warning(check, detail, fix string) finding { return finding{check, findingWarning, detail, fix} }

func failed(check, detail, fix string) finding { return finding{check, findingFailed, detail, fix} }

// Run checks the home and fails if a check does. It changes nothing.
func (c *doctorCmd) Run(ctx context.Context, m *Main) error {
	h, err := c.resolve(m)
	if err != nil {
		return err
	}
	bad := 0
	for _, f := range examine(ctx, m, h) {
		if f.Status == findingFailed {
			bad++
		}
		if c.JSON {
			if err := printJSON(m.Stdout, f); err != nil {
				return err
			}
			continue
		}
		printFinding(m, f)
	}
	if bad > 0 {
		return fmt.Errorf("doctor: %s failed", plural(bad, "check"))
	}
	return nil
}

func printFinding(m *Main, f finding) {
	mark := map[string]string{
		findingOK: m.style.good("ok     "), findingWarning: m.style.notice("warning"),
		findingFailed: m.style.bad("FAILED "), findingSkipped: m.style.dim("skipped"),
	}[f.Status]
	say(m.Stdout, "%s  %-9s %s\n", mark, f.Check, f.Detail)
	if f.Fix != "" {
		say(m.Stdout, "%-20sfix: %s\n", "", f.Fix)
	}
}

// examine makes all checks. Those that would open the home are left out if serve
// could not open it either.
func examine(ctx context.Context, m *Main, h home) []finding {
	out := []finding{checkHome(h)}
	if _, err := os.Stat(h.dir); err != nil {
		return append(out, checkPort(config{}, false))
	}
	cfg, err := readConfig(h.path(configFile))
	if err != nil {
		out = append(out, failed("config", err.Error(), "correct that line, or remove the file"))
	} else {
		out = append(out, okay("config", configDetail(h, cfg)))
	}
	out = append(out, checkToken(h), checkDisk(h))
	served := false
	if out[0].Status == findingFailed || err != nil {
		for _, check := range []string{"journal", "threads", "providers"} {
			out = append(out, finding{check, findingSkipped, "mend the failed checks first", ""})
		}
	} else {
		var opened []finding
		programs := m.checkRuntimes(ctx, cfg)
		opened, served = checkOpen(ctx, m, h, cfg, brokenRuntimes(programs))
		out = append(append(append(out, opened...), checkKeys(m, cfg)...), checkHooks(cfg)...)
		for _, f := range programs {
			out = append(out, f.finding)
		}
	}
	return append(out, checkPort(cfg, served))
}

func checkHome(h home) finding {
	info, err := os.Stat(h.dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return failed("home", h.dir+" does not exist", "start the server once: plimsoll serve --home "+shellWord(h.dir))
	case err != nil:
		return failed("home", err.Error(), "make it accessible to this user, or choose another with --home")
	case !info.IsDir():
		return failed("home", h.dir+" is not a folder", "choose another with --home")
	}
	if err := ownedByUs(info, h.dir); err != nil {
		return failed("home", err.Error(), "run as that user, or choose another with --home")
	}
	entries, err := os.ReadDir(h.dir)
	if err != nil {
		return failed("home", err.Error(), "make it readable")
	}
	if mode := info.Mode().Perm(); mode != 0o700 {
		detail, fix := fmt.Sprintf("%s has mode %04o, want 0700", h.dir, mode), "chmod 700 "+shellWord(h.dir)
		switch mine, err := h.looksLikeHome(); {
		case err != nil:
			return failed("home", err.Error(), "make it readable")
		case !mine:
			return failed("home", detail+", and holds other files, so that serve refuses it", fix)
		case len(entries) == 0: // nothing was there to be seen
			return warning("home", detail, "the first start does it, or: "+fix)
		}
		return warning("home", detail, mends+fix)
	}
	var open, paths []string
	for _, e := range entries {
		if info, err := e.Info(); err == nil && isHomeFile(e.Name()) && info.Mode().Perm()&0o077 != 0 {
			open, paths = append(open, e.Name()), append(paths, shellWord(h.path(e.Name())))
		}
	}
	if len(open) > 0 {
		return warning("home", h.dir+" keeps others out; in it, not of mode 0600: "+strings.Join(open, ", "), mends+"chmod 600 "+strings.Join(paths, " "))
	}
	return okay("home", h.dir+", private")
}

// mends begins the fix of what home.create mends.
const mends = "the next start makes it private, or: "

func configDetail(h home, cfg config) string {
	if !fileExists(h.path(configFile)) {
		return "no " + configFile + ", all defaults"
	}
	text := fmt.Sprintf("%s, %s", h.path(configFile), plural(len(cfg.order), "provider"))
	if cfg.Compaction.Route != "" {
		text += ", compactions " + cfg.Compaction.Route
	}
	if auto := cfg.Compaction.Auto; auto != nil && !*auto {
		text += ", none by themselves"
	}
	return text
}

func checkToken(h home) finding {
	switch _, err := h.readToken(); {
	case errors.Is(err, fs.ErrNotExist):
		return warning("token", "there is none yet", "it is made by the first start, or by: plimsoll token --home "+shellWord(h.dir))
	case err != nil:
		return failed("token", err.Error(), "rm "+shellWord(h.path(tokenFile))+" and run: plimsoll token --home "+shellWord(h.dir))
	}
	return okay("token", h.path(tokenFile))
}

// Free space under which the check fails, and under which it warns.
const (
	diskFailed  = 64 << 20
	diskWarning = 1 << 30
)

func checkDisk(h home) finding {
	var st syscall.Statfs_t
	if err := syscall.Statfs(h.dir, &st); err != nil {
		return warning("disk", err.Error(), "")
	}
	free := st.Bavail * uint64(st.Bsize)
	detail := fmt.Sprintf("%s MiB free", thousands(int(free>>20)))
	const fix = "free some space, or move the home and name it with --home"
	switch {
	case free < diskFailed:
		return failed("disk", detail, fix)
	case free < diskWarning:
		return warning("disk", detail, fix)
	}
	return okay("disk", detail)
}

// checkOpen looks into the home through its owner, or by opening it. Broken are the
// providers whose failure is told elsewhere.
func checkOpen(ctx context.Context, m *Main, h home, cfg config, broken map[string]bool) (out []finding, served bool) {
	if !fileExists(h.path(dbFile)) {
		none := warning("journal", "there is none yet", "it is made by the first start")
		return append([]finding{none}, m.checkProvidersOf(ctx, h, cfg, broken)...), false
	}
	cl, err := m.connectBy(ctx, h, m.openAsIs)
	if err != nil {
		return []finding{failed("journal", err.Error(), "see above; a copy of "+shellWord(h.path(dbFile))+" is worth having before anything is tried")}, false
	}
	defer func() {
		if err := cl.close(); err != nil {
			out = append(out, failed("journal", err.Error(), "see the server's log"))
		}
	}()
	how := "opens, nobody serves it"
	if !cl.local {
		how = "served by the running server"
	}
	out = append(out, okay("journal", h.path(dbFile)+", "+how), checkThreads(ctx, cl))
	out = append(out, m.checkProviders(ctx, cl, cfg, broken)...)
	if !cl.local {
		out = append(out, checkProtocol(ctx, h))
	}
	return out, !cl.local
}

// checkProtocol asks whether an app-server could join the home's owner.
func checkProtocol(ctx context.Context, h home) finding {
	owner, err := dialOwner(ctx, h)
	if err == nil {
		err = owner.Close(jsonrpc.StatusNormal, "")
	}
	if err != nil {
		return failed("protocol", err.Error(), "stop the running server, which may be an older one, and start this one")
	}
	return okay("protocol", "app-servers can join the running server")
}

func checkThreads(ctx context.Context, cl *client) finding {
	n := 0
	var damaged []string
	err := cl.eachThread(ctx, func(page api.ThreadListResult) error {
		for _, t := range page.Data {
			n++
			if t.Plimsoll.Damaged != nil {
				damaged = append(damaged, t.ID+" ("+*t.Plimsoll.Damaged+")")
			}
		}
		return nil
	})
	switch {
	case err != nil:
		return failed("threads", err.Error(), "see the server's log")
	case len(damaged) > 0:
		return failed("threads", fmt.Sprintf("%d of %d cannot be read: %s", len(damaged), n, strings.Join(damaged, ", ")),
			"the others work; restore a copy of the journal to get them back")
	}
	return okay("threads", plural(n, "thread"))
}

// checkPort asks whether serve could listen, or already does.
func checkPort(cfg config, served bool) finding {
	addr := cfg.Server.Listen
	if addr == "" {
		addr = defaultListen
	}
	if err := checkListen(addr, cfg.Server.Hosts); err != nil {
		return failed("port", err.Error(), "one of the two ways above")
	}
	l, err := listenTCP(addr)
	if err == nil {
		shut(l)
		return okay("port", addr+" is free")
	}
	if served {
		return okay("port", addr+" is in use while the server runs")
	}
	// It is a matter of the moment, not of this home.
	return warning("port", err.Error(), "plimsoll serve --listen 127.0.0.1:0 takes a free one")
}
