package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	"harbour.example/api/internal/berth"
)

// Postgres is the store of production. The schema is in migrations and belongs
// to the data team; this file only reads and writes it.
type Postgres struct {
	db *sql.DB
}

// NewPostgres returns a store on an open database.
func NewPostgres(db *sql.DB) *Postgres { return &Postgres{db: db} }

// Ship implements berth.Store.
func (p *Postgres) Ship(ctx context.Context, imo string) (berth.Ship, error) {
	var s berth.Ship
	err := p.db.QueryRowContext(ctx,
		`SELECT imo, name, length_m, draught_m FROM ships WHERE imo = $1`, imo,
	).Scan(&s.IMO, &s.Name, &s.LengthM, &s.DraughtM)
	if errors.Is(err, sql.ErrNoRows) {
		return berth.Ship{}, fmt.Errorf("ship %s: %w", imo, berth.ErrNoShip)
	}
	return s, err
}

// Berths implements berth.Store.
func (p *Postgres) Berths(ctx context.Context) ([]berth.Berth, error) {
	rows, err := p.db.QueryContext(ctx, `SELECT name, length_m, draught_m FROM berths WHERE closed_at IS NULL`)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var out []berth.Berth
	for rows.Next() {
		var b berth.Berth
		if err := rows.Scan(&b.Name, &b.LengthM, &b.DraughtM); err != nil {
			return nil, err
		}
		out = append(out, b)
	}
	return out, rows.Err()
}

// Bookings implements berth.Store.
func (p *Postgres) Bookings(ctx context.Context, name string) ([]berth.Booking, error) {
	rows, err := p.db.QueryContext(ctx, `
		SELECT id, berth, imo, lower(stay), upper(stay), made_at, agent
		FROM bookings WHERE berth = $1 AND cancelled_at IS NULL
		ORDER BY lower(stay)`, name)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var out []berth.Booking
	for rows.Next() {
		var b berth.Booking
		if err := rows.Scan(&b.ID, &b.Berth, &b.IMO, &b.Window.From, &b.Window.To, &b.Made, &b.Agent); err != nil {
			return nil, err
		}
		out = append(out, b)
	}
	return out, rows.Err()
}

// Insert implements berth.Store. The table has an exclusion constraint on berth
// and stay (migration 0002), so that two inserts of the same window cannot both
// succeed, whatever the callers checked before.
func (p *Postgres) Insert(ctx context.Context, b berth.Booking) error {
	_, err := p.db.ExecContext(ctx, `
		INSERT INTO bookings (id, berth, imo, stay, made_at, agent)
		VALUES ($1, $2, $3, tstzrange($4, $5), $6, $7)`,
		b.ID, b.Berth, b.IMO, b.Window.From, b.Window.To, b.Made, b.Agent)
	if err != nil && strings.Contains(err.Error(), "bookings_no_overlap") {
		return fmt.Errorf("insert: %w", err)
	}
	return err
}

// Delete implements berth.Store.
func (p *Postgres) Delete(ctx context.Context, id string) error {
	res, err := p.db.ExecContext(ctx, `UPDATE bookings SET cancelled_at = now() WHERE id = $1 AND cancelled_at IS NULL`, id)
	if err != nil {
		return err
	}
	if n, err := res.RowsAffected(); err != nil || n == 0 {
		return errors.Join(err, fmt.Errorf("booking %s: %w", id, berth.ErrNoBooking))
	}
	return nil
}
