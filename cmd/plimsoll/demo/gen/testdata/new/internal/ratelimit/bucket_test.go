package ratelimit_test

import (
	"sync"
	"testing"
	"time"

	"harbour.example/api/internal/ratelimit"
)

type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) Add(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

func setup(limit ratelimit.Limit) (*ratelimit.Limiter, *clock) {
	c := &clock{now: time.Date(2040, 5, 11, 12, 0, 0, 0, time.UTC)}
	return ratelimit.New(limit, c.Now), c
}

func allowed(l *ratelimit.Limiter, client string, n int) int {
	ok := 0
	for range n {
		if yes, _ := l.Allow(client); yes {
			ok++
		}
	}
	return ok
}

func TestABurstIsAllowedAndThenRefused(t *testing.T) {
	l, _ := setup(ratelimit.Limit{Burst: 40, Refill: 8})
	if got := allowed(l, "tablet", 100); got != 40 {
		t.Errorf("%d of 100 allowed, want 40", got)
	}
}

func TestTokensComeBackAtTheRefillRate(t *testing.T) {
	l, c := setup(ratelimit.Limit{Burst: 40, Refill: 8})
	allowed(l, "tablet", 40)
	c.Add(1500 * time.Millisecond)
	if got := allowed(l, "tablet", 100); got != 12 {
		t.Errorf("%d allowed after 1.5 s, want 12", got)
	}
}

func TestABucketNeverHoldsMoreThanTheBurst(t *testing.T) {
	l, c := setup(ratelimit.Limit{Burst: 40, Refill: 8})
	allowed(l, "tablet", 1)
	c.Add(time.Hour)
	if got := allowed(l, "tablet", 100); got != 40 {
		t.Errorf("%d allowed after an hour, want 40", got)
	}
}

func TestClientsDoNotShareABucket(t *testing.T) {
	l, _ := setup(ratelimit.Limit{Burst: 2, Refill: 1})
	allowed(l, "tablet", 10)
	if got := allowed(l, "office", 10); got != 2 {
		t.Errorf("%d of the office allowed, want 2", got)
	}
}

func TestRetryAfterIsNeverZero(t *testing.T) {
	l, _ := setup(ratelimit.Limit{Burst: 1, Refill: 8})
	allowed(l, "tablet", 1)
	if ok, after := l.Allow("tablet"); ok || after != 1 {
		t.Errorf("allowed %v, retry after %d s, want 1", ok, after)
	}
}
