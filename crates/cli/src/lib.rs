//! The `fathom` program as a library: one file per command.

pub mod arguments;
mod commands;
mod exit;
pub mod interrupt;
pub mod live;
mod names;
#[cfg(test)]
mod printed;
mod remedy;
mod terminal;
mod tune;

pub use commands::{main, print_help, unknown_health, worker};
pub use exit::for_bisect;
pub use names::use_built_in_lookup;
pub use terminal::note_closed_output;
