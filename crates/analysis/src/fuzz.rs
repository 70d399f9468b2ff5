//! Texts and documents that others wrote, for the fuzzer in `fuzz/` and for tests, which replay its
//! corpus.

use std::collections::BTreeSet;

use fathom_record::{Document, Unit};

use crate::compare::{Noise, compare};
use crate::fleet::names::{expand, fold};
use crate::limits::{UserLimit, entries};

/// A list of hosts: folded, it has the same hosts.
pub fn hosts(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let Ok(hosts) = expand(text) else { return };
    let expanded = expand(&fold(hosts.iter().map(String::as_str))).expect("what was expanded");
    assert_eq!(BTreeSet::from_iter(expanded), BTreeSet::from_iter(hosts));
}

/// A file of limits: each range, as it is written again, is the same within its digits.
pub fn limits(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let ranges = entries(text).unwrap_or_else(|_| vec![(String::new(), text.to_owned())]);
    for ((_, range), unit) in ranges.iter().flat_map(|one| Unit::ALL.map(|unit| (one, unit))) {
        let Ok(limit) = UserLimit::parse(range, unit) else { continue };
        let written = limit.text(unit);
        assert!(UserLimit::parse(&written, unit).is_ok(), "{range:?} is {written:?}");
    }
}

/// A document whose checksums are right: compared with itself, and by limits of its own.
pub fn document(document: &Document) {
    let comparison = compare(document, document, &Noise::default(), 1);
    assert!(comparison.rows.len() <= document.records.len());
    for record in &document.records {
        let limit = UserLimit::around(record, 0.1);
        limit.inspect(|limit| _ = limit.judge(record));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn corpus_of_the_fuzzer_is_handled() {
        let of_document = |data: &[u8]| {
            fathom_record::fuzz::document(data).inspect(document);
        };
        for (name, target) in
            [("hosts", hosts as fn(&[u8])), ("limits", limits), ("document", of_document)]
        {
            let folder = format!("{}/../../fuzz/corpus/{name}", env!("CARGO_MANIFEST_DIR"));
            let entries: Vec<_> = std::fs::read_dir(folder).expect("a corpus").collect();
            assert!(entries.len() >= 10, "{name}: {} inputs", entries.len());
            for entry in entries {
                target(&std::fs::read(entry.expect("an entry").path()).expect("a file"));
            }
        }
    }
}
