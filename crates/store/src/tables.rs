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
pub(crate) const CHANGES: [&str; 1] = ["
CREATE INDEX record_by_case ON record (metric, params, run, verdict);
ALTER TABLE run ADD COLUMN pid_namespace TEXT;"];

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
