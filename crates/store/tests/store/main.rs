//! The store as its users see it: what goes in comes out, whatever happens in between.
#![expect(clippy::print_stdout, reason = "a test that cannot run here says so")]
#![expect(clippy::unwrap_used, reason = "the helpers of tests fail as the tests themselves do")]

mod children;
mod damage;
mod example;
mod kills;
mod names;
mod older;
mod places;
mod power;
mod refusals;
mod round_trip;
mod writers;

/// Says what a test found, and keeps it as a section of docs/FAULTS.md where `make soak` asks.
fn tell(name: &str, section: &str) {
    println!("{section}");
    if let Some(folder) = std::env::var_os("FATHOM_SOAK") {
        std::fs::write(std::path::Path::new(&folder).join(format!("{name}.md")), section).unwrap();
    }
}
