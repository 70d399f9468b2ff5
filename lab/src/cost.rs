//! What real programs cost beside what the prices of this machine say: how much of their system
//! time stays unexplained.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, ensure};
use fathom_lab::evidence::{COST, Criterion, EvidenceContents, EvidenceOrigin};
use fathom_record::quantity::quantity_within;
use fathom_record::{Cost, CostTime, Document, Unit};

/// Of the programs, so many must have less of their system time unexplained than this.
const EXPLAINED_MIN: usize = 8;
const UNEXPLAINED_MAX: f64 = 0.25;
const WIDTH: usize = 8;
const TERMS: usize = 3;

/// What the programs work on.
const PREPARED: &str = "mkdir tree && for i in $(seq 2000); do \
    head -c $((i * 13 % 9000)) /dev/zero >tree/$i; done && head -c 64M /dev/urandom >data && \
    seq 500000 | shuf >numbers && git init -q repository && cp -r tree repository && \
    git -C repository add . && printf 'create table t(a);begin;' >insert && \
    for i in $(seq 20000); do echo \"insert into t values($i);\"; done >>insert && \
    echo 'commit;' >>insert";

/// The name of a program and its command.
const PROGRAMS: [(&str, &str); 10] = [
    ("tar", "tar cf copy.tar tree"),
    ("grep", "grep -rcv x tree"),
    ("gzip", "gzip -1 -k -f data"),
    ("find", "find tree -size +8k"),
    ("git-status", "git -C repository status -s"),
    ("python-start", "python3 -I -S -c pass"),
    ("sqlite3-insert", "sh -c 'rm -f db; sqlite3 db <insert'"),
    ("cp", "cp data copy"),
    ("sort", "sort numbers -o sorted"),
    ("shell-loop", "sh -c 'for i in $(seq 100); do /bin/true; done'"),
];

pub(crate) fn run(root: &Path, program: &str, runs: &str) -> Result<bool> {
    let program = std::fs::canonicalize(program).with_context(|| program.to_owned())?;
    let folder = tempfile::tempdir_in("/var/tmp")?;
    let shell = |line: &str| {
        let mut command = Command::new("sh");
        command.args(["-c", line]).current_dir(&folder).stdin(Stdio::null());
        command
    };
    ensure!(shell(PREPARED).status()?.success(), "the files of the programs cannot be made");
    let fathom = |arguments: &[&str]| {
        let mut command = Command::new(&program);
        command.args(arguments).current_dir(&folder).stdin(Stdio::null());
        command.env("FATHOM_STORE", folder.path().join("cost.db"));
        command
    };
    let mut costs = Vec::new();
    for (name, command) in PROGRAMS {
        println!("{name}: {command}");
        let line = ["bench", "--cost", "--measure", "--json", "-n", name, "--runs", runs, command];
        let output = fathom(&line).stderr(Stdio::inherit()).output()?;
        let document = serde_json::from_slice::<Document>(&output.stdout).ok();
        let record = document.and_then(|it| it.records.into_iter().next());
        costs.push((name, command, record.and_then(|record| record.cost)));
    }
    let criteria = criteria(&costs);
    let contents = EvidenceContents {
        parameters: &[("RUNS", runs.to_owned())],
        origins: &[("", &EvidenceOrigin::here(root))],
        criteria: &criteria,
        body: &body(&costs),
    };
    let missed = COST.write(root, &contents)?;
    missed.iter().for_each(|line| eprintln!("{line}"));
    Ok(missed.is_empty())
}

type ProgramCost = (&'static str, &'static str, Option<Cost>);

fn criteria(costs: &[ProgramCost]) -> Vec<Criterion> {
    let all = costs.iter().filter_map(|(_, _, cost)| cost.as_ref());
    let (mut explained, mut in_interval) = (0, 0);
    for cost in all.clone() {
        explained += usize::from(cost.unexplained.ns.abs() <= UNEXPLAINED_MAX * cost.system.ns);
        in_interval +=
            usize::from(cost.unexplained.low_ns <= 0.0 && cost.unexplained.high_ns >= 0.0);
    }
    let counted = all.count();
    vec![
        Criterion::new(
            format!("Counted: {counted} of {}", PROGRAMS.len()),
            counted == PROGRAMS.len(),
        ),
        Criterion::new(
            format!(
                "At most {:.0} % of the system time unexplained: {explained} of {} programs, at \
                 least {EXPLAINED_MIN}",
                100.0 * UNEXPLAINED_MAX,
                PROGRAMS.len()
            ),
            explained >= EXPLAINED_MIN,
        ),
        Criterion::new(
            format!(
                "The interval of what is unexplained includes 0: {in_interval} of {}, at least \
                 {EXPLAINED_MIN}",
                PROGRAMS.len()
            ),
            in_interval >= EXPLAINED_MIN,
        ),
    ]
}

fn body(costs: &[ProgramCost]) -> String {
    let mut text =
        "Each program was timed as usual and counted once more (`fathom bench --cost`). \
                    *Expected* is the sum of counts × prices of this machine.\n\n\
                    | program | command | user | system | expected | unexplained | counting | \
                    largest terms |\n|---|---|--:|--:|--:|--:|--:|---|\n"
            .to_owned();
    let ns = |value: f64| quantity_within(value, Unit::Nanoseconds, WIDTH);
    let with_half = |of: CostTime| format!("{} ± {}", ns(of.ns), ns(of.half_width_ns()));
    for (name, command, cost) in costs {
        let Some(cost) = cost else {
            text += &format!("| {name} | `{command}` | not counted | | | | | |\n");
            continue;
        };
        let terms = cost.terms.iter().filter_map(|term| Some((term, term.time?))).take(TERMS);
        let terms =
            terms.map(|(term, of)| format!("{} × {} {}", term.count, term.operation, ns(of.ns)));
        text += &format!(
            "| {name} | `{command}` | {} | {} | {} | {} | × {:.1} | {} |\n",
            ns(cost.user.ns),
            with_half(cost.system),
            with_half(cost.expected),
            with_half(cost.unexplained),
            cost.slowdown,
            terms.collect::<Vec<_>>().join("; ")
        );
    }
    text
}
