//! What a record is of: a command of the user with all that decides what a run does.

use fathom_record::Record;
use fathom_record::command::{COLD, COMMAND, INPUT, OUTPUT, SETTINGS};

/// Facts of a command that decide what is timed. Older records have no settings.
const DECISIVE: [&str; 5] = [COMMAND, INPUT, OUTPUT, COLD, SETTINGS];

/// What two records of one id are of, if that differs.
pub(crate) fn subjects(a: &Record, b: &Record) -> Option<[String; 2]> {
    let of = |one: &Record| one.whole_name().unwrap_or_default().to_owned();
    if a.is_of_another(b) {
        return Some([of(a), of(b)]);
    }
    let (what, of_a, of_b) = differing(a, b).into_iter().next()?;
    Some([of_a, of_b].map(|setting| format!("{}, {what} {setting}", of(a))))
}

/// Facts of two commands that decide what is timed, with their texts.
pub(crate) fn differing(a: &Record, b: &Record) -> Vec<(&'static str, String, String)> {
    let is_of_both = |fact: &str| [a, b].iter().all(|one| one.text_of(fact).is_some());
    if !is_of_both(COMMAND) {
        return Vec::new();
    }
    let of = |one: &Record, fact: &str| one.text_of(fact).unwrap_or("none").to_owned();
    let differ = DECISIVE.into_iter().filter(|fact| *fact != SETTINGS || is_of_both(fact));
    let differ = differ.filter(|fact| of(a, fact) != of(b, fact));
    let made =
        |fact| (if fact == COMMAND { "another command" } else { fact }, of(a, fact), of(b, fact));
    differ.map(made).collect()
}
