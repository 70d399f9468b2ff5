//! What a database server sends with an error, for the fuzzer in `fuzz/` and for a test, which
//! replays its corpus.

use crate::postgres::from_any_server;

/// The longest sentence, in characters, whatever a server sends.
const SENTENCE_MAX: usize = 400;

/// A code, a line feed and a message: one line of a bounded length.
pub fn server_error(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let (code, message) = text.split_once('\n').unwrap_or((text, ""));
    let sentence = from_any_server(code, message).to_string();
    assert!(sentence.chars().count() < SENTENCE_MAX, "{sentence}");
}

#[cfg(test)]
mod tests {
    #[test]
    fn corpus_of_the_fuzzer_is_handled() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus/server_error");
        let entries: Vec<_> = std::fs::read_dir(folder).expect("a corpus").collect();
        assert!(entries.len() >= 10, "{} inputs", entries.len());
        for entry in entries {
            super::server_error(&std::fs::read(entry.expect("an entry").path()).expect("a file"));
        }
    }
}
