//! Our side of a row: this very program in a process of its own, as anybody would call it.

use std::path::Path;

use fathom_peers::{Invocation, On, Ours, Output, Place, Row, RunError};
use fathom_record::{Document, Verdict};

/// The store is not for numbers that were taken to be held against others.
const STORES: &[&str] = &["HOME", "XDG_DATA_HOME", "FATHOM_STORE"];

/// The command for a row.
pub(super) fn command(row: &Row, program: &Path, cpu: u32, place: Option<&Place>) -> Invocation {
    let words = match (row.ours, place) {
        (Ours::File(words), Some(place)) => {
            let mut words = words(place);
            words.insert(0, "file".to_owned());
            words.push("--json".to_owned());
            words
        }
        (_, place) => {
            let usual = ["run", "--quick", "--only", "--json", "--cpu"].map(str::to_owned);
            let mut words: Vec<String> = usual.into();
            words.extend([cpu.to_string(), row.case()]);
            // Beside the folder of this crosscheck: the run has one of its own.
            let parent = place.and_then(|place| place.data.parent()?.parent());
            words.extend(
                parent.iter().flat_map(|it| ["--folder".to_owned(), it.display().to_string()]),
            );
            words
        }
    };
    Invocation { without: STORES, ..Invocation::new(program.display().to_string(), words) }
}

/// Where it runs: `fathom run` pins its workers itself, and wants another CPU for itself.
pub(super) fn cpus(row: &Row, cpu: u32, allowed: &[u32]) -> Vec<u32> {
    match (row.ours, row.on) {
        (Ours::File(_), On::One) => vec![cpu],
        _ => allowed.to_vec(),
    }
}

/// The number of the row's case in what the command printed, and the verdict on it.
///
/// # Errors
/// Where there is none that may be believed.
pub(super) fn value(row: &Row, said: &Output) -> Result<(f64, Verdict), RunError> {
    let failed = |why: String| RunError::Failed(why);
    let document: Document = serde_json::from_str(&said.out)
        .map_err(|error| failed(format!("ours printed no document: {error}")))?;
    let of_case = document
        .records
        .iter()
        .find(|record| record.metric.as_str() == row.metric && record.params == row.params);
    let Some(record) = of_case else {
        let names: Vec<String> = document.records.iter().map(|record| record.name()).collect();
        return Err(failed(format!("ours measured {} and not {}", names.join(", "), row.case())));
    };
    let summary = record.summary.as_ref().filter(|_| record.verdict.shows_number());
    summary.map(|summary| (summary.median, record.verdict.clone())).ok_or_else(|| {
        let reasons: Vec<&str> =
            record.verdict.reasons.iter().map(|reason| reason.text.as_str()).collect();
        failed(format!("ours is {}: {}", record.verdict.state.word(), reasons.join("; ")))
    })
}
