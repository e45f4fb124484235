package config_test

import (
	"strings"
	"testing"

	"harbour.example/api/internal/config"
)

func env(pairs ...string) func(string) string {
	m := map[string]string{}
	for _, p := range pairs {
		k, v, _ := strings.Cut(p, "=")
		m[k] = v
	}
	return func(k string) string { return m[k] }
}

func TestDefaultsAreThoseOfTheTicket(t *testing.T) {
	cfg, err := config.FromEnv(env())
	if err != nil {
		t.Fatal(err)
	}
	if cfg.RateBurst != 40 || cfg.RateRefill != 8 || cfg.Listen != ":8080" {
		t.Errorf("burst %d, refill %v, listen %s", cfg.RateBurst, cfg.RateRefill, cfg.Listen)
	}
}

func TestTheRateCanBeSet(t *testing.T) {
	cfg, err := config.FromEnv(env("HARBOUR_RATE_BURST=10", "HARBOUR_RATE_REFILL=0.5"))
	if err != nil || cfg.RateBurst != 10 || cfg.RateRefill != 0.5 {
		t.Errorf("burst %d, refill %v, %v", cfg.RateBurst, cfg.RateRefill, err)
	}
}

func TestBadSettingsNameTheirVariable(t *testing.T) {
	for _, pair := range []string{
		"HARBOUR_RATE_BURST=many", "HARBOUR_RATE_BURST=0", "HARBOUR_RATE_REFILL=-1",
		"HARBOUR_HOLD_FOR=soon", "HARBOUR_API_KEYS=nokey", "HARBOUR_BERTHS=B-01:long:6",
	} {
		_, err := config.FromEnv(env(pair))
		name, _, _ := strings.Cut(pair, "=")
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: error %v", pair, err)
		}
	}
}
