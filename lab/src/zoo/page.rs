//! The page of the machines.

use std::collections::BTreeMap;

use fathom_lab::evidence::Criterion;

use super::{ZooOutcome, ZooRow};

/// A table has this many machines at least.
const MACHINES_MIN: usize = 20;
const MINUTES_MAX: f64 = 25.0;

impl ZooRow {
    fn wrong(&self) -> usize {
        self.checks.iter().filter(|check| !check.is_right).count()
    }

    pub(super) fn outcome(&self) -> ZooOutcome {
        match &self.skipped {
            Some(_) => ZooOutcome::Skipped,
            None if self.wrong() == 0 => ZooOutcome::Right,
            None => ZooOutcome::Wrong,
        }
    }

    fn word(&self) -> &'static str {
        match self.outcome() {
            ZooOutcome::Right => "right",
            ZooOutcome::Wrong => "WRONG",
            ZooOutcome::Skipped => "skipped",
        }
    }

    /// A line for the terminal.
    pub(super) fn line(&self) -> String {
        let (all, right) = (self.checks.len(), self.checks.len() - self.wrong());
        let mut text = format!(
            "{:16}  {:7}  {right:2} of {all:2}  {:4.0} s",
            self.name,
            self.word(),
            self.seconds
        );
        if let Some(why) = &self.skipped {
            text += &format!("  {why}");
        }
        for check in self.checks.iter().filter(|check| !check.is_right) {
            text +=
                &format!("\n  {}: expected {}, found {}", check.fact, check.expected, check.found);
        }
        text
    }

    /// A row of the page's table.
    fn cells(&self) -> String {
        let found: Vec<String> = self
            .checks
            .iter()
            .filter_map(|check| {
                let name = check.fact.strip_prefix("doctor/host/")?;
                // It stands beside it.
                if check.is_right && name == "kernel_command_line" {
                    return None;
                }
                let mark = if check.is_right { "" } else { "**" };
                Some(format!("{mark}{name} {}{mark}", check.found))
            })
            .collect();
        let right = self.checks.len() - self.wrong();
        let (name, word, seconds) = (&self.name, self.word(), self.seconds);
        let found = match &self.skipped {
            Some(why) => why.clone(),
            None => format!("{right} of {} right: {}", self.checks.len(), found.join(", ")),
        };
        format!(
            "| {name} | `{}` | {} | {word} | {seconds:.0} |\n",
            self.given,
            found.replace('|', "\\|")
        )
    }
}

/// What the rows must show. Rows that were skipped have their reasons.
pub(super) fn criteria(rows: &[ZooRow], minutes: f64) -> Vec<Criterion> {
    let count = |outcome| rows.iter().filter(|row| row.outcome() == outcome).count();
    let (right, wrong) = (count(ZooOutcome::Right), count(ZooOutcome::Wrong));
    let booted = right + wrong;
    let mut ids: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for row in rows {
        ids.entry(row.id.as_deref().unwrap_or_default()).or_default().push(&row.name);
    }
    let shared = ids.iter().filter(|(id, names)| !id.is_empty() && names.len() > 1);
    let shared: Vec<String> = shared.map(|(_, names)| names.join(" and ")).collect();
    vec![
        Criterion::new(format!("no machine wrong: {wrong} of {booted}"), wrong == 0),
        Criterion::new(
            format!("at least {MACHINES_MIN} machines ran: {booted}"),
            booted >= MACHINES_MIN,
        ),
        Criterion::new(
            format!("at most {MINUTES_MAX} minutes: {minutes:.1}"),
            minutes <= MINUTES_MAX,
        ),
        Criterion::new(
            format!(
                "no id of two machines: {}",
                if shared.is_empty() { "none".to_owned() } else { shared.join("; ") }
            ),
            shared.is_empty(),
        ),
    ]
}

pub(super) fn body(rows: &[ZooRow]) -> String {
    let mut text = PREFACE.to_owned();
    text += "\n| machine | given | found | | s |\n|---|---|---|---|---|\n";
    text.extend(rows.iter().map(ZooRow::cells));
    let wrong: Vec<String> = rows
        .iter()
        .flat_map(|row| row.checks.iter().map(move |check| (row, check)))
        .filter(|(_, check)| !check.is_right)
        .map(|(row, it)| {
            let found = it.found.replace('|', "\\|");
            format!("| {} | {} | {} | {found} |\n", row.name, it.fact, it.expected)
        })
        .collect();
    if !wrong.is_empty() {
        text += "\n## Wrong\n\n| machine | fact | expected | found |\n|---|---|---|---|\n";
        text.extend(wrong);
    }
    text
}

const PREFACE: &str = "\
Each machine is emulated by QEMU without KVM, and boots a Debian kernel with busybox and the static
program. It runs `fathom doctor`, a short `fathom run`, `fathom serve` with `fathom fetch`, and
`fathom file write` and `read` on each file system. The facts in the results are compared with the
arguments of QEMU and the kernel's command line; exit statuses, hangs and panics count, too.

- *Given*: the arguments of QEMU, but for files of the host, and the kernel.
- *Found*: facts of the host in `fathom doctor --json`; those that are wrong are bold, and listed
  again below with what was expected, as are steps that failed.
- On machines without /proc or /sys a fact may be unknown, but not wrong.
";
