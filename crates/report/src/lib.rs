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
mod shown;
mod spark;
mod table;
mod trend;
mod wrap;

pub use account::{accounts, answer};
pub use brief::brief;
pub use closing::{closing, kept};
pub use doctor::doctor;
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
pub use table::Table;
pub use trend::{TRENDS_WIDTH, Trends};
pub use wrap::{cut, visible, wrapped as paragraph};

use fathom_record::{Document, Run};

/// Whether the run is shown as an [`overview`]: all metrics, and nothing that needs the table.
pub fn has_overview(run: &Run, layout: &Layout) -> bool {
    run.asked.is_empty() && run.procedure.is_none() && !layout.all && !layout.cycles
}

/// A stored run as `fathom run` printed it: the answer, then an [`overview`], or the table with its
/// foot, [`opening`] and [`closing`].
pub fn show(document: &Document, layout: &Layout) -> String {
    show_with(document, layout, &Trends::NONE) + &kept(document, layout.width)
}

/// As [`show`], with the trends of an overview, and without the commands that show a stored run.
pub fn show_with(document: &Document, layout: &Layout, trends: &Trends) -> String {
    if has_overview(&document.run, layout) {
        return overview(document, layout.width, trends);
    }
    let is_import = document.records.iter().any(|record| record.measured_by.is_some());
    let mut text = if document.run.procedure.is_some() && !is_import {
        by_hand_screen(document, layout.width)
    } else {
        let mut table = Table::new(*layout).on(&document.host);
        let answer = overview::answer(document, layout.width);
        let [header, rows] = [table.header(), table.rows(&document.records)];
        format!("{answer}\n{header}{rows}{}", table.foot())
    };
    // Where and how it was measured: below the numbers, which are wanted first.
    let about = opening(document, layout.width);
    text += &format!("\n{}\n", about.trim_end_matches('\n'));
    text + &closing(document, layout.width)
}

/// A run of a procedure as its command ends with it: the answer, then what it follows from.
pub fn by_hand_screen(document: &Document, width: usize) -> String {
    format!("{}\n{}", overview::answer(document, width), by_hand::evidence(document, width))
}
