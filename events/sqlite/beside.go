package sqlite

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/plimsoll-dev/plimsoll/events"
)

// write runs apply as one write of its own.
func (j *Journal) write(ctx context.Context, what, thread string, apply func(*writer) error) error {
	if _, err := j.do(ctx, func(o *op) { o.apply = apply }); err != nil {
		return fmt.Errorf("%s of %s: %w", what, thread, err)
	}
	return nil
}

// PutOpen implements events.Journal.
func (j *Journal) PutOpen(ctx context.Context, thread string, open events.OpenText) error {
	return j.write(ctx, "put open text", thread, func(w *writer) error {
		h, err := w.living(thread)
		if err != nil {
			return err
		}
		_, err = w.exec(`insert into open_text(thread, item, text) values(?, ?, ?)
			on conflict do update set text=excluded.text`, h.id, open.Item, open.Text)
		return err
	})
}

// PutSnapshot implements events.Journal.
func (j *Journal) PutSnapshot(ctx context.Context, thread string, s events.Snapshot) error {
	return j.write(ctx, "put snapshot", thread, func(w *writer) error {
		h, err := w.living(thread)
		if err != nil {
			return err
		}
		if s.Seq < 1 || s.Seq > h.seq {
			return fmt.Errorf("%w: snapshot at %d, the head is %d", events.ErrInvalid, s.Seq, h.seq)
		}
		if s.Data == nil {
			s.Data = []byte{}
		}
		_, err = w.exec(`insert into snapshot(thread, seq, version, data) values(?, ?, ?, ?)
			on conflict do update set seq=excluded.seq, version=excluded.version, data=excluded.data
			where excluded.seq >= seq`, h.id, s.Seq, int64(s.Version), s.Data)
		return err
	})
}

// Trim implements events.Journal.
func (j *Journal) Trim(ctx context.Context, thread string, seq int64) error {
	return j.write(ctx, "trim", thread, func(w *writer) error {
		h, err := w.living(thread)
		if err != nil {
			return err
		}
		if seq < h.oldest {
			return nil
		}
		var upTo, pos int64
		err = w.row("select seq from snapshot where thread=?", args(h.id), &upTo)
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		if seq > upTo {
			return fmt.Errorf("%w: up to %d, the snapshot is at %d", events.ErrNoSnapshot, seq, upTo)
		}
		if err := w.row("select pos from event where thread=? and seq=?", args(h.id, seq), &pos); err != nil {
			return err
		}
		if _, err := w.exec("delete from event where thread=? and seq<=?", h.id, seq); err != nil {
			return err
		}
		if _, err := w.exec("update journal set trimmed=max(trimmed, ?)", pos); err != nil {
			return err
		}
		h.oldest = seq + 1
		_, err = w.exec("update thread set oldest=? where id=?", h.oldest, h.id)
		return err
	})
}
