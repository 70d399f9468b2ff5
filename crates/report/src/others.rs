//! Results that a run does not have, from other runs of its host.

use fathom_record::{Document, Record};

use crate::by_hand;
use crate::case::counted;
use crate::has_overview;
use crate::layout::Layout;
use crate::overview::rows_beside;
use crate::paint::{FAINT, paint_lines};
use crate::table::Table;
use crate::wrap::{NARROWEST, clean, wrapped};

/// Sentences of the answer of another run, at most: `fathom show RUN` has all.
const SENTENCES: usize = 3;

/// The id, the age and the command of another run: `0123456789abcdef, 3 d older: file sweep data`.
pub fn origin(document: &Document, other: &Document) -> String {
    let run = &other.run;
    let age = age(&document.run.started, &run.started).map(|age| format!(", {age}"));
    let asked = if run.asked.is_empty() { "run".to_owned() } else { clean(&run.asked.join(" ")) };
    format!("{}{}: {asked}", clean(&run.name()), age.unwrap_or_default())
}

/// How much older or newer the second time stamp is.
fn age(this: &str, other: &str) -> Option<String> {
    let time_of = |text: &str| Some(text.parse::<jiff::Timestamp>().ok()?.as_second());
    let older = time_of(this)? - time_of(other)?;
    let word = if older < 0 { "newer" } else { "older" };
    let amount = match older.unsigned_abs() {
        seconds @ 0..120 => format!("{seconds} s"),
        seconds @ 120..7_200 => format!("{} min", seconds / 60),
        seconds @ 7_200..172_800 => format!("{} h", seconds / 3_600),
        seconds => format!("{} d", seconds / 86_400),
    };
    Some(format!("{amount} {word}"))
}

/// The cases that a run does not have with their rows, by the runs that have them, the newest
/// first.
pub fn others(document: &Document, others: &[Document], layout: &Layout) -> String {
    if others.is_empty() {
        return String::new();
    }
    let width = layout.width.max(NARROWEST);
    let paragraph = |text: &str| paint_lines(FAINT, &wrapped(text, width, "", "  "));
    let head = "Cases that this run does not have, from other runs of this host, kernel and \
                hardware (`fathom show RUN` prints one):";
    let mut text = format!("\n{}", paragraph(head));
    let mut known: Vec<&[Record]> = vec![&document.records];
    for other in others {
        let cases = counted(other.records.len(), "case");
        text += &paragraph(&format!("{}: {cases}", origin(document, other)));
        if has_overview(&document.run, layout) && other.run.procedure.is_some() {
            let by_hand::ByHandAnswer { sentences, next, .. } = by_hand::answer(other);
            let next = next.into_iter().map(|it| format!("Next: {it}."));
            let first = sentences.into_iter().take(SENTENCES);
            let answer = first.chain(next).collect::<Vec<String>>().join(" ");
            if !answer.is_empty() {
                text += &wrapped(&answer, width, "  ", "  ");
            }
        }
        text += &match has_overview(&document.run, layout) {
            true => rows_beside(&other.records, &known, &other.run, layout.width),
            false => Table::new(*layout).on(&other.host).rows(&other.records),
        };
        known.push(&other.records);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn age_is_relative_to_the_run() {
        let of = |this: &str, other: &str| age(this, other).unwrap_or_default();
        assert_eq!(of("2026-03-04T10:00:00Z", "2026-03-01T09:00:00.5Z"), "3 d older");
        assert_eq!(of("2026-03-04T10:00:00Z", "2026-03-04T12:30:00Z"), "2 h newer");
        assert_eq!(of("2026-03-04T10:00:00Z", "2026-03-04T10:00:00Z"), "0 s older");
        assert_eq!(of("yesterday", "2026-03-04T10:00:00Z"), "");
    }
}
