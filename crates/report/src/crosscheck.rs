//! A crosscheck for the terminal: header, rows by peer as they complete, and a foot.

use fathom_analysis::crosscheck::{pair_ratio, peer_lost_share, peer_preempted_hz};
use fathom_record::quantity::{NOTHING, quantity, quantity_within, short};
use fathom_record::{CrossOutcome, CrossRow, Crosscheck, PairRatio, PeerStatistic, State};

use crate::case::{counted, named};
use crate::grid::Grid;
use crate::paint::{BAD, CARE, FAINT, PLAIN, STRONG, paint, paint_lines};
use crate::wrap::{NARROWEST, clean, glued, width_of, wrapped};

/// A wider line only moves the values away from their names.
const WIDEST: usize = 120;

/// A program alone on its CPU is preempted less often, by kernel threads only.
const BUSY_HZ: f64 = 40.0;

struct Columns {
    line: usize,
    grid: Grid<5>,
}

impl Columns {
    fn of(width: usize) -> Self {
        let line = width.clamp(NARROWEST, WIDEST);
        let (gap, value) = if line < 80 { (1, 10) } else { (2, 12) };
        let widths = [None, Some(value), Some(value), Some(6), Some(13)];
        Self { line, grid: Grid::new(line, gap, 0, &[0], widths) }
    }
}

