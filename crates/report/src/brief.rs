//! A run on a terminal of 24 rows: headline cases, the worst problem, the next command.

use fathom_record::command::RATIO_METRIC;
use fathom_record::{Better, Document, Record};

use crate::opening::labelled;
use crate::overview::{answer, brief_rows, rows_named, run_words};
use crate::wrap::{NARROWEST, glued};

/// Rows of the terminal without the prompt.
const ROWS: usize = 23;

/// The run in at most 23 lines: the answer, headline cases and, if the run is stored, the command
/// that prints all cases.
pub fn brief(document: &Document, width: usize, is_stored: bool) -> String {
    let width = width.max(NARROWEST);
    let Document { run, host, records, .. } = document;
    let mut head = answer(document, width) + &labelled("run", &run_words(run, host), width);
    let mut tail = String::new();
    if is_stored {
        let all = glued(&format!("`fathom show {} --all`", run.id));
        tail += &labelled("all", &format!("{all} prints all cases"), width);
    }
    let room = ROWS.saturating_sub(head.lines().count() + tail.lines().count());
    let is_battery = run.asked.is_empty() && run.procedure.is_none();
    let rows = match brief_rows(records, run.protocol, width) {
        rows if is_battery && !rows.is_empty() => rows,
        _ => {
            let records = headline(records, run.procedure.is_some());
            rows_named(&records, run.protocol, width, room)
        }
    };
    rows.lines().take(room).for_each(|line| head += &format!("{line}\n"));
    head + &tail
}

/// A case of each metric: the first, or the best one of a command whose cases are points of a
/// curve; all ratios of commands, each of which is an answer.
fn headline(records: &[Record], wants_best: bool) -> Vec<&Record> {
    let mut chosen: Vec<&Record> = Vec::new();
    let is_ratio = |record: &Record| record.metric.as_str() == RATIO_METRIC;
    let value = |record: &Record| {
        let summary = record.shown_summary()?;
        Some(if record.better == Better::Lower { -summary.median } else { summary.median })
    };
    for record in records {
        let is_same = |one: &&mut &Record| one.metric == record.metric && !is_ratio(one);
        match chosen.iter_mut().find(is_same) {
            Some(one) if wants_best && value(record) > value(one) => *one = record,
            Some(_) => {}
            None => chosen.push(record),
        }
    }
    chosen
}
