//! The whole program under faults: kills, failing system calls, power cuts, full disks. It keeps
//! what it said it keeps, says what it could not keep, and leaves nothing behind.
//!
//! What it says it keeps: a line of `--jsonl` is printed after its record was stored; "Kept as run"
//! after the whole run was. Where the store fails, the program says so before anything else, prints
//! what it measures all the same, and ends with status 1.
//!
//! `make soak` does all of this far more often, and puts the tables into the folder that
//! `FATHOM_SOAK` names; docs/FAULTS.md is made of them.
#![expect(clippy::print_stdout, reason = "a test says what it covered, or that it is skipped")]

mod calls;
mod coverage;
mod disk;
mod file_commands;
mod file_write;
mod fire;
mod judge;
mod kept;
mod kills;
mod leaks;
mod test_env;
mod power;
mod tampering;
mod ties;
mod worker_calls;

/// The count for `make test`, or that for `make soak`.
fn count(short: usize, long: usize) -> usize {
    if std::env::var_os("FATHOM_SOAK").is_some() { long } else { short }
}

/// Says what a test found, and keeps it as a section of docs/FAULTS.md where `make soak` asks.
fn write_section(name: &str, section: &str) {
    println!("{section}");
    if let Some(folder) = std::env::var_os("FATHOM_SOAK") {
        let path = std::path::Path::new(&folder).join(format!("{name}.md"));
        std::fs::write(path, section).expect("a section");
    }
}
