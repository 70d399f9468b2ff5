//! Documents that others wrote, and their histograms, for the fuzzer in `fuzz/` and for tests,
//! which replay its corpus.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{from_value, to_value};

use crate::{Document, Histogram, Record};

/// A document, with the checksums that it must have: whoever writes one can compute them.
pub fn document(data: &[u8]) -> Option<Document> {
    let mut document: Document = serde_json::from_slice(data).ok()?;
    document.records = document.records.into_iter().map(Record::sealed).collect();
    let json = serde_json::to_string(&document).expect("plain data has a JSON form");
    let back: Document = serde_json::from_str(&json).expect("finite numbers");
    assert!(back.records.iter().all(Record::is_intact));
    Some(document)
}

/// The bytes of an encoded histogram.
pub fn histogram(data: &[u8]) {
    let text = STANDARD.encode(data);
    let Ok(histogram) = from_value::<Histogram>(text.as_str().into()) else { return };
    assert_eq!(to_value(&histogram).ok(), Some(text.into()), "checksums stay");
    let ranks = histogram.ranks(1_000);
    assert!(ranks.len() as u64 == histogram.len().min(1_000) && ranks.is_sorted());
    let quantiles = [0.0, 0.5, 0.99, 1.0].map(|q| histogram.quantile(q));
    assert!(quantiles.is_sorted() && quantiles.iter().all(|it| it.is_none() == ranks.is_empty()));
    let mut twice = histogram.clone();
    twice.merge(&histogram);
    assert_eq!(twice.len(), 2 * histogram.len());
    let numbers = [histogram.mean(), histogram.standard_deviation(), twice.max(), twice.min()];
    assert!(numbers.iter().all(|number| !number.is_infinite()), "{numbers:?}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn corpus_of_the_fuzzer_is_handled() {
        for (name, target) in [("histogram", histogram)] {
            let folder = format!("{}/../../fuzz/corpus/{name}", env!("CARGO_MANIFEST_DIR"));
            let entries: Vec<_> = std::fs::read_dir(folder).expect("a corpus").collect();
            assert!(entries.len() >= 10, "{name}: {} inputs", entries.len());
            for entry in entries {
                target(&std::fs::read(entry.expect("an entry").path()).expect("a file"));
            }
        }
    }
}
