//! Two to four hosts side by side: the best-known numbers, and which host has the best.

use fathom_analysis::side_by_side::{SideBySide, SideHost, SideNumber, SideRow};
use fathom_record::quantity::{percent, quantity, quantity_within};
use fathom_record::{Document, Position, State, Unit};

use crate::case::{counted, named};
use crate::core_state::busy;
use crate::layout::Layout;
use crate::opening::labelled;
use crate::overview::labelled_cases;
use crate::paint::{CARE, FAINT, GOOD, PLAIN, STRONG, paint, paint_lines};
use crate::shown::{nothing, state_mark};
use crate::wrap::{NARROWEST, cut, glued, width_of, wrapped};

const WIDEST: usize = 140;
const NAME: usize = 29;
const VALUE_MAX: usize = 20;
/// A host is the best if it has the best of a quarter of the numbers, and twice as many as others.
const BEST_MIN: usize = 4;

/// A row of the overview with its case on each host.
struct NamedSideRow<'r> {
    name: String,
    row: &'r SideRow,
}

/// Which host has how many of the best numbers; the hosts; their numbers, each with its place among
/// published machines if that is outside their range.
pub fn render(sides: &SideBySide, runs: &[&Document], layout: &Layout) -> String {
    let line = layout.width.clamp(NARROWEST, WIDEST);
    let mut rows = rows(sides, runs);
    let mut text = wrapped(&conclusion(sides, &rows), line, "", "  ");
    for (host, run) in sides.hosts.iter().zip(runs) {
        let is_busy = busy(run).is_some();
        text += &labelled(&cut(&host.host, 8), &host_words(host, is_busy), line);
    }
    text.push('\n');
    let room = (line - NAME) / sides.hosts.len().max(1) - 1;
    let width = room.min(VALUE_MAX);
    let cells = |name: &str, cells: Vec<(String, anstyle::Style)>| {
        let cell = |(text, style): (String, anstyle::Style)| {
            let text = cut(&text, width);
            let blanks = " ".repeat(width - width_of(&text) + 1);
            blanks + &paint(style, &text)
        };
        // A name that has no room stands above its numbers.
        let (above, name) = match width_of(name) > NAME {
            true => (format!("{name}\n"), ""),
            false => (String::new(), name),
        };
        let blanks = " ".repeat(NAME - width_of(name));
        let cells: String = cells.into_iter().map(cell).collect();
        above + format!("{name}{blanks}{cells}").trim_end() + "\n"
    };
    text += &cells("", sides.hosts.iter().map(|it| (it.host.clone(), STRONG)).collect());
    if layout.all {
        let known = rows.len();
        for row in &sides.rows {
            if rows[..known].iter().all(|known| !std::ptr::eq(known.row, row)) {
                rows.push(NamedSideRow { name: named(&row.metric, &row.params), row });
            }
        }
    }
    for NamedSideRow { name, row } in &rows {
        let numbers = (0..).zip(&row.numbers);
        let cell = |(at, number)| value(row, at, number, width);
        text += &cells(name, numbers.map(cell).collect());
    }
    let notes = "*: best, its interval apart from all others; +/-: better or worse than typical \
                 of its kind (`fathom compare --typical RUN`); ~: noisy";
    text + &paint_lines(FAINT, &wrapped(notes, line, "", "  "))
}

/// The rows of the overview that at least two hosts have.
fn rows<'r>(sides: &'r SideBySide, runs: &[&Document]) -> Vec<NamedSideRow<'r>> {
    let mut rows: Vec<NamedSideRow<'r>> = Vec::new();
    for run in runs {
        for (group, label, record) in labelled_cases(&run.records) {
            let of = |row: &&SideRow| {
                record.is_some_and(|it| (&it.metric, &it.params) == (&row.metric, &row.params))
            };
            let Some(row) = sides.rows.iter().find(of) else { continue };
            // Runs of other efforts may have other cases of one name: the one that most have.
            let judged = |row: &SideRow| {
                row.numbers.iter().flatten().filter(|it| it.not_judged.is_none()).count()
            };
            let name = format!("{group:<6} {label}");
            match rows.iter_mut().find(|known| known.name == name) {
                Some(known) if judged(row) > judged(known.row) => known.row = row,
                Some(_) => {}
                None => rows.push(NamedSideRow { name, row }),
            }
        }
    }
    rows
}

/// `vm2 is the best of 3: vm2 leads in 12, vm1 leads in 3, 10 of 25 numbers undecided.`
fn conclusion(sides: &SideBySide, rows: &[NamedSideRow<'_>]) -> String {
    if rows.is_empty() {
        return "These runs have no number in common.".to_owned();
    }
    let count = |at: usize| rows.iter().filter(|it| it.row.best == Some(at)).count();
    let mut wins: Vec<(usize, &SideHost)> =
        sides.hosts.iter().enumerate().map(|(at, host)| (count(at), host)).collect();
    wins.sort_by_key(|(count, _)| std::cmp::Reverse(*count));
    let (all, open) = (rows.len(), rows.iter().filter(|it| it.row.best.is_none()).count());
    let (first, second) = (wins[0].0, wins.get(1).map_or(0, |it| it.0));
    let start = match BEST_MIN * first >= all && first >= 2 * second {
        true => format!("{} is the best of {}", wins[0].1.host, wins.len()),
        false => format!("None of {} is clearly the best", wins.len()),
    };
    let won = wins.iter().filter(|(count, _)| *count > 0);
    let won: Vec<String> =
        won.map(|(count, host)| format!("{} leads in {count}", host.host)).collect();
    let open = format!("{open} of {} undecided", counted(all, "number"));
    let all = [won, vec![open]].concat();
    format!("{start}: {}.", all.join(", "))
}

fn host_words(host: &SideHost, is_busy: bool) -> String {
    let mut parts = vec![host.cpu.clone(), counted(host.cpus as usize, "CPU")];
    parts.extend(host.memory_bytes.map(|it| quantity(it as f64, Unit::Bytes)));
    parts.extend(match host.undisturbed {
        _ if is_busy => Some("busy".to_owned()),
        share => share.map(|share| format!("core to itself {}", percent(share))),
    });
    parts.push(format!("run {}", host.run));
    parts.iter().map(|part| glued(part)).collect::<Vec<String>>().join(", ")
}

fn value(
    row: &SideRow,
    at: usize,
    number: &Option<SideNumber>,
    width: usize,
) -> (String, anstyle::Style) {
    let Some(number) = number else { return (nothing(), FAINT) };
    let is_best = row.best == Some(at);
    let place = match number.typical.as_ref().map(|it| it.position) {
        Some(Position::Better) => "+",
        Some(Position::Worse) => "-",
        _ => "",
    };
    let mark = state_mark(number.state);
    let best = if is_best { "*" } else { "" };
    let room = width.saturating_sub(3);
    let text = format!("{mark}{}{place}{best}", quantity_within(number.value, row.unit, room));
    let style = match number.state {
        State::Noisy => CARE,
        _ if is_best => GOOD,
        _ => PLAIN,
    };
    (text, style)
}
