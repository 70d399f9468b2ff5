//! The `fathom` program as a library: one file per command, and the pipeline they share.

pub mod arguments;
mod commands;
mod exit;
mod interrupt;
mod live;
pub mod pipeline;
mod terminal;
mod tune;

pub use commands::main;
