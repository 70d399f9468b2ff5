//! The store through its public API: what is stored is read back, whatever happens meanwhile.
#![expect(clippy::print_stdout, reason = "a skipped test prints why")]
#![expect(clippy::unwrap_used, reason = "test helpers fail like tests")]

mod cases;
mod children;
mod damage;
mod example;
mod file_systems;
mod listing;
mod names;
mod older;
mod postgres;
mod power;
mod refusals;
mod round_trip;
mod writers;

/// Prints the result of a test, and writes it as a section of docs/evidence/FAULTS.md for
/// `make soak`.
fn print_section(name: &str, section: &str) {
    println!("{section}");
    if let Some(folder) = std::env::var_os("FATHOM_SOAK") {
        std::fs::write(std::path::Path::new(&folder).join(format!("{name}.md")), section).unwrap();
    }
}
