// Package config reads the settings of the server from the environment.
package config

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Config is everything that differs between staging and production.
type Config struct {
	Listen         string
	DatabaseURL    string
	APIKeys        map[string]string // key to the name of its owner
	Berths         []Berth
	HoldFor        time.Duration // how long a berth stays held without a booking
	RequestTimeout time.Duration
	ShutdownGrace  time.Duration
}

// Berth is a berth as the environment describes it: name:length:draught.
type Berth struct {
	Name     string
	LengthM  int
	DraughtM float64
}

// FromEnv reads the settings through get, which is os.Getenv outside of tests.
func FromEnv(get func(string) string) (Config, error) {
	cfg := Config{
		Listen:         or(get("HARBOUR_LISTEN"), ":8080"),
		DatabaseURL:    get("HARBOUR_DATABASE_URL"),
		APIKeys:        map[string]string{},
		HoldFor:        10 * time.Minute,
		RequestTimeout: 5 * time.Second,
		ShutdownGrace:  20 * time.Second,
	}
	for _, pair := range fields(get("HARBOUR_API_KEYS")) {
		key, owner, ok := strings.Cut(pair, "=")
		if !ok || key == "" {
			return Config{}, fmt.Errorf("HARBOUR_API_KEYS: %q is not key=owner", pair)
		}
		cfg.APIKeys[key] = owner
	}
	for _, s := range fields(get("HARBOUR_BERTHS")) {
		b, err := parseBerth(s)
		if err != nil {
			return Config{}, err
		}
		cfg.Berths = append(cfg.Berths, b)
	}
	if err := durations(get, map[string]*time.Duration{
		"HARBOUR_HOLD_FOR":        &cfg.HoldFor,
		"HARBOUR_REQUEST_TIMEOUT": &cfg.RequestTimeout,
		"HARBOUR_SHUTDOWN_GRACE":  &cfg.ShutdownGrace,
	}); err != nil {
		return Config{}, err
	}
	return cfg, nil
}

func durations(get func(string) string, into map[string]*time.Duration) error {
	for name, d := range into {
		s := get(name)
		if s == "" {
			continue
		}
		v, err := time.ParseDuration(s)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if v <= 0 {
			return fmt.Errorf("%s: %s is not positive", name, v)
		}
		*d = v
	}
	return nil
}

func parseBerth(s string) (Berth, error) {
	parts := strings.Split(s, ":")
	if len(parts) != 3 {
		return Berth{}, fmt.Errorf("HARBOUR_BERTHS: %q is not name:length:draught", s)
	}
	length, err := strconv.Atoi(parts[1])
	if err != nil {
		return Berth{}, fmt.Errorf("HARBOUR_BERTHS: length of %s: %w", parts[0], err)
	}
	draught, err := strconv.ParseFloat(parts[2], 64)
	if err != nil {
		return Berth{}, fmt.Errorf("HARBOUR_BERTHS: draught of %s: %w", parts[0], err)
	}
	return Berth{Name: parts[0], LengthM: length, DraughtM: draught}, nil
}

func fields(s string) []string {
	return strings.FieldsFunc(s, func(r rune) bool { return r == ',' || r == ' ' })
}

func or(s, def string) string {
	if s == "" {
		return def
	}
	return s
}
