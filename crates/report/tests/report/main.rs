//! The views of a run through the public API.

mod bench;
mod by_hand;
mod comparison;
mod crosscheck;
mod doctor;
mod exporting;
mod families;
mod fixture;
mod fleet;
mod fleet_pairs;
mod history;
mod load;
mod promises;
mod remedies;
mod views;

use snapbox::data::DataFormat;
use snapbox::{Assert, Data};

/// As [`assert_snapshot`], of texts below their titles.
fn assert_titled(name: &str, texts: &[(&str, String)]) {
    let text = texts.iter().map(|(title, text)| format!("--- {title}\n{text}"));
    assert_snapshot(name, &text.collect::<Vec<String>>().join("\n"));
}

/// Compares a text with a file in `snapshots/`. To update the files: `SNAPSHOTS=overwrite`.
fn assert_snapshot(name: &str, text: &str) {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/report/snapshots");
    let file = std::path::Path::new(folder).join(name);
    let expected = Data::read_from(&file, Some(DataFormat::Text)).raw();
    Assert::new().action_env("SNAPSHOTS").eq(Data::text(text).raw(), expected);
}
