package sqlite

import (
	"context"
	"database/sql/driver"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/plimsoll-dev/plimsoll/events"
)

func args(vals ...driver.Value) []driver.Value { return vals }

// Append implements events.Journal.
func (j *Journal) Append(ctx context.Context, a events.Append) (int64, error) {
	if err := a.Prepare(time.Now()); err != nil {
		return 0, err
	}
	head, err := j.do(ctx, func(o *op) { o.app = &a })
	if err != nil {
		return 0, fmt.Errorf("append to %s: %w", a.Thread, err)
	}
	return head, nil
}

func (w *writer) append(a *events.Append) (int64, error) {
	h, err := w.head(a.Thread)
	if err != nil {
		return 0, err
	}
	if err := admit(a, h); err != nil {
		return 0, err
	}
	if err := w.haveBlobs(a.Blobs); err != nil {
		return 0, err
	}
	// From here on nothing is refused.
	isNew := h == nil
	if isNew {
		h = &head{oldest: 1}
		if err := w.addThread(h, a); err != nil {
			return 0, err
		}
	}
	if a.Delete {
		if err := w.empty(h.id); err != nil {
			return 0, err
		}
	}
	if err := w.addEvents(h, a); err != nil {
		return 0, err
	}
	if err := w.saveHead(h, a, isNew); err != nil {
		return 0, err
	}
	for _, b := range a.Blobs {
		if err := w.keepBlob(h.id, b); err != nil {
			return 0, err
		}
	}
	for _, item := range a.Closed {
		if _, err := w.exec("delete from open_text where thread=? and item=?", h.id, item); err != nil {
			return 0, err
		}
	}
	w.heads[a.Thread] = h
	return h.seq, nil
}

func admit(a *events.Append, h *head) error {
	switch {
	case h == nil && a.Expect != 0:
		return fmt.Errorf("%w: it does not exist, expected %d", events.ErrConflict, a.Expect)
	case h != nil && h.deleted:
		return fmt.Errorf("%w: it was deleted", events.ErrConflict)
	case h != nil && h.seq != a.Expect:
		return fmt.Errorf("%w: it is at %d, expected %d", events.ErrConflict, h.seq, a.Expect)
	}
	return nil
}

// addThread makes the row of a new thread complete at once: its only append
// so far knows all of it.
func (w *writer) addThread(h *head, a *events.Append) error {
	last := &a.Events[len(a.Events)-1]
	n := int64(len(a.Events))
	res, err := w.exec(`insert into thread(name, journal, head, head_pos, oldest, at, deleted, indexed, info)
		values(?, ?, ?, ?, 1, ?, 0, 0, ?)`, a.Thread, events.NewID(), n, w.pos+n, last.At.UnixMilli(), blobOf(a.Info))
	if err != nil {
		return err
	}
	h.id, err = res.LastInsertId()
	return err
}

func (w *writer) addEvents(h *head, a *events.Append) error {
	for i := range a.Events {
		e := &a.Events[i]
		h.seq++
		w.pos++
		h.pos = w.pos
		e.Seq, e.Pos = h.seq, h.pos
		if a.Delete && i < len(a.Events)-1 {
			continue
		}
		if _, err := w.exec("insert into event(pos, thread, seq, type, at, data) values(?, ?, ?, ?, ?, ?)",
			e.Pos, h.id, e.Seq, e.Type, e.At.UnixMilli(), []byte(e.Data)); err != nil {
			return err
		}
	}
	return nil
}

func (w *writer) saveHead(h *head, a *events.Append, isNew bool) (err error) {
	at := a.Events[len(a.Events)-1].At.UnixMilli()
	switch {
	case a.Delete:
		h.deleted, h.oldest = true, h.seq
		_, err = w.exec("update thread set head=?, head_pos=?, at=?, info=?, oldest=?, deleted=1, indexed=0 where id=?",
			h.seq, h.pos, at, blobOf(a.Info), h.oldest, h.id)
	case isNew:
	case a.Info != nil:
		_, err = w.exec("update thread set head=?, head_pos=?, at=?, info=? where id=?", h.seq, h.pos, at, blobOf(a.Info), h.id)
	default:
		_, err = w.exec("update thread set head=?, head_pos=?, at=? where id=?", h.seq, h.pos, at, h.id)
	}
	return err
}

// blobOf keeps nil a NULL.
func blobOf(b []byte) driver.Value {
	if b == nil {
		return nil
	}
	return b
}

// empty removes everything of a thread except its row.
func (w *writer) empty(id int64) error {
	for _, q := range []string{
		"delete from event where thread=?",
		"delete from open_text where thread=?",
		"delete from snapshot where thread=?",
		"delete from doc where docid in (select id from doc_ref where thread=?)",
		"delete from doc_ref where thread=?",
		`delete from blob where id in (select blob from blob_ref where thread=?1)
			and not exists (select 1 from blob_ref r where r.blob = blob.id and r.thread <> ?1)`,
		"delete from blob_ref where thread=?",
	} {
		if _, err := w.exec(q, id); err != nil {
			return err
		}
	}
	return nil
}

// haveBlobs refuses references to blobs that are not there.
func (w *writer) haveBlobs(blobs []events.Blob) error {
	for _, b := range blobs {
		if b.Data != nil {
			continue
		}
		switch _, err := w.blobID(b.Hash); {
		case errors.Is(err, io.EOF):
			return fmt.Errorf("blob %s: %w", b.Hash, events.ErrNotFound)
		case err != nil:
			return err
		}
	}
	return nil
}

func (w *writer) keepBlob(thread int64, b events.Blob) error {
	id, err := w.blobID(b.Hash)
	if errors.Is(err, io.EOF) {
		var res driver.Result
		if res, err = w.exec("insert into blob(hash, data) values(?, ?)", rawHash(b.Hash), b.Data); err == nil {
			id, err = res.LastInsertId()
		}
	}
	if err != nil {
		return err
	}
	_, err = w.exec("insert or ignore into blob_ref(thread, blob) values(?, ?)", thread, id)
	return err
}

func (w *writer) blobID(hash string) (id int64, err error) {
	err = w.row("select id from blob where hash=?", args(rawHash(hash)), &id)
	return id, err
}

// rawHash returns the bytes of a hash, or a key that no row has.
func rawHash(hash string) []byte {
	raw, err := hex.DecodeString(hash)
	if err != nil {
		return []byte{0}
	}
	return raw
}
