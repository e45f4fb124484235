-- Owned by the data team. Applied by their pipeline, never by the server.
CREATE TABLE ships (
    imo        char(7) PRIMARY KEY,
    name       text    NOT NULL,
    length_m   integer NOT NULL CHECK (length_m > 0),
    draught_m  numeric(4,1) NOT NULL CHECK (draught_m > 0)
);
CREATE TABLE berths (
    name       text PRIMARY KEY,
    length_m   integer NOT NULL,
    draught_m  numeric(4,1) NOT NULL,
    closed_at  timestamptz
);
CREATE TABLE bookings (
    id           text PRIMARY KEY,
    berth        text NOT NULL REFERENCES berths(name),
    imo          char(7) NOT NULL REFERENCES ships(imo),
    stay         tstzrange NOT NULL,
    made_at      timestamptz NOT NULL,
    agent        text NOT NULL,
    cancelled_at timestamptz
);
CREATE INDEX bookings_by_berth ON bookings (berth, lower(stay));
