//! A crosscheck for the terminal: header, rows by peer as they complete, and a foot.

use fathom_analysis::crosscheck::{pair_ratio, peer_lost_share, peer_preempted_hz};
use fathom_record::quantity::{NOTHING, quantity, quantity_within, short};
use fathom_record::{CrossOutcome, CrossRow, Crosscheck, PairRatio, PeerStatistic};

use crate::case::{counted, named};
use crate::column::{Column, Lines};
use crate::paint::{BAD, CARE, FAINT, PLAIN, STRONG, paint, paint_lines};
use crate::shown::{NOISY, mark, state_mark};
use crate::wrap::{NARROWEST, clean, glued, wrapped};

/// A wider line only moves the values away from their names.
const WIDEST: usize = 120;

/// A program alone on its CPU is preempted less often, by kernel threads only.
const BUSY_HZ: f64 = 40.0;

static COLUMNS: [Column<()>; 5] = [
    Column::left("metric", &[], ()),
    Column::right("fathom", &[(80, 12), (0, 10)], ()),
    Column::right("peer", &[(80, 12), (0, 10)], ()),
    Column::right("ratio", &[(0, 6)], ()),
    Column::right("range", &[(0, 13)], ()),
];

fn lines_for(width: usize) -> Lines {
    let line = width.clamp(NARROWEST, WIDEST);
    Lines::new(line, if line < 80 { 1 } else { 2 }, &COLUMNS)
}

/// The names of the columns.
pub fn header(width: usize) -> String {
    lines_for(width).header()
}

/// The line of a peer above its rows; how to install it if it is missing.
pub fn peer(row: &CrossRow) -> String {
    let name = paint(STRONG, &clean(&row.peer));
    match (row.outcome, &row.version) {
        (CrossOutcome::Missing, _) => {
            let package = clean(&row.package);
            format!("{name} is not installed: sudo apt-get install {package}\n")
        }
        (_, Some(version)) => format!("{name} {}\n", clean(version)),
        _ => format!("{name}, version unknown\n"),
    }
}

/// A row and how the peer's work differs; with `verbose`, the commands and every turn. Empty for a
/// missing peer.
pub fn row(row: &CrossRow, width: usize, verbose: bool) -> String {
    if row.outcome == CrossOutcome::Missing {
        return String::new();
    }
    let columns = lines_for(width);
    let mut text = figures(row, &columns);
    if row.outcome != CrossOutcome::Compared {
        let word = match row.outcome {
            CrossOutcome::Interrupted => "interrupted",
            _ => "failed",
        };
        let reason = row.reason.as_deref().map(|why| format!(": {}", clean(why)));
        let reason = format!("{word}{}", reason.unwrap_or_default());
        let style = if word == "failed" { BAD } else { CARE };
        text += &paint_lines(style, &wrapped(&reason, columns.line, "    ", "    "));
    }
    for caution in cautions(row) {
        text += &paint_lines(CARE, &wrapped(&clean(&caution), columns.line, "    ", "      "));
    }
    let mut notes = vec![format!("{}, {}: {}", row.work, on(&row.cpus), row.difference)];
    let detail = row.turns.last().map(|turn| turn.detail.as_str()).filter(|it| !it.is_empty());
    notes.extend(detail.map(|detail| format!("last turn: {detail}")));
    for note in notes {
        text += &paint_lines(FAINT, &wrapped(&clean(&note), columns.line, "    ", "      "));
    }
    if verbose {
        text += &commands(row, &columns);
    }
    text
}

/// Warnings about a row.
fn cautions(row: &CrossRow) -> Vec<String> {
    let mut cautions: Vec<String> = row.inconclusive.iter().cloned().collect();
    if let Some(first) = row.noisy().next() {
        let cause = first.our_reason.as_ref().map(|reason| format!(": {}", reason.text));
        let (noisy, all) = (row.noisy().count(), row.turns.len());
        let cause = cause.unwrap_or_default();
        cautions.push(format!("{NOISY} fathom noisy in {noisy} of {all} turns{cause}"));
    }
    let Some(rate) = peer_preempted_hz(row).filter(|rate| *rate > BUSY_HZ) else {
        return cautions;
    };
    let lost = match peer_lost_share(row) {
        Some(share) => {
            format!("other processes used {:.0} % of the peer's CPU time", 100.0 * share)
        }
        None => format!("the peer was preempted {rate:.0} times per second"),
    };
    let effect = match row.statistic {
        PeerStatistic::Mean => "its mean includes the lost time",
        PeerStatistic::Median => "its median is affected only if most values lost time",
        PeerStatistic::Slope => "its slope is affected if some starts lost more time than others",
    };
    cautions.push(format!("busy CPU: {lost}; {effect}; measure on a quieter machine"));
    cautions
}

