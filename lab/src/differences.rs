//! Pairs of runs, the second under a sabotage: whether their comparison says first what was done,
//! and names nothing else.

use std::any::Any;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, ensure};
use fathom_lab::Unmet;
use fathom_lab::evidence::{Criterion, DIFFERENCES, EvidenceContents, EvidenceOrigin};
use fathom_lab::group::LabGroup;
use serde_json::Value;

use crate::{filter, questions};

/// Of the sabotages that could be made, this share must be named first.
const NAMED_MIN: (usize, usize) = (9, 11);
/// A pair is measured again if the host moved the CPUs between both runs, so often in all.
const PAIRS_MAX: usize = 3;
/// Only the host can do this one: of pairs without a sabotage, the first with other distances.
const PLACEMENT: &str = "other placement of the CPUs";
/// Of a comparison, what is read first.
const FIRST_LINES: usize = 14;
const HUGE: &str = "/sys/kernel/mm/transparent_hugepage/enabled";
const CONGESTION: &str = "/proc/sys/net/ipv4/tcp_congestion_control";
/// The distance of two CPUs, as a metric.
const DISTANCE: &str = "memory.core_to_core";
/// Bytes a second of the device under a limit: at a fifth of it, a quick run ends before its test
/// files are written.
const DEVICE_BYTES_S: u64 = 20_000_000;
/// Runs without a sabotage before the first comparison, which learns from them how much runs of
/// this host differ.
const KEPT: usize = 7;
/// Labels: those of the second runs say nothing of what was done to them.
const PLAIN: &str = "a";
const SECOND: &str = "b";

/// What is done to the second run.
struct Difference {
    name: &'static str,
    /// Words of its screen, one of which must be among the first lines.
    words: &'static [&'static str],
    /// The classes that may be named; empty: all.
    classes: &'static [&'static str],
    /// Beginnings of metrics that it must change, whatever their class.
    effects: &'static [&'static str],
    start: fn(&mut Second) -> Result<Box<dyn Any>>,
}

