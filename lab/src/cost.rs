//! What real programs cost beside what the prices of this machine say: how much of their system
//! time stays unexplained.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, ensure};
use fathom_lab::evidence::{COST, COST_SHARED, Criterion, EvidenceContents, EvidenceOrigin};
use fathom_lab::nginx;
use fathom_lab::seeded::Seeded;
use fathom_measure::process::Running;
use fathom_record::quantity::{percent, quantity_within};
use fathom_record::{Cost, CostTerm, CostTime, Document, Reference, Unit};
use tempfile::TempDir;

use crate::questions;

/// Of the programs, so many must have less of their system time unexplained than this.
const EXPLAINED_MIN: usize = 8;
const UNEXPLAINED_MAX: f64 = 0.25;
const WIDTH: usize = 8;
const TERMS: usize = 3;

/// What the programs work on.
const PREPARED: &str = "mkdir tree && for i in $(seq 2000); do \
    head -c $((i * 13 % 9000)) /dev/zero >tree/$i; done && head -c 64M /dev/urandom >data && \
    seq 500000 | shuf >numbers && git init -q repository && cp -r tree repository && \
    mkdir set && head -c 10000 data >set/10k && git -C repository add . && \
    printf 'create table t(a);begin;' >insert && \
    for i in $(seq 20000); do echo \"insert into t values($i);\"; done >>insert && \
    echo 'commit;' >>insert && cc -O1 -pthread -o known known.c";

/// The name of a program and its command; of a server that of the load.
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
    ("nginx", "load http://127.0.0.1:18572/10k --pid auto -c 2 -z 2s"),
];

/// Programs of known operations, of which so many must have their system time in the interval of
/// what is expected, on a core to itself or a shared one; and on a core to itself all within this
/// share of it.
const KNOWN: usize = 40;
const KNOWN_IN_INTERVAL: usize = 34;
const KNOWN_SHARED: usize = 30;
const KNOWN_OFF_MAX: f64 = 0.2;
/// Each CPU has a neighbour for this share of the seconds, if one is asked for.
const BUSY_SHARE: f64 = 0.5;
const KNOWN_SOURCE: &str = include_str!("cost/known.c");
/// Its operations: about so many nanoseconds each, and by byte; the smallest and largest size.
const KNOWN_OPERATIONS: [(&str, f64, f64, [u64; 2]); 9] = [
    ("read", 350.0, 0.05, [64, 1 << 18]),
    ("write", 700.0, 0.2, [64, 1 << 18]),
    ("open", 1300.0, 0.0, [0, 0]),
    ("stat", 600.0, 0.0, [0, 0]),
    ("fault", 1400.0, 0.0, [0, 0]),
    ("fork", 90_000.0, 0.01, [1 << 20, 1 << 26]),
    ("thread", 12_000.0, 0.0, [0, 0]),
    ("pipe", 900.0, 0.1, [1, 1 << 16]),
    ("null", 100.0, 0.0, [0, 0]),
];
/// Each takes about so many nanoseconds, at least and at most.
const KNOWN_NS: [f64; 2] = [4e6, 20e6];
const SEED: u64 = 72;

/// Of these, so many must gain what was stated.
const GAINED_MIN: usize = 8;

/// A program, the operation that it should do otherwise, and the program that does.
struct Change {
    name: &'static str,
    operation: &'static str,
    before: &'static str,
    after: &'static str,
}

const fn change(
    name: &'static str,
    operation: &'static str,
    before: &'static str,
    after: &'static str,
) -> Change {
    Change { name, operation, before, after }
}

