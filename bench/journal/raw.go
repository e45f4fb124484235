package main

import (
	"database/sql/driver"
	"errors"
	"path/filepath"
	"time"

	"github.com/mattn/go-sqlite3"
)

// rawLoop is what the journal is held against: one connection, one prepared
// insert into a table of the journal's shape, one commit per row, FULL.
func rawLoop(dir string, n int, data []byte) (took time.Duration, err error) {
	path := filepath.Join(dir, "raw.db")
	c, err := (&sqlite3.SQLiteDriver{}).Open("file:" + path + "?_journal_mode=WAL&_synchronous=FULL")
	if err != nil {
		return 0, err
	}
	conn := c.(*sqlite3.SQLiteConn)
	defer func() { err = errors.Join(err, conn.Close()) }()
	_, err = conn.Exec(`create table event(pos integer primary key, thread integer not null, seq integer not null,
		type text not null, at integer not null, data blob not null) strict;
		create unique index event_seq on event(thread, seq)`, nil)
	if err != nil {
		return 0, err
	}
	st, err := conn.Prepare("insert into event(pos, thread, seq, type, at, data) values(?, ?, ?, ?, ?, ?)")
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	start := time.Now()
	for i := range int64(n) {
		args := []driver.Value{i + 1, int64(1), i + 1, eventType, time.Now().UnixMilli(), data}
		if _, err := st.(*sqlite3.SQLiteStmt).Exec(args); err != nil {
			return 0, err
		}
	}
	return time.Since(start), nil
}