/// How the second run is started.
#[derive(Default)]
struct Second {
    before: Vec<String>,
    arguments: Vec<String>,
    environment: Vec<(&'static str, String)>,
}

const ALL: [Difference; 11] = [
    Difference {
        name: "quota of 40 % of a CPU",
        words: &["quota", "throttled"],
        classes: &[],
        effects: &[],
        start: |second| {
            let limits = [("cpu.cfs_period_us", 50_000), ("cpu.cfs_quota_us", 20_000)];
            in_group(second, "cpu", &limits)
        },
    },
    Difference {
        name: "a busy program on each CPU",
        words: &["busy"],
        classes: &[],
        effects: &[],
        start: |_| Ok(Box::new(Busy(questions::neighbours(1.0, false)?))),
    },
    Difference {
        name: "no transparent huge pages",
        words: &["huge"],
        classes: &["page faults", "cache and memory", "memory of two CPUs", "processes"],
        effects: &[],
        start: |_| setting(HUGE, "never"),
    },
    Difference {
        name: "a seccomp filter on every call",
        // A cost of each call is no common factor: the shortest ones show it most.
        words: &["kernel entry", "os.syscall"],
        // Whatever makes system calls.
        classes: &[
            "kernel entry",
            "processes",
            "page faults",
            "two CPUs",
            "device",
            "file system",
            "network stack",
        ],
        effects: &[],
        start: |second| {
            let program = std::env::current_exe()?.display().to_string();
            second.before = vec![program, filter::FILTERED.to_owned()];
            Ok(Box::new(()))
        },
    },
    Difference {
        name: "another congestion control",
        words: &["congestion"],
        classes: &["network stack", "two CPUs"],
        effects: &[],
        start: |_| {
            let now = std::fs::read_to_string(CONGESTION)?;
            setting(CONGESTION, if now.trim() == "cubic" { "bbr" } else { "cubic" })
        },
    },
    Difference {
        name: "a device of 20 MB a second",
        words: &["device", "file"],
        classes: &["device", "file system"],
        effects: &[],
        start: |second| {
            let device = device_of(Path::new("/var/tmp"))?;
            let group = LabGroup::new("blkio", "differences", &[])?;
            for file in ["blkio.throttle.read_bps_device", "blkio.throttle.write_bps_device"] {
                std::fs::write(group.file(file), format!("{device} {DEVICE_BYTES_S}"))?;
            }
            second.before = group.words();
            Ok(Box::new(group))
        },
    },
    Difference {
        name: "a file system in memory",
        words: &["tmpfs"],
        // System calls and page faults of files, too.
        classes: &["device", "file system", "kernel entry", "page faults"],
        effects: &["file."],
        start: |second| {
            let folder = tempfile::tempdir_in("/dev/shm")?;
            let path = folder.path().display().to_string();
            second.arguments = vec!["--allow-memory".to_owned(), "--folder".to_owned(), path];
            Ok(Box::new(folder))
        },
    },
    Difference {
        name: "40 % more work in one kernel",
        words: &["cpu.call", "core speed"],
        classes: &["core speed"],
        effects: &["os.ratio"],
        start: |second| {
            second.environment.push(("FATHOM_SPIN", "cpu.call=40%".to_owned()));
            Ok(Box::new(()))
        },
    },
    Difference {
        name: "512 MiB of memory",
        words: &["memory"],
        classes: &["page faults", "processes", "file system", "device"],
        effects: &[],
        start: |second| in_group(second, "memory", &[("memory.limit_in_bytes", 512 << 20)]),
    },
    Difference {
        name: "loopback at 1 Gbit a second",
        words: &["network"],
        classes: &["network stack", "two CPUs"],
        effects: &[],
        start: |_| {
            shell("tc qdisc add dev lo root tbf rate 1gbit burst 128k latency 100ms")?;
            Ok(Box::new(Shaped))
        },
    },
    Difference {
        name: PLACEMENT,
        words: &["farther apart", "nearer"],
        classes: &["two CPUs", "memory of two CPUs"],
        effects: &[],
        start: |_| Err(Unmet("the host moved no CPUs between these runs".to_owned()).into()),
    },
];

struct Busy(Vec<std::process::Child>);

impl Drop for Busy {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

struct Shaped;

impl Drop for Shaped {
    fn drop(&mut self) {
        let _ = shell("tc qdisc del dev lo root");
    }
}

/// Restores a setting of the kernel.
struct Setting(String, String);

impl Drop for Setting {
    fn drop(&mut self) {
        let _ = std::fs::write(&self.0, &self.1);
    }
}

pub(crate) fn setting(path: &str, value: &str) -> Result<Box<dyn Any>> {
    let text = std::fs::read_to_string(path).with_context(|| path.to_owned())?;
    // Of several, the selected one stands in brackets.
    let before = text.split(['[', ']']).nth(1).unwrap_or(text.trim()).to_owned();
    let guard = Setting(path.to_owned(), before);
    std::fs::write(path, value).with_context(|| format!("{path}: {value}"))?;
    Ok(Box::new(guard))
}

fn in_group(second: &mut Second, controller: &str, limits: &[(&str, u64)]) -> Result<Box<dyn Any>> {
    let group = LabGroup::new(controller, "differences", limits)?;
    second.before = group.words();
    Ok(Box::new(group))
}

pub(crate) fn shell(line: &str) -> Result<()> {
    let status = Command::new("sh").args(["-c", line]).status()?;
    ensure!(status.success(), "{line}: {status}");
    Ok(())
}

/// `253:0` of the disk that holds a folder.
fn device_of(folder: &Path) -> Result<String> {
    let number = std::os::unix::fs::MetadataExt::dev(&folder.metadata()?);
    let (major, minor) = (rustix::fs::major(number), rustix::fs::minor(number));
    // A limit is of the whole disk.
    let partition = format!("/sys/dev/block/{major}:{minor}");
    let of_disk = std::fs::read_to_string(format!("{partition}/../dev"));
    let is_partition = Path::new(&format!("{partition}/partition")).exists();
    Ok(match of_disk {
        Ok(disk) if is_partition => disk.trim().to_owned(),
        _ => format!("{major}:{minor}"),
    })
}

/// What a comparison said of a sabotage.
struct Said {
    name: &'static str,
    /// Whether it was said first; or why there was no comparison.
    is_first: Result<bool, String>,
    /// Whether the host moved the CPUs between both runs.
    has_moved: bool,
    others: Vec<String>,
    screen: String,
}

impl Said {
    fn is_right(&self) -> Result<bool, &str> {
        let is_first = self.is_first.as_ref().map_err(String::as_str)?;
        Ok(*is_first && self.others.is_empty())
    }