const CHANGES: [Change; 10] = [
    change(
        "reads of 512 B in 64 KiB",
        "read, file",
        "dd if=data of=/dev/null bs=512",
        "dd if=data of=/dev/null bs=64K",
    ),
    change(
        "reads of 1 KiB in 64 KiB",
        "read, file",
        "dd if=data of=/dev/null bs=1K",
        "dd if=data of=/dev/null bs=64K",
    ),
    change(
        "reads of 3000 B in 64 KiB",
        "read, file",
        "dd if=data of=/dev/null bs=3000",
        "dd if=data of=/dev/null bs=64K",
    ),
    change(
        "writes of 512 B in 64 KiB",
        "write, file",
        "dd if=/dev/zero of=out bs=512 count=65536",
        "dd if=/dev/zero of=out bs=64K count=512",
    ),
    change(
        "writes of 2 KiB in 64 KiB",
        "write, file",
        "dd if=/dev/zero of=out bs=2K count=16384",
        "dd if=/dev/zero of=out bs=64K count=512",
    ),
    change(
        "a pipe in 64 KiB",
        ", pipe",
        "sh -c 'dd if=data ibs=64K obs=512 count=512 | cat >/dev/null'",
        "sh -c 'dd if=data bs=64K count=512 | cat >/dev/null'",
    ),
    change(
        "huge pages, python",
        "page fault, anonymous",
        "/usr/bin/python3 -S -c 'bytearray(64<<20)'",
        "env GLIBC_TUNABLES=glibc.malloc.hugetlb=1 /usr/bin/python3 -S -c 'bytearray(64<<20)'",
    ),
    change(
        "huge pages, 4 pieces",
        "page fault, anonymous",
        "/usr/bin/python3 -S -c 'b=[bytearray(32<<20) for i in range(4)]'",
        "env GLIBC_TUNABLES=glibc.malloc.hugetlb=1 \
         /usr/bin/python3 -S -c 'b=[bytearray(32<<20) for i in range(4)]'",
    ),
    change(
        "spawn for fork, small",
        "fork",
        "/usr/bin/python3 -S spawn.py fork 0",
        "/usr/bin/python3 -S spawn.py spawn 0",
    ),
    change(
        "spawn for fork, 64 MiB",
        "fork",
        "/usr/bin/python3 -S spawn.py fork 64",
        "/usr/bin/python3 -S spawn.py spawn 64",
    ),
];

/// Starts a program a hundred times, with so many MiB resident.
const SPAWN: &str = "import os,sys
held = bytearray(int(sys.argv[2]) << 20)
for _ in range(100):
    if sys.argv[1] == 'spawn':
        pid = os.posix_spawn('/bin/true', ['true'], {})
    else:
        pid = os.fork()
        if pid == 0:
            os.execv('/bin/true', ['true'])
    os.waitpid(pid, 0)
";

/// What a change of a program was said to gain, and what it gained.
struct Gain {
    /// Absent if nothing was said.
    stated: Option<CostTime>,
    measured: CostTime,
}

impl Gain {
    /// Whether what was measured is within what was stated, by the intervals of both.
    fn holds(&self) -> bool {
        self.stated.is_some_and(|stated| {
            let off = self.measured.ns - stated.ns;
            let own = self.measured.half_width_ns();
            let side =
                if off < 0.0 { stated.ns - stated.low_ns } else { stated.high_ns - stated.ns };
            off.abs() <= own.hypot(side)
        })
    }
}

/// Of a comparison of both programs.
fn gain(change: &Change, document: Document) -> Option<Gain> {
    let costs: Vec<Cost> = document.records.into_iter().filter_map(|it| it.cost).collect();
    let [before, after] = <[Cost; 2]>::try_from(costs).ok()?;
    let changed = |term: &&CostTerm| term.operation.ends_with(change.operation);
    let other = before.terms.iter().filter(changed).find_map(|term| term.what_if.as_ref())?;
    let gains = before.terms.iter().filter_map(|term| {
        let what_if = term.what_if.as_ref().filter(|it| it.change == other.change)?;
        // Other blocks are those of this operation; a process that is not forked has no faults.
        let is_whole = changed(&term) || change.operation == "fork";
        Some(term.time.filter(|_| is_whole)?.without(what_if.time))
    });
    let gains: Vec<CostTime> = gains.collect();
    let stated = (!gains.is_empty()).then(|| CostTime::sum(gains));
    Some(Gain { stated, measured: before.system.without(after.system) })
}

