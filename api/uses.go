package api

import (
	"crypto/sha256"
	"net/http"
	"sync"

	"golang.org/x/time/rate"

	"github.com/plimsoll-dev/plimsoll/threads/fault"
)

// uses bound what each token is used for at once, so that one client that runs wild
// leaves room for the others. Who needs no token is not bounded here.
type uses struct {
	perSecond int // requests; a burst may have twice as many
	peers     int // WebSockets that are open

	mu  sync.Mutex // guards what follows
	all map[[sha256.Size]byte]*use
}

// A use is that of one token.
type use struct {
	requests *rate.Limiter
	peers    int
}

// maxUses is how many tokens are remembered: more than can count at once, so only
// tokens that were replaced are forgotten.
const maxUses = 4096

// of returns the use of a token. The caller holds mu.
func (u *uses) of(hash [sha256.Size]byte) *use {
	one := u.all[hash]
	if one == nil {
		if len(u.all) >= maxUses {
			for old, o := range u.all {
				if o.peers == 0 {
					delete(u.all, old)
				}
			}
		}
		if u.all == nil {
			u.all = map[[sha256.Size]byte]*use{}
		}
		one = &use{requests: rate.NewLimiter(rate.Limit(u.perSecond), 2*u.perSecond)}
		u.all[hash] = one
	}
	return one
}

// request counts a request.
func (u *uses) request(p pass) error {
	u.mu.Lock()
	one := u.of(p.hash)
	u.mu.Unlock()
	if one.requests.Allow() {
		return nil
	}
	return refuse(http.StatusTooManyRequests, fault.Overloaded,
		"this token asks more than %d times a second: ask less often, or over a WebSocket", u.perSecond).with("Retry-After", "1")
}

// enter counts a WebSocket in; leave counts it out.
func (u *uses) enter(p pass) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	one := u.of(p.hash)
	if one.peers >= u.peers {
		return refuse(http.StatusTooManyRequests, fault.Overloaded,
			"%d WebSockets are open with this token, which is the limit for one: close one, or try later", u.peers).with("Retry-After", "5")
	}
	one.peers++
	return nil
}

func (u *uses) leave(p pass) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.of(p.hash).peers--
}