    fn left_out(one: &Difference, why: String) -> Self {
        let (name, others, screen) = (one.name, Vec::new(), String::new());
        Self { name, is_first: Err(why), has_moved: false, others, screen }
    }
}

pub(crate) fn run(root: &Path, program: &str, only: &str) -> Result<bool> {
    let program = std::fs::canonicalize(program).with_context(|| program.to_owned())?;
    let mut host = LabHost::new(&program)?;
    for _ in 1..KEPT {
        host.run_plain()?;
    }
    let mut all = Vec::new();
    for (at, one) in ALL.iter().filter(|one| one.name.contains(only)).enumerate() {
        // Each run without a sabotage is compared with two.
        if at % 2 == 0 {
            host.run_plain()?;
        }
        let said = match one.name {
            PLACEMENT => host.placement(one)?,
            _ => host.pair(one).with_context(|| one.name)?,
        };
        let word = match said.is_right() {
            Ok(true) => "named first, and nothing else".to_owned(),
            Ok(false) => format!("not so; others: {}", said.others.join(", ")),
            Err(why) => format!("left out: {why}"),
        };
        println!("{}: {word}\n{}", one.name, said.screen);
        all.push(said);
    }
    let right = all.iter().filter(|it| it.is_right() == Ok(true)).count();
    let made = all.iter().filter(|it| it.is_right().is_ok()).count();
    let (named, of) = NAMED_MIN;
    let criteria = [Criterion::new(
        format!("The right class or case first, and nothing else: {right} of {made}"),
        made > 0 && right * of >= named * made,
    )];
    let contents = EvidenceContents {
        parameters: &[("ONLY", only.to_owned())],
        origins: &[("", &EvidenceOrigin::here(root))],
        criteria: &criteria,
        body: &body(&all),
    };
    let missed = DIFFERENCES.write(root, &contents)?;
    missed.iter().for_each(|line| println!("{line}"));
    Ok(missed.is_empty())
}

/// The runs of this host: those without a sabotage have a store of their own.
struct LabHost<'p> {
    program: &'p Path,
    folder: tempfile::TempDir,
    /// Runs without a sabotage.
    plains: usize,
}

impl<'p> LabHost<'p> {
    fn new(program: &'p Path) -> Result<Self> {
        Ok(Self { program, folder: tempfile::tempdir_in("/var/tmp")?, plains: 0 })
    }

    fn fathom(&self, second: &Second, store: &str, words: &[&str]) -> Command {
        let mut line: Vec<String> = second.before.clone();
        line.push(self.program.display().to_string());
        line.extend(words.iter().map(|it| (*it).to_owned()));
        line.extend_from_slice(&second.arguments);
        let mut command = Command::new(&line[0]);
        command.args(&line[1..]).current_dir(&self.folder).stdin(Stdio::null());
        let store = self.folder.path().join(store).with_extension("db");
        command.env("FATHOM_STORE", store).env("COLUMNS", "100");
        command.env("FATHOM_FOLDER", self.folder.path());
        command.envs(second.environment.iter().map(|(name, value)| (name, value)));
        command.stderr(Stdio::null());
        command
    }

    fn measure(&self, how: &Second, label: &str, file: &str) -> Result<()> {
        // The same in all runs: another one has another speed and no comparable distance.
        let cpu = fathom_measure::affinity::allowed().into_iter().max().unwrap_or(0).to_string();
        let words = ["run", "--quick", "--label", label, "--force", "--output", file];
        let words = [&words[..], &["--cpu", &cpu]].concat();
        let status = self.fathom(how, label, &words).stdout(Stdio::null()).status()?;
        ensure!(status.success(), "the run with the label {label} failed: {status}");
        Ok(())
    }

    fn run_plain(&mut self) -> Result<()> {
        self.plains += 1;
        println!("without a sabotage ({})", self.plains);
        self.measure(&Second::default(), PLAIN, &plain(self.plains))
    }

    /// A run under a sabotage beside the newest without; again, with both, while the host moves
    /// the CPUs between them.
    fn pair(&mut self, one: &Difference) -> Result<Said> {
        let mut said = self.run_and_compare(one)?;
        for _ in 1..PAIRS_MAX {
            if !said.has_moved {
                break;
            }
            println!("{}: again, as the host moved the CPUs between both runs", one.name);
            self.run_plain()?;
            said = self.run_and_compare(one)?;
        }
        Ok(said)
    }