/// The program under test, in a folder with the files of all others.
struct Bench {
    program: PathBuf,
    folder: TempDir,
    runs: String,
    only: String,
}

impl Bench {
    fn new(program: &str, runs: &str, only: &str) -> Result<Self> {
        let program = std::fs::canonicalize(program).with_context(|| program.to_owned())?;
        let folder = tempfile::tempdir_in("/var/tmp")?;
        std::fs::write(folder.path().join("known.c"), KNOWN_SOURCE)?;
        std::fs::write(folder.path().join("spawn.py"), SPAWN)?;
        let mut shell = Command::new("sh");
        shell.args(["-c", PREPARED]).current_dir(&folder).stdin(Stdio::null());
        ensure!(shell.status()?.success(), "the files of the programs cannot be made");
        Ok(Self { program, folder, runs: runs.to_owned(), only: only.to_owned() })
    }

    fn is_chosen(&self, command: &str) -> bool {
        command.contains(&self.only)
    }

    /// Counts by these words of the program.
    fn counted(&self, words: &[&str]) -> Result<Option<Document>> {
        self.document(&[words, &["--cost", "--measure"]].concat())
    }

    fn document(&self, words: &[&str]) -> Result<Option<Document>> {
        let mut command = Command::new(&self.program);
        command.args(words).arg("--json");
        command.current_dir(&self.folder).stdin(Stdio::null()).stderr(Stdio::inherit());
        command.env("FATHOM_STORE", self.folder.path().join("cost.db"));
        // That of cargo: each program would search its libraries there first.
        command.env_remove("LD_LIBRARY_PATH");
        Ok(serde_json::from_slice(&command.output()?.stdout).ok())
    }

    fn bench(&self, words: &[&str]) -> Result<Option<Document>> {
        self.counted(&[&["bench", "--runs", &self.runs], words].concat())
    }

    fn found(&self) -> Result<Found> {
        let before = self.core()?;
        let (programs, known, gains) = (self.real()?, self.known()?, self.gains()?);
        Ok(Found { core: [before, self.core()?], programs, known, gains })
    }

    fn core(&self) -> Result<Reference> {
        let document = self.document(&["run", "cpu.loop", "--time", "5s"])?;
        document.and_then(|it| it.run.reference).context("no reference loop")
    }

    fn real(&self) -> Result<Vec<ProgramCost>> {
        let mut costs = Vec::new();
        for (name, command) in PROGRAMS.into_iter().filter(|(_, it)| self.is_chosen(it)) {
            println!("{name}: {command}");
            let document = match command.strip_prefix("load ") {
                Some(load) => self.served(load)?,
                None => self.bench(&["-n", name, command])?,
            };
            let cost = document.and_then(|it| it.records.into_iter().find_map(|it| it.cost));
            costs.push((name, command, cost));
        }
        Ok(costs)
    }

    /// A load of nginx, at the address that its words begin with.
    fn served(&self, load: &str) -> Result<Option<Document>> {
        let words: Vec<&str> = std::iter::once("load").chain(load.split(' ')).collect();
        let address = load.trim_start_matches("http://").split('/').next().unwrap_or_default();
        let mut server = Running::start(&mut nginx::command(self.folder.path(), address)?)?;
        nginx::await_start(self.folder.path(), &mut server)?;
        self.counted(&words)
    }

    fn known(&self) -> Result<Vec<(String, Cost)>> {
        let mut random = Seeded::for_part(SEED, "cost");
        let mut known = Vec::new();
        let all: Vec<String> = (0..KNOWN).map(|_| known_command(&mut random)).collect();
        for command in all.into_iter().filter(|it| self.is_chosen(it)) {
            let cost = self.bench(&[&command])?.and_then(|it| it.records.into_iter().next()?.cost);
            let cost = cost.with_context(|| format!("{command} was not counted"))?;
            println!("{}", known_row(&command, &cost));
            known.push((command, cost));
        }
        Ok(known)
    }

