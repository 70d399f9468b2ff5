//! `fathom crosscheck --list`: the comparisons, and which programs are missing.

use serde_json::{Value, json};

use super::selection::Selection;
use crate::arguments::crosscheck::CrosscheckArguments;
use crate::exit::Status;

/// Prints the peers with their rows; `missing` has the package of each missing peer.
pub(super) fn list(
    arguments: &CrosscheckArguments,
    all: &[Selection],
    missing: &[Option<&str>],
) -> anyhow::Result<Status> {
    let peers = || all.iter().zip(missing);
    let values: Vec<Value> = peers().map(|(one, missing)| as_json(one, *missing)).collect();
    super::super::print_list(arguments.json, "peers", &values, |layout| {
        peers().map(|(one, missing)| lines(one, *missing, layout.width)).collect()
    })
}

fn lines(selection: &Selection, missing: Option<&str>, width: usize) -> String {
    let state = match missing {
        None => "installed".to_owned(),
        Some(package) => format!("not installed: sudo apt-get install {package}"),
    };
    let mut text = format!("{} ({state})\n", selection.peer.name());
    for row in &selection.rows {
        let line = format!("{}: {}", row.case(), row.work);
        text += &fathom_report::paragraph(&line, width, "  ", "      ");
    }
    text
}

fn as_json(selection: &Selection, missing: Option<&str>) -> Value {
    let row = |row: &fathom_peers::Row| {
        json!({
            "metric": row.metric, "params": row.params, "work": row.work,
            "difference": row.difference,
        })
    };
    json!({
        "peer": selection.peer.name(), "program": selection.peer.program(),
        "package": missing.unwrap_or_else(|| selection.peer.package()),
        "installed": missing.is_none(), "rows": selection.rows.iter().map(row).collect::<Vec<_>>(),
    })
}