    /// Of runs without a sabotage the first two that follow one another with other distances.
    fn placement(&self, one: &Difference) -> Result<Said> {
        for at in 2..=self.plains {
            let said = self.compare([&plain(at - 1), &plain(at)], one)?;
            if said.has_moved {
                return Ok(said);
            }
        }
        let why = (one.start)(&mut Second::default()).err();
        Ok(Said::left_out(one, why.map_or_else(String::new, |why| format!("{why:#}"))))
    }

    /// Makes a run under a sabotage and compares it with the newest without.
    fn run_and_compare(&self, one: &Difference) -> Result<Said> {
        println!("{}", one.name);
        let mut second = Second::default();
        let guard = match (one.start)(&mut second) {
            Ok(guard) => guard,
            Err(why) => return Ok(Said::left_out(one, format!("{why:#}"))),
        };
        let file = format!("{SECOND}.json");
        let ran = self.measure(&second, SECOND, &file);
        drop(guard);
        match ran {
            Ok(()) => self.compare([&plain(self.plains), &file], one),
            Err(why) => Ok(Said::left_out(one, format!("{why:#}"))),
        }
    }

    fn compare(&self, [a, b]: [&str; 2], one: &Difference) -> Result<Said> {
        let compared = |words: &[&str]| -> Result<String> {
            let words = [&["compare", a, b], words].concat();
            let output = self.fathom(&Second::default(), PLAIN, &words).output()?;
            Ok(String::from_utf8_lossy(&output.stdout).into_owned())
        };
        let (screen, json) = (compared(&[])?, compared(&["--json"])?);
        let json: Value = serde_json::from_str(&json).context("compare --json")?;
        let first: Vec<&str> = screen.lines().take(FIRST_LINES).collect();
        let is_said = one.words.iter().any(|word| first.iter().any(|line| line.contains(word)));
        let others = named_besides(&json, one);
        let has_moved = rows(&json).any(|row| !row["distances"].is_null());
        Ok(Said {
            name: one.name,
            is_first: Ok(is_said),
            has_moved,
            others,
            screen: first.join("\n"),
        })
    }
}

/// The file of a run without a sabotage.
fn plain(number: usize) -> String {
    format!("{PLAIN}{number}.json")
}

fn rows(json: &Value) -> impl Iterator<Item = &Value> {
    json["rows"].as_array().into_iter().flatten()
}

/// What a comparison names of other classes: those that moved, and cases that differ net of theirs.
/// What it explains by the core's speed or by the distance of the CPUs is not named, and neither is
/// that distance itself.
fn named_besides(json: &Value, one: &Difference) -> Vec<String> {
    let is_own =
        |it: &&Value| it["moved"] == true && it["with_core"] == false && it["distances"].is_null();
    let factors = json["factors"].as_array().into_iter().flatten().filter(is_own);
    let named_rows = rows(json).filter(|row| row["share"] == "differs");
    let is_other = |it: &&Value| {
        let [class, metric] = ["class", "metric"].map(|key| it[key].as_str().unwrap_or_default());
        let is_effect = one.effects.iter().any(|begin| metric.starts_with(begin));
        let is_own = one.classes.is_empty() || one.classes.contains(&class);
        !is_own && !is_effect && metric != DISTANCE
    };
    let text = |it: &Value| it.as_str().unwrap_or_default().to_owned();
    let mut named: Vec<String> = factors.filter(is_other).map(|it| text(&it["class"])).collect();
    named.extend(named_rows.filter(is_other).map(|it| text(&it["metric"])));
    named.sort();
    named.dedup();
    named
}

fn body(all: &[Said]) -> String {
    let mut text = format!(
        "Each sabotage is active in the second of two quick runs. It is *right* if one of its \
         words stands in the first {FIRST_LINES} lines of `fathom compare`, and no other class \
         or case is named: neither what is explained by the core's speed (reference loop) nor by \
         the distance of the CPUs is. The store has at least {KEPT} runs without a sabotage, from \
         which the comparison learns how much runs of this host differ. A pair is measured again, \
         {PAIRS_MAX} times at most, if the host moved the CPUs between its runs.\n"
    );
    for said in all {
        let word = match said.is_right() {
            Ok(true) => "right".to_owned(),
            Ok(false) if said.others.is_empty() => "not named first".to_owned(),
            Ok(false) => format!("named besides: {}", said.others.join(", ")),
            Err(why) => format!("left out: {why}"),
        };
        text += &format!("\n## {}: {word}\n", said.name);
        if !said.screen.is_empty() {
            text += &format!("\n```text\n{}\n```\n", said.screen);
        }
    }
    text
}
