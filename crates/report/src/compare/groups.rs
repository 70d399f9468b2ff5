//! Of two groups of hosts: which hosts are in both, and which changed most.

use fathom_analysis::fleet::names::fold;
use fathom_analysis::fleet::{GroupComparison, HostChange};
use fathom_record::quantity::{NOTHING, signed_percent};

use super::{change_words, style};
use crate::case::{counted, subject};
use crate::column::{Column, Lines};
use crate::opening::labelled;
use crate::paint::{FAINT, PLAIN, STRONG, paint_lines};
use crate::wrap::{cut, wrapped};

/// Unless all are asked for, so many hosts are listed, and so many cases of each.
const HOSTS: usize = 8;
const CASES: usize = 1;
/// Lines of a list of names.
const LINES: usize = 2;

static COLUMNS: [Column<()>; 3] = [
    Column::left("Hosts that changed most", &[], ()),
    Column::right("cases", &[(0, 9)], ()),
    Column::left("change", &[(0, 19)], ()),
];

/// The hosts that are in both, and in one only.
pub(super) fn in_both(groups: &GroupComparison, width: usize) -> String {
    let all: [(&str, Vec<&str>); 3] = [
        ("in both", groups.hosts.iter().map(|it| it.host.as_str()).collect()),
        ("only A", groups.only_a.iter().map(String::as_str).collect()),
        ("only B", groups.only_b.iter().map(String::as_str).collect()),
    ];
    let line = |(label, hosts): &(&str, Vec<&str>)| match hosts.len() {
        0 if *label != "in both" => String::new(),
        0 => labelled(label, "no host: the medians of the groups are compared", width),
        count => {
            let names = format!("{count}: {}", fold(hosts.iter().copied()));
            labelled(label, &cut(&names, LINES * width), width)
        }
    };
    all.iter().map(line).collect()
}

/// Hosts that changed beyond their own uncertainty, the most first.
pub(super) fn changed(groups: &GroupComparison, all: bool, width: usize) -> String {
    if groups.hosts.is_empty() {
        return String::new();
    }
    let (changed, others): (Vec<&HostChange>, Vec<&HostChange>) =
        groups.hosts.iter().partition(|host| !host.changed.is_empty());
    let lines = Lines::new(width, 1, &COLUMNS);
    let mut text = "\n".to_owned() + &lines.header();
    let shown = if all { changed.len() } else { changed.len().min(HOSTS) };
    for host in &changed[..shown] {
        let count = format!("{}/{}", host.changed.len(), host.cases);
        text += &lines.line([(&*host.host, STRONG), (&count, PLAIN)]);
        let cases = if all { host.changed.len() } else { host.changed.len().min(CASES) };
        for case in &host.changed[..cases] {
            let name = format!("  {}", subject(&case.subject));
            let [above, name] = lines.name(name, ["  ", "    "]);
            let change = change_words(case.word, Some(case.ratio), "");
            let cells = [(&*name, PLAIN), ("", PLAIN), (&change, style(case.word))];
            text += &(above + &lines.line(cells));
        }
    }
    let mut rest = Vec::new();
    if shown < changed.len() {
        rest.push(format!("{} more (`--all`)", counted(changed.len() - shown, "host")));
    }
    if !others.is_empty() {
        let slower: Vec<f64> = others.iter().filter_map(|host| host.slower).collect();
        let ends = [slower.iter().copied().reduce(f64::min), slower.into_iter().reduce(f64::max)];
        let [low, high] = ends.map(|end| end.map_or_else(|| NOTHING.to_owned(), signed_percent));
        rest.push(format!(
            "{} without a change beyond its own uncertainty: time of all cases together {low} to \
             {high}",
            counted(others.len(), "host")
        ));
    }
    text + &paint_lines(FAINT, &wrapped(&rest.join("; "), width, "  ", "    ")) + "\n"
}

pub(super) fn foot(groups: &GroupComparison, width: usize) -> String {
    let over = match groups.hosts.is_empty() {
        true => "of the medians over hosts; interval: bootstrap over hosts",
        false => "the median over hosts of the change of each, with its exact interval",
    };
    wrapped(&format!("change: {over}; valid numbers only"), width, "", "  ")
}
