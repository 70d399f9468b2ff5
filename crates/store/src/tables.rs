//! The tables and their version.

/// `Fath`: SQLite's application id in the header, which distinguishes a store from any other
/// SQLite database.
pub(crate) const APPLICATION_ID: i32 = 0x4661_7468;

/// The version of the tables that this program reads and writes. Any change of the tables, or of
/// the JSON in them, is a new version, with its step in [`CHANGES`]. A store of a version from
/// [`OLDEST`] on is migrated, and of any other refused and left unchanged.
pub const VERSION: u32 = OLDEST + CHANGES.len() as u32;

/// The oldest version that is migrated.
pub const OLDEST: u32 = 4;

/// What each version after [`OLDEST`] adds. A new store takes the same steps, so that a migrated
/// one does not differ from it.
pub(crate) const CHANGES: [&str; 2] = [
    "
CREATE INDEX record_by_case ON record (metric, params, run, verdict);
ALTER TABLE run ADD COLUMN pid_namespace TEXT;",
    "
ALTER TABLE run ADD COLUMN label TEXT;
ALTER TABLE run ADD COLUMN procedure TEXT;
ALTER TABLE run ADD COLUMN asked TEXT NOT NULL DEFAULT '[]';
ALTER TABLE run ADD COLUMN logical_cpus INTEGER;
UPDATE run SET label = body ->> '$.label', procedure = body ->> '$.procedure',
    asked = coalesce(body -> '$.asked', '[]') WHERE json_valid(body);
UPDATE run SET logical_cpus = host ->> '$.cpu.logical'
    WHERE json_valid(host) AND json_type(host, '$.cpu.logical') = 'integer';",
];

/// The first version in a PostgreSQL database.
pub(crate) const POSTGRES_OLDEST: u32 = 6;

/// What each version after [`POSTGRES_OLDEST`] adds there.
pub(crate) const POSTGRES_CHANGES: [&str; (VERSION - POSTGRES_OLDEST) as usize] = [];

/// The tables of version [`POSTGRES_OLDEST`] there: those of a file, with the types of PostgreSQL.
/// Text is in the order of its bytes, as in SQLite.
pub(crate) const POSTGRES_TABLES: &str = "
CREATE TABLE store (version integer NOT NULL);
INSERT INTO store VALUES (0);
CREATE TABLE run (
    number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id text COLLATE \"C\" NOT NULL UNIQUE,
    started text COLLATE \"C\" NOT NULL,
    ended text COLLATE \"C\",
    state text COLLATE \"C\" NOT NULL,
    effort text COLLATE \"C\" NOT NULL,
    host_name text COLLATE \"C\" NOT NULL,
    host_id text COLLATE \"C\",
    kernel text COLLATE \"C\" NOT NULL,
    cpu_model text COLLATE \"C\" NOT NULL,
    pid bigint NOT NULL,
    pid_start_ticks bigint,
    boot_id text COLLATE \"C\",
    tool text COLLATE \"C\" NOT NULL,
    body text COLLATE \"C\" NOT NULL,
    host text COLLATE \"C\" NOT NULL,
    far text COLLATE \"C\" NOT NULL,
    crc bigint NOT NULL,
    pid_namespace text COLLATE \"C\",
    label text COLLATE \"C\",
    procedure text COLLATE \"C\",
    asked text COLLATE \"C\" NOT NULL,
    logical_cpus bigint
);
CREATE TABLE record (
    number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    run bigint NOT NULL REFERENCES run (number),
    metric text COLLATE \"C\" NOT NULL,
    params text COLLATE \"C\" NOT NULL,
    verdict text COLLATE \"C\" NOT NULL,
    body text COLLATE \"C\" NOT NULL,
    UNIQUE (run, metric, params)
);
CREATE INDEX record_by_verdict ON record (run, verdict);
CREATE INDEX record_by_case ON record (metric, params, run, verdict);
CREATE TABLE samples (
    record bigint PRIMARY KEY REFERENCES record (number),
    body bytea NOT NULL,
    crc bigint NOT NULL
);
CREATE TABLE headline (
    record bigint PRIMARY KEY REFERENCES record (number) ON DELETE CASCADE,
    unit text COLLATE \"C\" NOT NULL,
    better text COLLATE \"C\" NOT NULL,
    state text COLLATE \"C\" NOT NULL,
    value double precision,
    low double precision,
    high double precision,
    bound double precision,
    cut_short bigint NOT NULL,
    stratum text COLLATE \"C\" NOT NULL,
    found double precision,
    found_low double precision,
    found_high double precision,
    crc bigint NOT NULL
);";

/// The tables of version [`OLDEST`].
///
/// `body`, `host` and the like are JSON. The columns before them repeat what a list needs, so that
/// listing parses no JSON. `crc` covers `tool`, `body`, `host` and `far`.
pub(crate) const TABLES: &str = "
CREATE TABLE run (
    number INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    started TEXT NOT NULL,
    ended TEXT,
    state TEXT NOT NULL,
    effort TEXT NOT NULL,
    host_name TEXT NOT NULL,
    host_id TEXT,
    kernel TEXT NOT NULL,
    cpu_model TEXT NOT NULL,
    pid INTEGER NOT NULL,
    pid_start_ticks INTEGER,
    boot_id TEXT,
    tool TEXT NOT NULL,
    body TEXT NOT NULL,
    host TEXT NOT NULL,
    far TEXT NOT NULL,
    crc INTEGER NOT NULL
) STRICT;
CREATE TABLE record (
    number INTEGER PRIMARY KEY,
    run INTEGER NOT NULL REFERENCES run (number),
    metric TEXT NOT NULL,
    params TEXT NOT NULL,
    verdict TEXT NOT NULL,
    body TEXT NOT NULL,
    UNIQUE (run, metric, params)
) STRICT;
CREATE INDEX record_by_verdict ON record (run, verdict);
CREATE TABLE samples (
    record INTEGER PRIMARY KEY REFERENCES record (number),
    body BLOB NOT NULL,
    crc INTEGER NOT NULL
) STRICT;
CREATE TABLE headline (
    record INTEGER PRIMARY KEY REFERENCES record (number) ON DELETE CASCADE,
    unit TEXT NOT NULL,
    better TEXT NOT NULL,
    state TEXT NOT NULL,
    value REAL,
    low REAL,
    high REAL,
    bound REAL,
    cut_short INTEGER NOT NULL,
    stratum TEXT NOT NULL,
    found REAL,
    found_low REAL,
    found_high REAL,
    crc INTEGER NOT NULL
) STRICT;";