fn figures(row: &CrossRow, columns: &Lines) -> String {
    let name = format!("  {}", clean(&named(&row.metric, &row.params)));
    let [above, name] = columns.name(name, ["  ", "    "]);
    // Also for pairs that disagree: the range is by how much.
    let Some(range) = pair_ratio(&row.turns) else {
        return if above.is_empty() { name + "\n" } else { above };
    };
    let value = |value: Option<f64>, width: usize| {
        value.map_or(NOTHING.to_owned(), |it| quantity_within(it, row.unit, width))
    };
    let mark = mark(false, row.noisy().next().is_some());
    let ours = mark.to_owned() + &value(row.ours, columns.width(1) - mark.len());
    let theirs = value(row.theirs, columns.width(1));
    let range = format!("{}–{}", short(range.low), short(range.high));
    let ratio = row.ratio.map_or(NOTHING.to_owned(), |ratio| short(ratio.median));
    above + &columns.line([name, ours, theirs, ratio, range].map(|text| (text, PLAIN)))
}

fn commands(row: &CrossRow, columns: &Lines) -> String {
    let mut text = String::new();
    let mut printed: Vec<&String> = Vec::new();
    for command in std::iter::once(&row.our_command).chain(&row.peer_commands) {
        if printed.contains(&command) {
            continue;
        }
        printed.push(command);
        let times = match row.peer_commands.iter().filter(|other| *other == command).count() {
            0 | 1 => String::new(),
            times => format!("  # {times} times"),
        };
        // Not wrapped, so that it can be copied.
        text += &paint_lines(FAINT, &format!("    $ {}{times}\n", clean(command)));
    }
    for (at, turn) in row.turns.iter().enumerate() {
        let noisy = state_mark(turn.our_state);
        let [ours, theirs] = [turn.ours, turn.theirs].map(|it| glued(&quantity(it, row.unit)));
        let order = if at % 2 == 0 { "A B" } else { "B A" };
        let mut line = format!("{order}: {noisy}{ours}, {theirs}, ratio {}", short(turn.ratio));
        if !turn.detail.is_empty() {
            line += &format!(" ({})", turn.detail);
        }
        text += &paint_lines(FAINT, &wrapped(&clean(&line), columns.line, "    ", "      "));
    }
    text
}

fn on(cpus: &[u32]) -> String {
    let list: Vec<String> = cpus.iter().map(u32::to_string).collect();
    match list.as_slice() {
        [one] => glued(&format!("on CPU {one}")),
        _ => glued(&format!("on CPUs {}", list.join(", "))),
    }
}

/// The meaning of the columns, and the number of rows by outcome.
pub fn foot(crosscheck: &Crosscheck, width: usize) -> String {
    let line = lines_for(width).line;
    let of = |outcome| crosscheck.rows.iter().filter(|row| row.outcome == outcome).count();
    let mut counts = vec![match of(CrossOutcome::Compared) {
        0 => "Nothing was compared".to_owned(),
        count => counted(count, "row") + " compared",
    }];
    let inconclusive = crosscheck.rows.iter().filter(|row| row.inconclusive.is_some()).count();
    let others = [
        (inconclusive, "inconclusive"),
        (of(CrossOutcome::Failed), "failed"),
        (of(CrossOutcome::Missing), "not installed"),
        (of(CrossOutcome::Interrupted), "interrupted"),
    ];
    let others = others.into_iter();
    counts.extend(others.filter(|(count, _)| *count > 0).map(|(n, word)| format!("{n} {word}")));
    let ratios = crosscheck.rows.iter().filter_map(|row| pair_ratio(&row.turns));
    let mut text = String::new();
    if let Some(most) = ratios.max_by_key(|ratio| ratio.pairs) {
        text += &paint_lines(FAINT, &wrapped(&meaning(&most), line, "", "  "));
    }
    text + &wrapped(&format!("{}.", counts.join(", ")), line, "", "")
}

fn meaning(ratio: &PairRatio) -> String {
    let range = match (ratio.level, ratio.pairs) {
        (Some(level), pairs) => {
            let level = format!("{:.1} %", 100.0 * level);
            format!("the {} confidence interval over {pairs} pairs", glued(&level))
        }
        (None, 1) => "the only pair".to_owned(),
        (None, pairs) => format!("{pairs} pairs, too few for a confidence interval"),
    };
    format!(
        "ratio: fathom ÷ peer, the median on logarithms over alternating pairs (A B, B A …); \
         range: {range}; the note under each row lists differences in the work, which can move \
         the ratio away from 1"
    )
}
