//! Parsing numbers in a program's output.

use crate::process::{Output, RunError};

/// The number before the first occurrence of a mark: `7.25` in `7.25 usecs/op` for `usecs/op`.
pub(crate) fn before(text: &str, mark: &str) -> Option<f64> {
    let (head, _) = text.split_once(mark)?;
    head.split_whitespace().next_back()?.trim_start_matches('(').parse().ok()
}

/// The error for output without the expected text; quotes its first line.
pub(crate) fn missing(expected: &str, output: &Output) -> RunError {
    let mut lines = output.out.lines().chain(output.err.lines()).map(str::trim);
    let first = lines.find(|line| !line.is_empty()).unwrap_or("(nothing)");
    RunError::Failed(format!("no {expected} in the output: {first}"))
}