    fn gains(&self) -> Result<Vec<(&'static Change, Option<Gain>)>> {
        let mut gains = Vec::new();
        for change in CHANGES.iter().filter(|it| self.is_chosen(it.name)) {
            println!("{}: {}", change.name, change.after);
            let words = ["-n", "before", "-n", "after", change.before, change.after];
            gains.push((change, self.bench(&words)?.and_then(|it| gain(change, it))));
        }
        Ok(gains)
    }
}

/// What was found, and the state of the core before and after.
struct Found {
    core: [Reference; 2],
    programs: Vec<ProgramCost>,
    known: Vec<(String, Cost)>,
    gains: Vec<(&'static Change, Option<Gain>)>,
}

impl Found {
    fn is_shared(&self) -> bool {
        self.core.iter().any(Reference::is_shared)
    }

    fn criteria(&self) -> Vec<Criterion> {
        let held = self.gains.iter().filter(|(_, it)| it.as_ref().is_some_and(Gain::holds)).count();
        let mut criteria = criteria(&self.programs);
        criteria.extend(known_criteria(&self.known, self.is_shared()));
        criteria.push(Criterion::new(
            format!(
                "What-ifs made true, the gain within the stated interval: {held} of {}, at least \
                 {GAINED_MIN}",
                CHANGES.len()
            ),
            held >= GAINED_MIN,
        ));
        criteria
    }

