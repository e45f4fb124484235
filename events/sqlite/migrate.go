package sqlite

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"

	"github.com/mattn/go-sqlite3"

	"github.com/plimsoll-dev/plimsoll/events"
)

// applicationID marks the file as ours: "PLIM".
const applicationID = 0x504c494d

//go:embed migrations/*.sql
var migrationFiles embed.FS

// migrations returns the scripts in order. The n-th brings the file from
// version n-1 to n; a script is never changed once released.
func migrations() []string {
	names, err := fs.Glob(migrationFiles, "migrations/*.sql")
	if err != nil {
		panic(err) // the pattern is constant
	}
	scripts := make([]string, len(names))
	for i, name := range names {
		if !strings.HasPrefix(name, fmt.Sprintf("migrations/%04d_", i+1)) {
			panic("sqlite: migrations are not numbered 1, 2, 3, …: " + name)
		}
		text, err := migrationFiles.ReadFile(name)
		if err != nil {
			panic(err) // embedded
		}
		scripts[i] = string(text)
	}
	return scripts
}

// migrate brings the file to the newest version, one transaction per step, so
// that a stop in between leaves a version that the next start continues from.
func migrate(conn *sqlite3.SQLiteConn, scripts []string) error {
	version, err := queryInt(conn, "pragma user_version")
	if err != nil {
		return err
	}
	for ; int(version) < len(scripts); version++ {
		if err := migrateOne(conn, scripts[version], version+1); err != nil {
			return fmt.Errorf("migrate to version %d: %w", version+1, err)
		}
	}
	return nil
}

func migrateOne(conn *sqlite3.SQLiteConn, script string, version int64) error {
	steps := []string{
		"begin immediate", script,
		"pragma application_id=" + strconv.Itoa(applicationID),
		"pragma user_version=" + strconv.FormatInt(version, 10), "commit",
	}
	for _, s := range steps {
		if _, err := conn.Exec(s, nil); err != nil {
			if conn.AutoCommit() {
				return err
			}
			_, rerr := conn.Exec("rollback", nil)
			return errors.Join(err, rerr)
		}
	}
	return nil
}

// identity returns the id of the database, making it on first use.
func identity(conn *sqlite3.SQLiteConn) (string, error) {
	_, err := conn.Exec("insert into journal(one, id, trimmed) values(1, '"+events.NewID()+"', 0) on conflict do nothing", nil)
	if err != nil {
		return "", err
	}
	st, err := conn.Prepare("select id from journal")
	if err != nil {
		return "", err
	}
	var id string
	err = queryRow(st, nil, &id)
	return id, errors.Join(err, st.Close())
}
