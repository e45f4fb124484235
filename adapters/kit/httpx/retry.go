package httpx

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// The waits between attempts without a Retry-After double from the first to the
// longest.
const (
	firstBackoff   = 500 * time.Millisecond
	longestBackoff = 30 * time.Second
)

// backoff is the wait after an attempt: between half and all of the doubled step,
// so that clients that failed together do not come back together.
func (c *Client) backoff(attempt int) time.Duration {
	step := longestBackoff
	if attempt < 10 {
		step = min(step, firstBackoff<<(attempt-1))
	}
	return step/2 + time.Duration(c.o.Rand()*float64(step/2))
}

// repeatable reports whether another attempt may succeed.
func (c *Client) repeatable(req Request, res *Response, err error) bool {
	if err != nil {
		return errors.Is(err, ErrUnreachable) && !errors.Is(err, errFirstByte) && !errors.Is(err, permanent{})
	}
	again := res.Status == http.StatusTooManyRequests || res.Status >= 500 && res.Status != http.StatusNotImplemented
	return again && res.RetryAfter <= c.o.MaxWait && (req.Repeat == nil || req.Repeat(res.Status, res.Body))
}

// wait waits and reports whether the time has passed; else ctx ended.
func (c *Client) wait(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// RetryAfter is how long an answer asks to wait: retry-after-ms (OpenAI, Azure),
// or Retry-After in seconds or as a date.
func RetryAfter(h http.Header, now time.Time) time.Duration {
	const longest = 365 * 24 * time.Hour
	in := func(n float64, unit time.Duration) time.Duration {
		if !(n > 0) { // NaN as well
			return 0
		}
		return time.Duration(min(n*float64(unit), float64(longest)))
	}
	if ms, err := strconv.ParseFloat(h.Get("Retry-After-Ms"), 64); err == nil {
		return in(ms, time.Millisecond)
	}
	v := strings.TrimSpace(h.Get("Retry-After"))
	if s, err := strconv.ParseFloat(v, 64); err == nil {
		return in(s, time.Second)
	}
	if at, err := http.ParseTime(v); err == nil {
		return in(float64(at.Sub(now)), 1)
	}
	return 0
}

// keyHeaders hold keys.
var keyHeaders = []string{"Authorization", "Proxy-Authorization", "X-Api-Key", "Api-Key", "X-Goog-Api-Key", "Cookie"}

// keyParameters do so in a URL.
var keyParameters = []string{"key", "api_key", "api-key", "apikey", "token", "access_token", "sig"}

// Redact returns a text without the secrets: those of the Options, the keys in the
// headers of the request, and the credentials in its URL. Texts that come in a
// stream pass through it before they are shown.
func (c *Client) Redact(req Request, text string) string {
	secrets := slices.Clone(c.o.Secrets())
	for _, h := range keyHeaders {
		for k, values := range req.Header {
			if !strings.EqualFold(k, h) {
				continue
			}
			for _, v := range values {
				_, token, _ := strings.Cut(v, " ") // the scheme is no secret
				secrets = append(secrets, token, v)
			}
		}
	}
	if u, err := url.Parse(req.URL); err == nil {
		password, _ := u.User.Password()
		secrets = append(secrets, password)
		for name, values := range u.Query() {
			if slices.Contains(keyParameters, strings.ToLower(name)) {
				secrets = append(secrets, values...)
			}
		}
	}
	// A secret that holds another one goes first.
	slices.SortFunc(secrets, func(a, b string) int { return len(b) - len(a) })
	for _, s := range secrets {
		if len(s) < minSecret {
			continue
		}
		for _, form := range []string{s, url.QueryEscape(s), url.PathEscape(s)} {
			text = strings.ReplaceAll(text, form, redactedValue)
		}
	}
	return text
}

func statusText(status int) string {
	return strings.TrimSpace(strconv.Itoa(status) + " " + http.StatusText(status))
}