/// The names of the columns.
pub fn header(width: usize) -> String {
    Columns::of(width).grid.line(["metric", "fathom", "peer", "ratio", "range"], [STRONG; 5])
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
    let columns = Columns::of(width);
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
        cautions.push(format!("~ fathom noisy in {noisy} of {all} turns{cause}"));
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

fn figures(row: &CrossRow, columns: &Columns) -> String {
    let mut name = clean(&named(&row.metric, &row.params));
    let mut text = String::new();
    if width_of(&name) + 2 > columns.grid.width(0) {
        text = wrapped(&name, columns.line, "  ", "    ");
        name = String::new();
    }
    // Also for pairs that disagree: the range is by how much.
    let Some(range) = pair_ratio(&row.turns) else {
        return if text.is_empty() { format!("  {name}\n") } else { text };
    };
    let value = |value: Option<f64>, width: usize| {
        value.map_or(NOTHING.to_owned(), |it| quantity_within(it, row.unit, width))
    };
    let mark = if row.noisy().next().is_some() { "~" } else { "" };
    let ours = mark.to_owned() + &value(row.ours, columns.grid.width(1) - mark.len());
    let theirs = value(row.theirs, columns.grid.width(1));
    let range = format!("{}–{}", short(range.low), short(range.high));
    let ratio = row.ratio.map_or(NOTHING.to_owned(), |ratio| short(ratio.median));
    let name = format!("  {name}");
    text + &columns.grid.line([&name, &ours, &theirs, &ratio, &range], [PLAIN; 5])
}

fn commands(row: &CrossRow, columns: &Columns) -> String {
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
        let noisy = if turn.our_state == State::Noisy { "~" } else { "" };
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
    let line = Columns::of(width).line;
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

#[cfg(test)]
mod tests {
    use fathom_record::{Cause, MetricId, Params, Turn, Unit, Verdict};

    use super::*;

    fn compared(pairs: usize) -> CrossRow {
        let metric = MetricId::new("file.read.throughput");
        let params = Params::one("block", 1 << 20).and("state", "warm").and("threads", 1);
        let mut row = CrossRow {
            peer: "dd".to_owned(),
            package: "coreutils".to_owned(),
            version: Some("9.1".to_owned()),
            work: "if=FILE of=/dev/null".to_owned(),
            difference: "dd only copies the data, fathom sums it".to_owned(),
            cpus: vec![1],
            our_command: "fathom run 'file.read.throughput{block=1048576}'".to_owned(),
            peer_commands: vec!["taskset -c 1 dd if=data of=/dev/null bs=1M".to_owned(); 2],
            ..CrossRow::of(metric, params, Unit::BytesPerSecond, PeerStatistic::Slope)
        };
        for at in 0..pairs {
            fathom_analysis::crosscheck::add(
                &mut row,
                Turn::new(1.5e10, 1.2e10 + 1e9 * at as f64, "by the slope".to_owned()),
            );
        }
        row
    }

    fn plain(text: &str) -> String {
        let mut shown = text.to_owned();
        while let Some(at) = shown.find('\u{1b}') {
            let end = shown[at..].find('m').expect("a code ends") + at;
            shown.replace_range(at..=end, "");
        }
        shown.replace('\u{a0}', " ")
    }

    #[test]
    fn row_fits_every_width_with_its_difference() {
        for width in [60, 80, 110, 140] {
            let text = plain(&(header(width) + &row(&compared(4), width, false)));
            let widest = text.lines().map(width_of).max().unwrap_or(0);
            assert!(widest <= width, "{widest} at {width}:\n{text}");
            let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
            for part in ["1.112", "1.000–1.250", "on CPU 1: dd only copies", "by the slope"] {
                assert!(words.contains(part), "`{part}` at {width}:\n{text}");
            }
        }
    }

    #[test]
    fn each_command_is_one_whole_line() {
        let text = plain(&row(&compared(2), 60, true));
        for command in ["    $ fathom run 'file.read", "    $ taskset -c 1 dd if=data of=/dev/null"]
        {
            assert!(text.lines().any(|line| line.starts_with(command)), "{text}");
        }
        assert_eq!(text.matches("bs=1M  # 2 times\n").count(), 1, "{text}");
        let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
        for turn in ["A B: 13.97 GiB/s, 11.18 GiB/s, ratio 1.250 (by the slope)", " B A: 13.97"] {
            assert!(words.contains(turn), "{turn}: {text}");
        }
    }

    #[test]
    fn busy_peer_has_a_caution_for_its_statistic() {
        let mut busy = compared(3);
        assert!(!plain(&row(&busy, 80, false)).contains("busy"));
        // One turn in three is an accident.
        busy.turns.iter_mut().for_each(|turn| turn.peer_preempted_hz = Some(3.0));
        busy.turns[0].peer_preempted_hz = Some(250.0);
        assert!(!plain(&row(&busy, 80, false)).contains("busy"));
        busy.turns[2].peer_preempted_hz = Some(240.0);
        let text = |busy: &CrossRow| {
            let text = plain(&row(busy, 80, false));
            text.split_whitespace().collect::<Vec<_>>().join(" ")
        };
        assert!(text(&busy).contains("preempted 240 times per second"), "{}", text(&busy));
        busy.turns.iter_mut().for_each(|turn| turn.peer_lost_share = Some(0.23));
        let share = "busy CPU: other processes used 23 % of the peer's CPU time; ";
        for (statistic, effect) in [
            (PeerStatistic::Mean, "its mean includes"),
            (PeerStatistic::Median, "its median is affected only if"),
            (PeerStatistic::Slope, "its slope is affected if"),
        ] {
            busy.statistic = statistic;
            let text = text(&busy);
            assert!(text.contains(&format!("{share}{effect}")), "{text}");
        }
    }

    #[test]
    fn noisy_or_inconclusive_row_has_a_caution() {
        let fine = plain(&row(&compared(5), 80, true));
        assert!(!fine.contains('~') && !fine.contains("inconclusive"), "{fine}");
        let mut noisy = compared(5);
        let cause = "another process ran 30 % of the time";
        let verdict = Verdict::because(State::Noisy, Cause::Contention, cause);
        noisy.turns[3] = noisy.turns[3].clone().judged(&verdict);
        let text = plain(&row(&noisy, 80, true));
        assert!(text.contains("~13.97 GiB/s") || text.contains("~ 13.97 GiB/s"), "{text}");
        let caution = format!("~ fathom noisy in 1 of 5 turns: {cause}");
        assert!(text.lines().any(|line| line.trim() == caution), "{text}");
        assert_eq!(text.matches("B A: ~").count(), 1, "{text}");

        let mut apart = compared(3);
        fathom_analysis::crosscheck::add(&mut apart, Turn::new(4e10, 1e10, String::new()));
        let text = plain(&row(&apart, 80, false));
        assert!(text.contains("inconclusive: pairs disagree by 3.73 ×"), "{text}");
        let ratio = short(pair_ratio(&apart.turns).expect("pairs").median);
        assert!(!text.contains(&ratio) && text.contains("1.071–4.000"), "{text}");
    }

    #[test]
    fn foot_counts_rows_by_outcome() {
        let mut missing = compared(0);
        missing.outcome = CrossOutcome::Missing;
        let text = plain(&foot(&crosscheck_of(vec![missing]), 80));
        assert_eq!(text, "Nothing was compared, 1 not installed.\n");
        let mut apart = compared(1);
        fathom_analysis::crosscheck::add(&mut apart, Turn::new(4e10, 1e10, String::new()));
        let text = plain(&foot(&crosscheck_of(vec![apart, compared(5)]), 80));
        assert!(text.ends_with("2 rows compared, 1 inconclusive.\n"), "{text}");
    }

    #[test]
    fn failed_row_has_a_reason_and_missing_peer_a_package() {
        let mut failed = compared(0);
        failed.outcome = CrossOutcome::Failed;
        failed.reason =
            Some("no `copied` in its output, which begins: \u{1b}[31mrubbish".to_owned());
        let text = plain(&row(&failed, 80, false));
        assert!(text.contains("failed: no `copied` in its output"), "{text}");
        assert!(!text.contains('\u{1b}'), "escape codes of other programs are removed");
        let mut missing = compared(0);
        missing.outcome = CrossOutcome::Missing;
        assert_eq!(row(&missing, 80, true), "");
        let line = plain(&peer(&missing));
        assert_eq!(line, "dd is not installed: sudo apt-get install coreutils\n");
    }

    fn crosscheck_of(rows: Vec<CrossRow>) -> Crosscheck {
        Crosscheck {
            schema: fathom_record::crosscheck::CROSSCHECK_SCHEMA_VERSION,
            tool: fathom_record::Tool { name: "fathom".to_owned(), version: "0".to_owned() },
            started: String::new(),
            host: fathom_record::Host::default(),
            cpu: 1,
            pairs: 5,
            interrupted: false,
            rows,
        }
    }

    #[test]
    fn foot_names_an_interval_only_if_there_is_one() {
        let text = |pairs| {
            let text = plain(&foot(&crosscheck_of(vec![compared(pairs)]), 80));
            text.split_whitespace().collect::<Vec<_>>().join(" ")
        };
        assert!(text(4).contains("range: 4 pairs, too few for a confidence"), "{}", text(4));
        assert!(text(1).contains("range: the only pair"), "{}", text(1));
        assert!(text(5).contains("93.8 % confidence interval over 5 pairs"), "{}", text(5));
        assert!(text(5).ends_with("1 row compared."), "{}", text(5));
    }
}
