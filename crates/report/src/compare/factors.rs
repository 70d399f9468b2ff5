//! What moved together: a line for each class, and the recorded differences that can have moved it
//! with the commands that test them.

use fathom_analysis::compare::Factor;
use fathom_analysis::suspects::{Suspect, Toggle};
use fathom_record::quantity::percent;
use fathom_record::shell_word;

use super::limits;
use crate::column::{Column, Lines};
use crate::distinct::grouped;
use crate::paint::{BAD, FAINT, GOOD, PLAIN, paint_lines};
use crate::wrap::{clean, cut, wrapped};

/// Lines of classes, and of these with their suspects.
const CLASSES: usize = 5;
const LINES: usize = 8;

static COLUMNS: [Column<()>; 4] = [
    Column::left("moved together", &[], ()),
    Column::right("agree", &[(0, 6)], ()),
    Column::right("95 % interval", &[(0, 15)], ()),
    Column::left("change", &[(0, 14)], ()),
];

/// The classes that moved, the most first; all classes if `all`.
pub(super) fn lines(factors: &[Factor], all: bool, width: usize) -> String {
    let moved = factors.iter().filter(|it| all || it.moved).collect::<Vec<&Factor>>();
    if moved.is_empty() {
        return String::new();
    }
    let columns = Lines::new(width, 1, &COLUMNS);
    let mut text = "\n".to_owned() + &columns.header();
    let shown = if all { moved.len() } else { moved.len().min(CLASSES) };
    for factor in &moved[..shown] {
        let name = cut(&format!("{}{}", factor.class, coincidence(factor)), columns.width(0));
        let agree = format!("{}/{}", factor.agree, factor.members.len());
        let style = match factor.moved {
            true if factor.with_core => FAINT,
            true if factor.slower > 1.0 => BAD,
            true => GOOD,
            false => PLAIN,
        };
        let [interval, change] = [limits(Some(factor.interval)), change(factor)];
        let cells = [(&*name, PLAIN), (&agree, PLAIN), (&interval, PLAIN), (&change, style)];
        text += &columns.line(cells);
    }
    let mut more = suspects(factors, width);
    if shown < moved.len() {
        more.insert(0, format!("{} more classes (`--all`)\n", moved.len() - shown));
    }
    text + &in_room(more, if all { usize::MAX } else { LINES - shown })
}

fn in_room(mut lines: Vec<String>, room: usize) -> String {
    if lines.len() > room {
        let rest = lines.len() + 1 - room;
        lines.truncate(room - 1);
        lines.push(format!("  {rest} more (`--all`)\n"));
    }
    paint_lines(FAINT, &lines.concat())
}

/// `1.9 % slower`: of times; rates fell accordingly.
pub(super) fn change(factor: &Factor) -> String {
    let slower = factor.slower;
    match factor.moved {
        true if slower > 1.0 => format!("{} slower", percent(slower - 1.0)),
        true => format!("{} faster", percent(1.0 - slower)),
        false => match factor.unchanged_within {
            Some(margin) => format!("unchanged ±{:.0} %", 100.0 * margin),
            None => "inconclusive".to_owned(),
        },
    }
}

/// What was recorded to differ in the processes of these cases.
fn coincidence(factor: &Factor) -> String {
    let what = if factor.with_core { "with the core," } else { "reference loop" };
    let core = factor.core.map(|times| match times {
        times if times > 1.0 => format!("{what} {} slower", percent(times - 1.0)),
        times => format!("{what} {} faster", percent(1.0 - times)),
    });
    let apart = factor.distances.map(|[a, b]| format!("CPUs {a:.0} → {b:.0} ns apart"));
    let all: Vec<String> = core.into_iter().chain(apart).collect();
    if all.is_empty() { String::new() } else { format!(" ({})", all.join(", ")) }
}

/// Where no class moved: the suspects of cases that differ.
pub(super) fn suspects_of_cases(factors: &[Factor], all: bool, width: usize) -> String {
    match factors.iter().any(|it| it.moved) {
        true => String::new(),
        false => in_room(suspects(factors, width), if all { usize::MAX } else { LINES }),
    }
}

/// Each recorded difference that can have moved a class, or cases of it, with its test.
fn suspects(factors: &[Factor], width: usize) -> Vec<String> {
    let all = factors.iter().flat_map(|it| it.suspects.iter().map(|suspect| (suspect, it.class)));
    let all = grouped(all);
    let line = |(suspect, classes): &(&Suspect, Vec<&str>)| {
        let Suspect { what, toggle, .. } = *suspect;
        let of = if classes.len() > 2 { "most".to_owned() } else { classes.join(", ") };
        let test = toggle.as_ref().map_or_else(|| "cannot be set".to_owned(), test);
        wrapped(&format!("{} ({of}): {test}", clean(what)), width, "  ", "    ")
    };
    let head = match all.len() {
        0 => return Vec::new(),
        1 => "Suspect, as it changed, too; its test:",
        _ => "Suspects, as they changed, too; together they cannot be told apart; test each:",
    };
    let lines = all.iter().map(line).collect::<String>();
    let lines = wrapped(head, width, "", "  ") + &lines;
    lines.lines().map(|line| format!("{line}\n")).collect()
}

/// The command that sets a fact as it was in A.
fn test(toggle: &Toggle) -> String {
    match toggle {
        Toggle::File { path, value } if path.contains('*') => {
            format!("echo {} | tee {path}", shell_word(value))
        }
        Toggle::File { path, value } => format!("echo {} > {path}", shell_word(value)),
        Toggle::Sysctl { name, value } => format!("sysctl -w {name}={}", shell_word(value)),
        Toggle::Kernel { release } => format!("boot {release}"),
        Toggle::Parameters { line } => format!("boot with {line}"),
        Toggle::Variables { set } if set == "none" => "unset it".to_owned(),
        Toggle::Variables { set } => format!("export {set}"),
        Toggle::Version { name } => format!("measure both with {name}"),
        Toggle::Folder { path } => format!("--folder {}", shell_word(path)),
        Toggle::Cpu { cpu } => format!("measure both with --cpu {cpu}"),
    }
}
