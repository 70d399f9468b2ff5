//! Settings with a known effect, placebos and kills: what `fathom doctor --try` says of them, and
//! whether the machine is as before.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use fathom_analysis::trial::TrialVerdict;
use fathom_lab::evidence::{Criterion, EvidenceContents, EvidenceOrigin, REMEDIES};
use fathom_lab::group::LabGroup;
use fathom_record::trial::BESIDE;
use fathom_record::{Document, Record};

use crate::differences::{device_of, setting};

/// Of ten tries, so many must find the effect; of the placebos, so many may be called paying.
const FOUND_MIN: f64 = 0.9;
const PAYING_MAX: usize = 2;
const KILLS: usize = 30;
const TIME: &str = "40s";
/// Of the run that a try must agree with.
const LONGER: &str = "2min";
const READ_BYTES_S: u64 = 200_000_000;
const READ_OPERATIONS_S: u64 = 400;

/// A setting, its value before and the one that is tried, and what shows it.
struct KnownEffect {
    name: &'static str,
    file: &'static str,
    from: &'static str,
    tried: &'static str,
    subject: &'static [&'static str],
    /// Whether the disk has a limit.
    is_limited: bool,
}

const CONGESTION: &str = "/proc/sys/net/ipv4/tcp_congestion_control";
const THP: &str = "/sys/kernel/mm/transparent_hugepage/enabled";
const DAMON: &str = "/sys/kernel/mm/damon/admin/kdamonds/0/state";
const DIRTY: &str = "/proc/sys/vm/dirty_ratio";
/// A file that is left alone for some seconds between two reads.
const IDLE: &str = "sh -c 'cat data >/dev/null; sleep 4; \
                    for i in 1 2 3 4 5 6 7 8; do cat data >/dev/null; done'";

const KNOWN: [KnownEffect; 5] = [
    KnownEffect {
        name: "bbr → cubic on loopback",
        file: CONGESTION,
        from: "bbr",
        tried: "congestion=cubic",
        subject: &["network.tcp.bandwidth{chunk_bytes=65536,cpus=2,direction=send,streams=1,\
                    to=loopback}"],
        is_limited: false,
    },
    KnownEffect {
        name: "read-ahead 0 → 128 KiB on a throttled disk",
        file: "",
        from: "0",
        tried: "read-ahead=128",
        subject: &["dd if=data of=/dev/null bs=64K count=64 iflag=nocache"],
        is_limited: true,
    },
    KnownEffect {
        name: "THP never → always for page faults",
        file: THP,
        from: "never",
        tried: "thp=always",
        subject: &["dd if=/dev/zero of=/dev/null bs=64M count=1"],
        is_limited: false,
    },
    KnownEffect {
        name: "DAMON off for warm files",
        file: DAMON,
        from: "on",
        tried: "damon=off",
        subject: &[IDLE],
        is_limited: false,
    },
    KnownEffect {
        name: "dirty limits for a burst of writes",
        file: DIRTY,
        from: "1",
        tried: "dirty=10/40",
        subject: &["dd if=/dev/zero of=burst bs=1M count=256"],
        is_limited: true,
    },
];

/// Nothing that is measured depends on it.
const PLACEBO: &str = "swappiness";
const PLACEBO_SUBJECT: &str = "dd if=/dev/zero of=/dev/null bs=64K count=4000";

struct Bed {
    program: PathBuf,
    folder: tempfile::TempDir,
    group: Option<LabGroup>,
}

impl Bed {
    fn command(&self, words: &[&str], is_limited: bool) -> Command {
        let group = self.group.as_ref().filter(|_| is_limited);
        let mut line = group.map(LabGroup::words).unwrap_or_default();
        line.push(self.program.display().to_string());
        line.extend(words.iter().map(|word| (*word).to_owned()));
        let mut command = Command::new(&line[0]);
        command.args(&line[1..]).current_dir(&self.folder).stdin(Stdio::null());
        command.env("FATHOM_STORE", self.folder.path().join("fathom.db"));
        command
    }

