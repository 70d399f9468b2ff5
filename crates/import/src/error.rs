//! What is wrong with a file, and where.

use crate::name::title;

/// Why a text is no result of its tool.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {what}")]
pub struct ParseError {
    /// From 1.
    pub line: usize,
    pub what: String,
}

impl ParseError {
    pub(crate) fn new(line: usize, what: impl Into<String>) -> Self {
        Self { line: line.max(1), what: title(&what.into()) }
    }

    /// At the last line with this text, as JSON has it.
    pub(crate) fn at_last(text: &str, word: &str, what: impl Into<String>) -> Self {
        let word = serde_json::Value::from(word).to_string();
        let before = text.rfind(&word).map_or("", |at| &text[..at]);
        Self::new(before.matches('\n').count() + 1, what)
    }
}
