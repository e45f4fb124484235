-- Two live bookings of one berth may not overlap.
CREATE EXTENSION IF NOT EXISTS btree_gist;
ALTER TABLE bookings
    ADD CONSTRAINT bookings_no_overlap
    EXCLUDE USING gist (berth WITH =, stay WITH &&)
    WHERE (cancelled_at IS NULL);
