package main

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"strings"
	"sync"
)

// wsAuth says what a client of a WebSocket must send as its bearer token. The names
// of the flags are codex's.
type wsAuth struct {
	Mode        string `name:"ws-auth" placeholder:"MODE" help:"What clients of a WebSocket prove: capability-token (default: the home's token)."`
	TokenFile   string `name:"ws-token-file" placeholder:"FILE" help:"The file that holds the capability token; a new content counts at once."`
	TokenSHA256 string `name:"ws-token-sha256" placeholder:"HEX" help:"The SHA-256 digest of the capability token."`

	SharedSecretFile string `name:"ws-shared-secret-file" hidden:""`
	Issuer           string `name:"ws-issuer" hidden:""`
	Audience         string `name:"ws-audience" hidden:""`
	MaxClockSkew     string `name:"ws-max-clock-skew-seconds" hidden:""`
}

const (
	capabilityToken   = "capability-token"
	signedBearerToken = "signed-bearer-token"
)

// check refuses flags that do not belong together, and an endpoint that others
// could reach without them.
func (a wsAuth) check(at endpoint) error {
	signed := a.SharedSecretFile != "" || a.Issuer != "" || a.Audience != "" || a.MaxClockSkew != ""
	switch {
	case a.Mode == signedBearerToken || a.Mode == "" && signed:
		return usagef("--ws-auth %s is not there yet, it comes later; use --ws-auth %s", signedBearerToken, capabilityToken)
	case a.Mode != "" && a.Mode != capabilityToken:
		return usagef("--ws-auth %s: want %s", a.Mode, capabilityToken)
	case a.Mode == "" && (a.TokenFile != "" || a.TokenSHA256 != ""):
		return usagef("websocket auth flags require `--ws-auth %s`", capabilityToken)
	case a.Mode == "" && at.open():
		return fmt.Errorf("refusing to start non-loopback websocket listener %s without auth; configure `--ws-auth %s`", at.address, capabilityToken)
	case a.Mode == "":
		return nil
	case signed:
		return usagef("the flags of %s do not go with --ws-auth %s", signedBearerToken, capabilityToken)
	case a.TokenFile == "" && a.TokenSHA256 == "":
		return usagef("`--ws-token-file` or `--ws-token-sha256` is required when `--ws-auth %s` is set", capabilityToken)
	case a.TokenFile != "" && a.TokenSHA256 != "":
		return usagef("`--ws-token-file` and `--ws-token-sha256` are mutually exclusive")
	}
	if digest, err := hex.DecodeString(a.TokenSHA256); a.TokenSHA256 != "" && (err != nil || len(digest) != sha256.Size) {
		return usagef("--ws-token-sha256 must be a 64-character hex SHA-256 digest")
	}
	return nil
}

// lock is what the flags, which belong together, ask of clients.
func (a wsAuth) lock(h home, log *slog.Logger) (lock, error) {
	switch {
	case a.TokenSHA256 != "":
		b, err := hex.DecodeString(a.TokenSHA256)
		return lock{digest: func() ([sha256.Size]byte, bool) { return [sha256.Size]byte(b), true }}, err
	case a.TokenFile != "":
		read := func() (string, error) { return readCapability(a.TokenFile) }
		_, err := read()
		return lock{token: watchFile(a.TokenFile, read, log)}, err
	}
	_, err := h.token() // made if there is none
	return lock{}, err
}

// maxCapability bounds a token file that somebody else made.
const maxCapability = 4096

// readCapability reads the token that a file holds, blanks around it left out.
func readCapability(path string) (string, error) {
	info, err := os.Stat(path)
	var b []byte
	if err == nil && !info.IsDir() && info.Size() <= maxCapability {
		b, err = os.ReadFile(path)
	}
	if err != nil {
		return "", fmt.Errorf("failed to read websocket auth secret %s: %w", path, reasonOf(err))
	}
	tok := strings.TrimSpace(string(b))
	if tok == "" || strings.ContainsFunc(tok, func(c rune) bool { return c <= ' ' || c >= 0x7f }) {
		return "", fmt.Errorf("websocket auth secret %s must hold one token of visible ASCII characters, of at most %d bytes", path, maxCapability)
	}
	return tok, nil
}

// reasonOf strips what an error of a file says about the file.
func reasonOf(err error) error {
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		return p.Err
	}
	return err
}

// watchFile returns a function that tells what read returns, read again after the
// file changed: a rotated token counts at once. While it cannot be read nobody is
// let in.
func watchFile[T any](path string, read func() (T, error), log *slog.Logger) func() T {
	var mu sync.Mutex
	var seen fs.FileInfo
	var held, none T
	return func() T {
		info, err := os.Stat(path)
		mu.Lock()
		defer mu.Unlock()
		if err == nil && seen != nil && os.SameFile(info, seen) && info.ModTime().Equal(seen.ModTime()) && info.Size() == seen.Size() {
			return held
		}
		seen = info
		if held, err = read(); err != nil {
			seen, held = nil, none
			log.Error("no request is let in", "file", path, "error", err)
		}
		return held
	}
}