    fn body(&self, is_busy: bool) -> String {
        let [before, after] = self.core.map(|it| percent(it.clean_share()));
        let neighbour = match is_busy {
            true => " A busy neighbour had each CPU for half of the seconds, at random.",
            false => "",
        };
        let core = format!(
            "Core to itself in {before} of the processes of a reference loop before, in {after} \
             after.{neighbour}\n\n"
        );
        core + &body(&self.programs) + &known_body(&self.known) + &changed(&self.gains)
    }
}

/// On this machine as it is, or beside neighbours (`is_busy`); a choice is only printed.
pub(crate) fn run(
    root: &Path,
    program: &str,
    runs: &str,
    is_busy: bool,
    only: &str,
) -> Result<bool> {
    let bench = Bench::new(program, runs, only)?;
    let neighbours = if is_busy { questions::neighbours(BUSY_SHARE, true)? } else { Vec::new() };
    let found = bench.found();
    for mut neighbour in neighbours {
        neighbour.kill()?;
        neighbour.wait()?;
    }
    let found = found?;
    if !only.is_empty() {
        println!("{}", found.body(is_busy));
        return Ok(true);
    }
    let mut parameters = vec![("RUNS", runs.to_owned())];
    parameters.extend(is_busy.then(|| ("BUSY", "1".to_owned())));
    let contents = EvidenceContents {
        parameters: &parameters,
        origins: &[("", &EvidenceOrigin::here(root))],
        criteria: &found.criteria(),
        body: &found.body(is_busy),
    };
    let page = if found.is_shared() { COST_SHARED } else { COST };
    let missed = page.write(root, &contents)?;
    missed.iter().for_each(|line| eprintln!("{line}"));
    Ok(missed.is_empty())
}

/// One to three operations, each so often and of a size that the seed says.
fn known_command(random: &mut Seeded) -> String {
    let mut words = vec!["./known".to_owned()];
    for _ in 0..=random.below(3) {
        let (name, ns, of_byte, [least, most]) =
            KNOWN_OPERATIONS[random.below(KNOWN_OPERATIONS.len() as u64) as usize];
        let size = match least {
            0 => 0.0,
            _ => (least as f64 * (most as f64 / least as f64).powf(random.share())).floor(),
        };
        let of_all = KNOWN_NS[0] + (KNOWN_NS[1] - KNOWN_NS[0]) * random.share();
        words.push(format!("{name} {:.0} {size}", (of_all / (ns + of_byte * size)).ceil()));
    }
    words.join(" ")
}

fn is_in_interval(cost: &Cost) -> bool {
    cost.unexplained.low_ns <= 0.0 && cost.unexplained.high_ns >= 0.0
}

fn off(cost: &Cost) -> f64 {
    cost.unexplained.ns / cost.system.ns
}

fn known_criteria(known: &[(String, Cost)], is_shared: bool) -> Vec<Criterion> {
    let of = |is: &dyn Fn(&Cost) -> bool| known.iter().filter(|(_, cost)| is(cost)).count();
    let [inside, near] = [of(&is_in_interval), of(&|cost| off(cost).abs() <= KNOWN_OFF_MAX)];
    let least = if is_shared { KNOWN_SHARED } else { KNOWN_IN_INTERVAL };
    let text = format!(
        "Known operations, system time in the interval of what is expected: {inside} of {KNOWN}, \
         at least {least}"
    );
    let near_text = format!(
        "Known operations, within {:.0} % of what is expected: {near} of {KNOWN}",
        100.0 * KNOWN_OFF_MAX
    );
    let mut criteria = vec![Criterion::new(text, inside >= least)];
    criteria.extend((!is_shared).then(|| Criterion::new(near_text, near == KNOWN)));
    criteria
}

fn known_body(known: &[(String, Cost)]) -> String {
    let rows = known.iter().map(|(command, cost)| known_row(command, cost) + "\n");
    format!(
        "\nPrograms of known operations (number and size), by a seed.\n\n\
         | command | system | expected | unexplained | |\n|---|--:|--:|--:|---|\n{}",
        rows.collect::<String>()
    )
}

fn known_row(command: &str, cost: &Cost) -> String {
    let ns = |of: CostTime| {
        let words = |value: f64| quantity_within(value, Unit::Nanoseconds, WIDTH);
        format!("{} ± {}", words(of.ns), words(of.half_width_ns()))
    };
    let word = if is_in_interval(cost) { "" } else { "**outside**" };
    let [system, expected] = [cost.system, cost.expected].map(ns);
    format!("| `{command}` | {system} | {expected} | {:+.0} % | {word} |", 100.0 * off(cost))
}

type ProgramCost = (&'static str, &'static str, Option<Cost>);

fn criteria(costs: &[ProgramCost]) -> Vec<Criterion> {
    let all = costs.iter().filter_map(|(_, _, cost)| cost.as_ref());
    let (mut explained, mut in_interval) = (0, 0);
    for cost in all.clone() {
        explained += usize::from(off(cost).abs() <= UNEXPLAINED_MAX);
        in_interval += usize::from(is_in_interval(cost));
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

fn changed(gains: &[(&Change, Option<Gain>)]) -> String {
    let mut text =
        "\nEach program was then changed as a what-if of its largest term says. *Stated* \
                    is that gain of system time, *measured* the difference of both programs.\n\n\
                    | change | before | after | stated | measured | |\n|---|---|---|--:|--:|---|\n"
            .to_owned();
    let ns = |of: CostTime| {
        let [ns, half] = [of.ns, of.half_width_ns()];
        let words = |value: f64| quantity_within(value, Unit::Nanoseconds, WIDTH);
        format!("{} ± {}", words(ns), words(half))
    };
    for (change, gain) in gains {
        let Change { name, before, after, .. } = change;
        let (stated, measured, word) = match gain {
            None => ("not counted".to_owned(), String::new(), ""),
            Some(gain) => (
                gain.stated.map_or("nothing".to_owned(), ns),
                ns(gain.measured),
                if gain.holds() { "holds" } else { "**does not hold**" },
            ),
        };
        text += &format!("| {name} | `{before}` | `{after}` | {stated} | {measured} | {word} |\n");
    }
    text.replace("| cat", "\\| cat")
}
