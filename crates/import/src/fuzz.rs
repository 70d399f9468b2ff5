//! Files that others wrote, for the fuzzer in `fuzz/` and for tests, which replay its corpus.

use std::collections::BTreeSet;

use fathom_record::Tool;
use jiff::Timestamp;

use crate::{DocumentAbout, DocumentSource, Format, Parsed, document};

/// A file, read as that of each tool, alone and beside itself.
pub fn file(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let _ = Format::recognised(text);
    Format::ALL.into_iter().for_each(|format| read(format, text));
}

/// Results of Go, of which a file for all tools rarely is one.
pub fn go(data: &[u8]) {
    let _ = std::str::from_utf8(data).map(|text| read(Format::Go, text));
}

/// Results of hyperfine.
pub fn hyperfine(data: &[u8]) {
    let _ = std::str::from_utf8(data).map(|text| read(Format::Hyperfine, text));
}

fn read(format: Format, text: &str) {
    let parsed = match format.parse(text) {
        Ok(parsed) => parsed,
        Err(error) => {
            // The end of a file is after its last line.
            assert!(error.line <= text.lines().count() + 1, "{error}");
            return;
        }
    };
    let source = |name: &str| {
        // Another file with the same numbers.
        let checksum = parsed.checksum ^ u32::from(name == "b");
        DocumentSource { name: name.to_owned(), parsed: Parsed { checksum, ..parsed.clone() } }
    };
    let tool = Tool { name: String::new(), version: String::new(), compiler: None };
    let (label, host, written) = (None, None, Timestamp::UNIX_EPOCH);
    let about = DocumentAbout { format, tool, label, host, written };
    let document = document(&[source("a"), source("b")], &about).expect("one origin");
    let names: BTreeSet<String> = document.records.iter().map(|one| one.name()).collect();
    assert_eq!(names.len(), document.records.len(), "{names:?}");
    // A number that is not finite is not read back.
    let json = serde_json::to_string(&document).expect("plain data has a JSON form");
    let back: fathom_record::Document = serde_json::from_str(&json).expect("finite numbers");
    assert!(back == document && back.records.iter().all(|record| record.is_intact()));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn corpus_of_the_fuzzer_is_handled() {
        for (name, target) in
            [("import", file as fn(&[u8])), ("import_go", go), ("import_hyperfine", hyperfine)]
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
