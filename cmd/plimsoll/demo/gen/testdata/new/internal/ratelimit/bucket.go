// Package ratelimit keeps one client from taking the harbour away from others.
package ratelimit

import (
	"math"
	"sync"
	"time"
)

// A Limit is a token bucket: Burst requests at once, then Refill a second.
type Limit struct {
	Burst  int
	Refill float64
}

// A Limiter has one bucket per client.
type Limiter struct {
	limit   Limit
	now     func() time.Time
	mu      sync.Mutex
	buckets map[string]*bucket
}

type bucket struct {
	tokens float64
	at     time.Time // when tokens was right
}

// New returns a Limiter whose buckets are full at first.
func New(limit Limit, now func() time.Time) *Limiter {
	return &Limiter{limit: limit, now: now, buckets: map[string]*bucket{}}
}

// Allow takes a token of a client. If there is none it says after how many whole
// seconds there will be one.
func (l *Limiter) Allow(client string) (ok bool, retryAfter int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	b := l.buckets[client]
	if b == nil {
		b = &bucket{tokens: float64(l.limit.Burst), at: now}
		l.buckets[client] = b
	}
	b.tokens = math.Min(float64(l.limit.Burst), b.tokens+now.Sub(b.at).Seconds()*l.limit.Refill)
	b.at = now
	if b.tokens >= 1 {
		b.tokens--
		return true, 0
	}
	return false, int(math.Round((1 - b.tokens) / l.limit.Refill))
}
