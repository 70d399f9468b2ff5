//! `fathom crosscheck --list`: what is compared with what, and what is not installed.

use serde_json::{Value, json};

use super::chosen::Chosen;
use crate::arguments::crosscheck::CrosscheckArguments;
use crate::exit::Status;

/// Prints the peers with their rows; `missing` has the package of each that is not here.
pub(super) fn list(
    arguments: &CrosscheckArguments,
    all: &[Chosen],
    missing: &[Option<&str>],
) -> anyhow::Result<Status> {
    let peers = || all.iter().zip(missing);
    let found: Vec<Value> = peers().map(|(chosen, missing)| as_json(chosen, *missing)).collect();
    super::super::print(arguments.json, &found, |layout| {
        peers().map(|(chosen, missing)| lines(chosen, *missing, layout.width)).collect()
    })
}

fn lines(chosen: &Chosen, missing: Option<&str>, width: usize) -> String {
    let standing = match missing {
        None => "installed".to_owned(),
        Some(package) => format!("not installed: sudo apt-get install {package}"),
    };
    let mut text = format!("{} ({standing})\n", chosen.peer.name());
    for row in &chosen.rows {
        let line = format!("{}: {}", row.case(), row.work);
        text += &fathom_report::paragraph(&line, width, "  ", "      ");
    }
    text
}

fn as_json(chosen: &Chosen, missing: Option<&str>) -> Value {
    let row = |row: &fathom_peers::Row| {
        json!({
            "metric": row.metric, "params": row.params, "work": row.work,
            "difference": row.difference,
        })
    };
    json!({
        "peer": chosen.peer.name(), "program": chosen.peer.program(),
        "package": missing.unwrap_or_else(|| chosen.peer.package()),
        "installed": missing.is_none(), "rows": chosen.rows.iter().map(row).collect::<Vec<_>>(),
    })
}
