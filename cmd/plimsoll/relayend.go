package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/plimsoll-dev/plimsoll/api/jsonrpc"
)

// statusAbnormal is how a connection reads that ended without a close frame.
const statusAbnormal = 1006

// relayEnd says why a relay has ended whose client has not: err is what Relay
// returned. What it says is true of the home's owner, whom it asks if the
// connection does not tell.
func relayEnd(h home, err error, alive func() bool) error {
	lost, isServer := errors.AsType[*jsonrpc.ServerError](err)
	closed, _ := errors.AsType[*jsonrpc.CloseError](err)
	gone := fmt.Errorf("the process that owns home %s has ended, and the connection with it; start again to go on where the journal ends", h.dir)
	switch {
	case err == nil: // it has said goodbye
		return gone
	case !isServer:
		return fmt.Errorf("the connection was given up: %w; the process that owns home %s goes on", err, h.dir)
	case errors.Is(err, jsonrpc.ErrTooBig):
		return fmt.Errorf("the connection was given up: the process that owns home %s sent more than %d MiB in one message; it goes on, and a client that resumes the thread with excludeTurns is not sent what was before",
			h.dir, jsonrpc.MaxMessage>>20)
	case closed != nil && closed.Status == jsonrpc.StatusTryLater:
		return fmt.Errorf("the process that owns home %s gave this connection up, as what it sent was not taken in time (%s); it goes on: start again, and read what comes", h.dir, closed.Reason)
	case closed != nil && closed.Status != statusAbnormal:
		return fmt.Errorf("the process that owns home %s ended the connection: %w", h.dir, closed)
	case alive():
		return fmt.Errorf("the connection to the process that owns home %s broke (%w), and it goes on: it gives up who does not take what it sends; start again, and read what comes", h.dir, lost.Err)
	}
	return errors.Join(gone, err)
}

// owned reports whether a process serves the home.
func owned(h home) bool {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	t, err := dialOwner(ctx, h)
	if err == nil {
		_ = t.Close(jsonrpc.StatusNormal, "") // it was to see whether somebody is there
	}
	return err == nil
}