    fn tried(&self, known: &KnownEffect, time: &str) -> Result<Record> {
        let words = ["doctor", "--try", known.tried, "--json", "--time", time, "--for"];
        let mut command = self.command(&[&words, known.subject].concat(), known.is_limited);
        let output = command.output()?;
        let errors = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "{}: {errors}", known.name);
        let document: Document = serde_json::from_slice(&output.stdout)?;
        let record = document.records.into_iter().find(|it| it.text_of(BESIDE).is_none());
        record.with_context(|| format!("{}: no record", known.name))
    }

    fn row(&self, known: &KnownEffect, tries: usize) -> Result<EffectRow> {
        let disk = disk_setting(&self.folder, "read_ahead_kb")?;
        let file = if known.file.is_empty() { disk.as_str() } else { known.file };
        let _before =
            if known.from == read(file)? { None } else { Some(setting(file, known.from)?) };
        let (mut row, longer) = (EffectRow::default(), self.tried(known, LONGER)?);
        row.longer = middle(&longer);
        for _ in 0..tries {
            let record = self.tried(known, TIME)?;
            let holds = record.summary.as_ref().and_then(|it| it.limits());
            row.holds += usize::from(
                holds.is_some_and(|[low, high]| low <= row.longer && row.longer <= high),
            );
            row.found += usize::from(TrialVerdict::from_record(&record) == TrialVerdict::Pays);
            row.ratios.push(middle(&record));
            ensure!(read(file)? == known.from, "{}: not as before", known.name);
        }
        Ok(row)
    }

    fn placebos(&self, count: usize) -> Result<[usize; 3]> {
        let known = KnownEffect {
            name: PLACEBO,
            file: "",
            from: "",
            tried: PLACEBO,
            subject: &[PLACEBO_SUBJECT],
            is_limited: false,
        };
        let mut counts = [0; 3];
        for _ in 0..count {
            match TrialVerdict::from_record(&self.tried(&known, "20s")?) {
                TrialVerdict::Pays => counts[0] += 1,
                TrialVerdict::Same(_) => counts[1] += 1,
                TrialVerdict::Costs | TrialVerdict::Undecided => counts[2] += 1,
            }
        }
        Ok(counts)
    }

    /// How often all was as before after a kill at another moment each time.
    fn kills(&self, count: usize) -> Result<usize> {
        let before = read(CONGESTION)?;
        let mut restored = 0;
        for at in 0..count {
            let words = ["doctor", "--try", "congestion", "thp", "--for", "sleep 0.01"];
            let mut command = self.command(&words, false);
            let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
            std::thread::sleep(Duration::from_millis(500 + 170 * at as u64));
            child.kill()?;
            child.wait()?;
            let status =
                self.command(&["doctor", "--undo"], false).stdout(Stdio::null()).status()?;
            restored += usize::from(status.success() && read(CONGESTION)? == before);
        }
        Ok(restored)
    }
}

#[derive(Default)]
struct EffectRow {
    longer: f64,
    found: usize,
    holds: usize,
    ratios: Vec<f64>,
}

fn middle(record: &Record) -> f64 {
    record.summary.as_ref().map_or(f64::NAN, |it| it.median)
}

/// The value of a setting: the one in brackets, if there are some.
fn read(file: &str) -> Result<String> {
    let text = std::fs::read_to_string(file).with_context(|| file.to_owned())?;
    Ok(text.split(['[', ']']).nth(1).unwrap_or(text.trim()).to_owned())
}

/// A file of the queue of the disk that holds a folder.
fn disk_setting(folder: &tempfile::TempDir, name: &str) -> Result<String> {
    let device = device_of(folder.path())?;
    let path = std::fs::canonicalize(format!("/sys/dev/block/{device}/queue/{name}"))?;
    Ok(path.display().to_string())
}

pub(crate) fn run(root: &Path, program: &str, tries: usize, only: &str) -> Result<bool> {
    let program = std::fs::canonicalize(program).with_context(|| program.to_owned())?;
    let folder = tempfile::tempdir_in("/var/tmp")?;
    let status = Command::new("dd")
        .args(["if=/dev/urandom", "of=data", "bs=1M", "count=64", "status=none"])
        .current_dir(&folder)
        .status()?;
    ensure!(status.success(), "dd: {status}");
    let device = device_of(folder.path())?;
    let group = LabGroup::new("blkio", "remedies", &[])?;
    for (file, limit) in [
        ("blkio.throttle.read_bps_device", READ_BYTES_S),
        ("blkio.throttle.read_iops_device", READ_OPERATIONS_S),
        ("blkio.throttle.write_bps_device", READ_BYTES_S / 4),
    ] {
        std::fs::write(group.file(file), format!("{device} {limit}"))?;
    }
    let bed = Bed { program, folder, group: Some(group) };
    let mut criteria = Vec::new();
    let mut body = "| setting | found | longer run | tries: ratio of the new value to the old one \
                    | intervals that hold the longer run |\n|---|---:|---:|---|---:|\n"
        .to_owned();
    for known in KNOWN.iter().filter(|known| known.name.contains(only)) {
        let EffectRow { longer, found, holds, ratios } = match bed.row(known, tries) {
            Ok(row) => row,
            Err(why) => {
                println!("{}: {why:#}", known.name);
                EffectRow { longer: f64::NAN, ..EffectRow::default() }
            }
        };
        let each: Vec<String> = ratios.iter().map(|it| format!("{it:.3}")).collect();
        let line = format!(
            "| {} | {found} of {tries} | {longer:.3} | {} | {holds} of {tries} |\n",
            known.name,
            each.join(", ")
        );
        print!("{line}");
        body += &line;
        let text = format!("{}: found, with the right sign, in {found} of {tries}", known.name);
        criteria.push(Criterion::new(text, found as f64 >= FOUND_MIN * tries as f64));
    }
    let [paying, same, others] = bed.placebos(4 * tries)?;
    let text = format!("placebos called paying: {paying} of {}", 4 * tries);
    println!("{text}; no difference: {same}; costs or undecided: {others}");
    criteria.push(Criterion::new(text, paying <= PAYING_MAX));
    let kills = KILLS.min(3 * tries);
    let restored = bed.kills(kills)?;
    criteria.push(Criterion::new(
        format!("as before after a kill and `--undo`: {restored} of {kills}"),
        restored == kills,
    ));
    body += &format!("\nOf the placebos, {same} had no difference within 5 %.\n");
    let contents = EvidenceContents {
        parameters: &[("RUNS", tries.to_string()), ("ONLY", only.to_owned())],
        origins: &[("", &EvidenceOrigin::here(root))],
        criteria: &criteria,
        body: &body,
    };
    let missed = REMEDIES.write(root, &contents)?;
    missed.iter().for_each(|line| println!("{line}"));
    Ok(missed.is_empty())
}
