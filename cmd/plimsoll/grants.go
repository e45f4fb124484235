package main

import (
	"cmp"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/plimsoll-dev/plimsoll/api"
)

// A grant is a token that was given away. The home has its hash only, so whoever
// reads the file can use none of them.
type grant struct {
	Name      string `json:"name"`
	SHA256    string `json:"sha256"` // lower-case hex
	Scopes    string `json:"scopes"` // as api.ParseScope reads them
	CreatedAt int64  `json:"createdAtMs"`
	ExpiresAt int64  `json:"expiresAtMs,omitempty"` // 0: never
}

// maxGrants bounds the grants of a home.
const maxGrants = 1000

var grantName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

func (g grant) expired(now time.Time) bool { return g.ExpiresAt != 0 && now.UnixMilli() >= g.ExpiresAt }

func (g grant) check() error {
	if !grantName.MatchString(g.Name) {
		return fmt.Errorf("%q is no name; want up to 64 letters, digits, dots, dashes or underlines", g.Name)
	}
	if b, err := hex.DecodeString(g.SHA256); err != nil || len(b) != sha256.Size {
		return fmt.Errorf("token %s has no SHA-256", g.Name)
	}
	_, err := api.ParseScope(g.Scopes)
	return err
}

// readGrants returns the grants of a home, none if it gave nothing away. A file that
// is not understood is an error, and nobody is let in by it.
func (h home) readGrants() ([]grant, error) {
	b, err := os.ReadFile(h.path(grantsFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var gs []grant
	if err == nil {
		err = json.Unmarshal(b, &gs)
	}
	for _, g := range gs {
		err = cmp.Or(err, g.check())
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w; mend it, or remove it, which takes all tokens back that were given away", h.path(grantsFile), err)
	}
	return gs, nil
}

// changeGrants replaces the grants of a home, one process at a time.
func (h home) changeGrants(change func([]grant) ([]grant, error)) error {
	return h.alone(func() error {
		gs, err := h.readGrants()
		if err != nil {
			return err
		}
		if gs, err = change(gs); err != nil {
			return err
		}
		b, err := json.MarshalIndent(gs, "", "  ")
		if err != nil {
			return err
		}
		return h.put(grantsFile, append(b, '\n'), os.Rename)
	})
}

// alone runs f while no other process does so in this home.
func (h home) alone(f func() error) error {
	dir, err := os.Open(h.dir)
	if err != nil {
		return fmt.Errorf("open home: %w", err)
	}
	defer shut(dir) // which gives the lock back
	if err := syscall.Flock(int(dir.Fd()), syscall.LOCK_EX); err != nil {
		return fmt.Errorf("lock home: %w", err)
	}
	return f()
}

// put writes a file of the home at once or not at all: os.Rename puts it in the place of
// another one, os.Link only where there is none.
func (h home) put(name string, content []byte, place func(from, to string) error) error {
	tmp, err := os.CreateTemp(h.dir, name+"-*")
	if err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	defer func() { _ = os.Remove(tmp.Name()) }() // a file that stays is a nuisance, not a fault
	_, err = tmp.Write(content)
	err = errors.Join(err, tmp.Chmod(0o600), tmp.Sync(), tmp.Close())
	if err == nil {
		err = place(tmp.Name(), h.path(name))
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	return nil
}

// grantTo gives a new token away and returns it. It is nowhere else.
func (h home) grantTo(g grant) (token string, err error) {
	token = newToken()
	hash := sha256.Sum256([]byte(token))
	g.SHA256 = hex.EncodeToString(hash[:])
	if err := g.check(); err != nil {
		return "", usagef("%s", err)
	}
	return token, h.changeGrants(func(gs []grant) ([]grant, error) {
		switch {
		case slices.ContainsFunc(gs, func(o grant) bool { return o.Name == g.Name }):
			return nil, fmt.Errorf("there is a token %s already; revoke it first, or take another name", g.Name)
		case len(gs) >= maxGrants:
			return nil, fmt.Errorf("%d tokens were given away, which is the limit; revoke some", maxGrants)
		}
		return append(gs, g), nil
	})
}

// revoke takes a token back. A server that runs closes what it opened within a second.
func (h home) revoke(name string) error {
	return h.changeGrants(func(gs []grant) ([]grant, error) {
		left := slices.DeleteFunc(slices.Clone(gs), func(g grant) bool { return g.Name == name })
		if len(left) == len(gs) {
			return nil, fmt.Errorf("there is no token %q; there are: %s", name, cmp.Or(grantNames(gs), "none"))
		}
		return left, nil
	})
}

func grantNames(gs []grant) string {
	names := make([]string, len(gs))
	for i, g := range gs {
		names[i] = g.Name
	}
	return strings.Join(names, ", ")
}

// watchGrants returns what api.Options.Grants asks. A change of the file counts at
// once; so does the end of a token's time.
func (h home) watchGrants(log *slog.Logger) func([sha256.Size]byte) (api.Scope, bool) {
	all := watchFile(h.path(grantsFile), h.readGrants, log)
	return func(hash [sha256.Size]byte) (api.Scope, bool) {
		is := hex.EncodeToString(hash[:]) // of a hash: how long the comparison takes says nothing about a token
		for _, g := range all() {
			if g.SHA256 == is && !g.expired(time.Now()) {
				s, err := api.ParseScope(g.Scopes)
				return s, err == nil
			}
		}
		return 0, false
	}
}

func newToken() string {
	raw := make([]byte, tokenBytes)
	rand.Read(raw) // never fails
	return hex.EncodeToString(raw)
}
