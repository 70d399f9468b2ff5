//! Results of other benchmark programs: from the text of their files to a run with records.
//!
//! Each tool has a parser of its own, which gives one intermediate shape, [`Parsed`]. [`document`]
//! makes one run of one or more of them. No I/O, no clock: equal texts give equal records.
#![forbid(unsafe_code)]

mod criterion;
mod document;
mod error;
mod fio;
pub mod fuzz;
mod go;
mod google_benchmark;
mod hyperfine;
mod iperf3;
mod jmh;
mod json;
mod json_place;
mod k6;
mod name;
mod oha;
mod parsed;
mod pyperf;
mod text;
mod tool;
mod unit;

pub use document::{Conflict, DocumentAbout, DocumentSource, document};
pub use error::ParseError;
pub use json_place::JsonPlace;
pub use parsed::Parsed;
pub use text::decoded;
pub use tool::Format;
