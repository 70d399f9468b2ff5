//! Every view of a run, from its records only: the terminal, JSON, the list of runs, comparisons,
//! histories; and the report of `fathom doctor`.
//!
//! A function here takes records and returns text. It measures nothing, reads no clock, file or
//! environment, and prints nothing: equal records give equal views. Text for the terminal contains
//! colour codes, which the caller strips if there is no terminal; words never rely on colour.
//!
//! `fathom run` prints a run when it ends, and [`show`] of a stored run prints the same text: the
//! answer first, at the end [`kept`] if it is stored.
#![forbid(unsafe_code)]

pub mod by_hand;
pub mod compare;
pub mod crosscheck;
pub mod export;
pub mod fleet;
mod hardware;
pub mod health;
pub mod history;
pub mod limits;
pub mod markdown;
pub mod page;
pub mod paper;
pub mod reference;
pub mod side_by_side;
pub mod tiles;
pub mod typical;

mod account;
mod answer;
mod brief;
mod case;
mod closing;
mod column;
mod columns;
mod core_state;
mod counters;
mod counts;
mod distinct;
mod doctor;
mod family;
mod findings;
mod json;
mod layout;
mod listing;
mod model;
mod opening;
mod others;
mod overview;
mod paint;
mod remarks;
pub mod remedy;
mod screen;
mod shown;
mod spark;
mod table;
mod trend;
mod wrap;

pub use account::{accounts, answer};
pub use brief::brief;
pub use closing::{closing, kept};
pub use core_state::busy_runs;
pub use doctor::{LastRun, TriedRemedies, doctor};
pub use fathom_record::quantity::{at_most, binary_size, percent, quantity, range};
pub use json::{document_json, json, judged_json, record_line, second_line, visit_line};
pub use layout::Layout;
pub use listing::{RunListing, runs};
pub use model::{no_model, remote_option};
pub use opening::opening;
pub use others::{origin, others};
pub use overview::{
    cases_in_overview, metric_of_label, overview, overview_records, rows as overview_rows,
};
pub use screen::{besides, by_hand_screen, has_overview, noisy, show, show_with};
pub use table::Table;
pub use trend::{TRENDS_WIDTH, Trends};
pub use wrap::{cut, visible, wrapped as paragraph};
