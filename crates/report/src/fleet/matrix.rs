//! Numbers between hosts: each of few hosts, the best and the worst of many.

use anstyle::Style;
use fathom_analysis::fleet::Matrix;
use fathom_record::quantity::{NOTHING, quantity, quantity_within};

use crate::case::counted;
use crate::paint::{BAD, FAINT, PLAIN, paint};
use crate::wrap::{clean, glued, width_of, wrapped};

const CELL: usize = 10;
/// Above the names of those that send.
const CORNER: &str = "from";
const INDENT: usize = 2;

/// The usual number, the best, the median and the worst; then the matrix, if it fits the line.
pub(super) fn numbers(matrix: &Matrix, line: usize) -> String {
    let usual = matrix.pairs.usual.map(|usual| format!("usual {}", amount(matrix, usual)));
    let mut parts = vec![counted(matrix.pairs.links, "link")];
    parts.extend(usual);
    parts.extend(extremes(matrix));
    let of = matrix.not_valid + matrix.numbers.len();
    let mut count = |count: usize, what: &str| {
        parts.extend((count > 0).then(|| format!("{count} of {of} numbers {what}")));
    };
    count(matrix.noisy, "noisy, judged by their intervals");
    count(matrix.not_valid, "missing");
    let words = parts.join(", ");
    wrapped(&words, line, "  ", "    ") + &table(matrix, line)
}

fn amount(matrix: &Matrix, value: f64) -> String {
    glued(&quantity(value, matrix.unit))
}

/// `best 90 µs (a to b)`, `median 92 µs`, `worst 1.2 ms (c to d)`.
fn extremes(matrix: &Matrix) -> Vec<String> {
    let mut numbers: Vec<&(usize, usize, f64)> = matrix.numbers.iter().collect();
    numbers.sort_by(|a, b| a.2.total_cmp(&b.2));
    let (Some(low), Some(high)) = (numbers.first(), numbers.last()) else { return Vec::new() };
    let is_low_best = matrix.better.improves(false) == Some(true);
    let [best, worst] = if is_low_best { [low, high] } else { [high, low] };
    let one = |what: &str, (from, to, value): &(usize, usize, f64)| {
        let [from, to] = [from, to].map(|at| clean(&matrix.hosts[*at]));
        format!("{what} {} ({from} to {to})", amount(matrix, *value))
    };
    let (_, _, median) = numbers[numbers.len() / 2];
    [one("best", best), format!("median {}", amount(matrix, *median)), one("worst", worst)].into()
}

/// A line for each host that sends, a column for each that receives.
fn table(matrix: &Matrix, line: usize) -> String {
    let hosts: Vec<String> = matrix.hosts.iter().map(|host| clean(host)).collect();
    let widths = hosts.iter().map(|host| width_of(host));
    let name = widths.max().unwrap_or(0).max(width_of(CORNER));
    let cell = name.max(CELL);
    if INDENT + name + hosts.len() * (cell + 1) > line || matrix.numbers.is_empty() {
        return String::new();
    }
    let padded = |text: &str, style: Style| {
        format!(" {}{}", " ".repeat(cell - width_of(text)), paint(style, text))
    };
    let heads = hosts.iter().map(|host| padded(host, FAINT));
    let blanks = " ".repeat(name - width_of(CORNER));
    let heads = paint(FAINT, CORNER) + &blanks + &heads.collect::<String>();
    let mut text = format!("  {heads}\n");
    for (from, host) in hosts.iter().enumerate() {
        let of = |to: usize| {
            let found = matrix.numbers.iter().find(|it| (it.0, it.1) == (from, to));
            let value = found.map(|it| quantity_within(it.2, matrix.unit, CELL));
            let style = if is_bad(matrix, from, to) { BAD } else { PLAIN };
            let none = if from == to { "" } else { NOTHING };
            padded(value.as_deref().unwrap_or(none), style)
        };
        let cells: String = (0..hosts.len()).map(of).collect();
        let gap = " ".repeat(name - width_of(host));
        text += &format!("  {}{gap}{}\n", paint(FAINT, host), cells.trim_end());
    }
    text
}

fn is_bad(matrix: &Matrix, from: usize, to: usize) -> bool {
    let pairs = &matrix.pairs;
    let sends = pairs.bad_hosts.iter().any(|it| it.host == from && it.sends.is_some());
    let receives = pairs.bad_hosts.iter().any(|it| it.host == to && it.receives.is_some());
    let mut links = pairs.bad_links.iter();
    let is_link = links.any(|it| match it.hosts {
        [a, b] if [a, b] == [from, to] => it.there.is_some(),
        [a, b] => [b, a] == [from, to] && it.back.is_some(),
    });
    sends || receives || is_link
}
