//! Finding a number in what a program printed.

use crate::process::Output;
use crate::row::ReadingError;

/// The first number in front of a mark: `7.25` in `7.25 usecs/op` for `usecs/op`.
pub(crate) fn before(text: &str, mark: &str) -> Option<f64> {
    let (head, _) = text.split_once(mark)?;
    head.split_whitespace().next_back()?.trim_start_matches('(').parse().ok()
}

/// The first output of some; an empty one where there is none at all.
pub(crate) fn first(outputs: &[Output]) -> &Output {
    outputs.first().unwrap_or(const { &Output::NOTHING })
}

/// That something was not found, with the line that a person looks at first.
pub(crate) fn without(sought: &'static str, output: &Output) -> ReadingError {
    let mut lines = output.out.lines().chain(output.err.lines()).map(str::trim);
    let begins = lines.find(|line| !line.is_empty()).unwrap_or("(nothing)").to_owned();
    ReadingError::Missing { sought, begins }
}
