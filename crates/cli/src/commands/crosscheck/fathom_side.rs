//! Our side of a row: this program in a process of its own, as on a command line.

use std::path::Path;

use fathom_peers::{Invocation, On, Ours, Output, PeerPlace, Row, RunError};
use fathom_record::{Document, Verdict};

/// Removed from the environment, so that the results of a crosscheck are not stored.
const STORE_VARIABLES: &[&str] = &["HOME", "XDG_DATA_HOME", "FATHOM_STORE"];

pub(super) fn command(
    row: &Row,
    program: &Path,
    cpu: u32,
    place: Option<&PeerPlace>,
) -> Invocation {
    let words = match (row.ours, place) {
        (Ours::File(words), Some(place)) => {
            let mut words = words(place, &row.params);
            words.insert(0, "file".to_owned());
            words.push("--json".to_owned());
            words
        }
        (Ours::Load(words), Some(place)) => {
            let mut words = words(place);
            words.insert(0, "load".to_owned());
            words
        }
        (_, place) => {
            let options = ["run", "--quick", "--only", "--json", "--cpu"].map(str::to_owned);
            let mut words: Vec<String> = options.into();
            words.extend([cpu.to_string(), row.case()]);
            // The run creates a folder of its own beside that of the crosscheck.
            if let Some(parent) = place.and_then(|place| place.data.parent()?.parent()) {
                words.extend(["--folder".to_owned(), parent.display().to_string()]);
            }
            words
        }
    };
    Invocation { without: STORE_VARIABLES, ..Invocation::new(program.display().to_string(), words) }
}

/// Where the command runs: `fathom run` pins its workers itself, and runs on another CPU.
pub(super) fn cpus(row: &Row, cpu: u32, allowed: &[u32]) -> Vec<u32> {
    match (row.ours, row.on) {
        (Ours::File(_), On::One) | (Ours::Load(_), _) => vec![cpu],
        _ => allowed.to_vec(),
    }
}

/// The headline of the row's case in the printed document, with its verdict.
///
/// # Errors
/// If it is missing or invalid.
pub(super) fn value(row: &Row, output: &Output) -> Result<(f64, Verdict), RunError> {
    let failed = RunError::Failed;
    let document: Document = serde_json::from_str(&output.out)
        .map_err(|error| failed(format!("fathom printed no document: {error}")))?;
    let of_case = document
        .records
        .iter()
        .find(|record| record.metric.as_str() == row.metric && record.params == row.params);
    let Some(record) = of_case else {
        let names: Vec<String> = document.records.iter().map(|record| record.name()).collect();
        return Err(failed(format!("fathom measured {}, not {}", names.join(", "), row.case())));
    };
    let number = record.shown_summary().and_then(|summary| match row.quantile {
        None => Some(summary.median),
        Some(q) => summary.quantiles.iter().find(|one| one.q == q).map(|one| one.value),
    });
    number.map(|number| (number, record.verdict.clone())).ok_or_else(|| {
        let reasons: Vec<&str> =
            record.verdict.reasons.iter().map(|reason| reason.text.as_str()).collect();
        failed(format!(
            "fathom's result is {}: {}",
            record.verdict.state.word(),
            reasons.join("; ")
        ))
    })
}
