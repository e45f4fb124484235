package main

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"strings"
)

// tokenBytes is the entropy of a token.
const tokenBytes = 32

// token returns the home's token and makes it if there is none. Two processes
// that race for it end up with the same one.
func (h home) token() (string, error) {
	if tok, err := h.readToken(); !errors.Is(err, fs.ErrNotExist) {
		return tok, err
	}
	// Link fails if somebody was faster; then theirs is the token.
	if err := h.put(tokenFile, []byte(newToken()+"\n"), os.Link); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", err
	}
	return h.readToken()
}

// readToken returns the token of the home. The error wraps fs.ErrNotExist if
// there is none yet.
func (h home) readToken() (string, error) {
	path := h.path(tokenFile)
	info, err := os.Lstat(path)
	if err != nil {
		return "", fmt.Errorf("read token: %w", err)
	}
	if !info.Mode().IsRegular() || info.Size() > 1024 {
		return "", fmt.Errorf("read token: %s is not a token file; remove it and start the server again", path)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("read token: %w", err)
	}
	tok := strings.TrimSpace(string(b))
	if len(tok) < tokenBytes || strings.ContainsAny(tok, " \t\r\n") {
		return "", fmt.Errorf("read token: %s holds no token of at least %d characters; remove it and start the server again",
			path, tokenBytes)
	}
	return tok, nil
}

// watchToken is watchFile of the home's token.
func (h home) watchToken(log *slog.Logger) func() string {
	return watchFile(h.path(tokenFile), h.readToken, log)
}
