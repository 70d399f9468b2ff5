//! The program under faults: kills, failing system calls, power cuts, full disks. Acknowledged
//! records stay stored, failures are reported, and nothing is left behind.
//!
//! A record is acknowledged by its line of `--jsonl`, which is printed after it was stored; a whole
//! run by "Kept as run". If the store fails, the program warns before it prints results, and exits
//! with status 1.
//!
//! `make soak` runs these tests with larger counts and assembles docs/evidence/FAULTS.md from the
//! sections that they write into the folder of `FATHOM_SOAK`.
#![expect(clippy::print_stdout, reason = "a test prints what it covered, or that it is skipped")]

mod attacks;
mod calls;
mod disk;
mod fault_plan;
mod faulty_run;
mod file_commands;
mod file_write;
mod kills;
mod leaks;
mod orphans;
mod power;
mod requests;
mod serving;
mod stored;
mod test_env;
mod trials;
mod worker_calls;

fn is_soak() -> bool {
    std::env::var_os("FATHOM_SOAK").is_some()
}

/// The count for `make test`, or that for `make soak`.
fn scaled(test: usize, soak: usize) -> usize {
    if is_soak() { soak } else { test }
}

/// Prints a section of docs/evidence/FAULTS.md, and writes it for `make soak`.
fn write_section(name: &str, section: &str) {
    println!("{section}");
    if let Some(folder) = std::env::var_os("FATHOM_SOAK") {
        let path = std::path::Path::new(&folder).join(format!("{name}.md"));
        std::fs::write(path, section).expect("a section");
    }
}

fn skipped(reason: &str) {
    println!("skipped: {reason}");
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
