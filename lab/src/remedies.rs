//! Settings with a known effect, placebos and kills: what `fathom doctor --try` says of them, and
//! whether the machine is as before. In parts, whose results are kept in the target folder.

use std::any::Any;
use std::fmt::Write as _;
use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use fathom_analysis::trial::TrialVerdict;
use fathom_lab::evidence::{Criterion, EvidenceContents, EvidenceOrigin, EvidenceParts, REMEDIES};
use fathom_lab::group::LabGroup;
use fathom_record::trial::BESIDE;
use fathom_record::{Document, Record};
use serde::{Deserialize, Serialize};

use crate::differences::{setting, shell};

const KEPT: &str = "target/remedies.json";
/// Of ten tries, so many must find the effect; of the placebos, so many may be called paying.
const FOUND_MIN: f64 = 0.9;
const PAYING_MAX: usize = 2;
const PLACEBOS_PER_TRY: usize = 4;
const KILLS_PER_TRY: usize = 3;
/// For the fewest passes.
const SHORT: &str = "5s";
/// Of the run that a try must agree with.
const LONGER: &str = "1min";
/// Limits of the disk. In the root group, since writeback is of no other group.
const LIMITS: [(&str, u64); 3] =
    [("read_bps", 50_000_000), ("read_iops", 400), ("write_bps", 200_000_000)];

/// A setting, its value before and the one that is tried, and what shows it.
struct KnownEffect {
    /// The name of the part.
    part: &'static str,
    name: &'static str,
    file: &'static str,
    from: &'static str,
    tried: &'static str,
    /// `{lab}` is this program.
    subject: &'static str,
}

const CONGESTION: &str = "/proc/sys/net/ipv4/tcp_congestion_control";
const THP: &str = "/sys/kernel/mm/transparent_hugepage/enabled";
const DAMON: &str = "/sys/kernel/mm/damon/admin/kdamonds/0";
/// From which order on a guest gives free pages back to its host, which takes long to make them
/// again, longer than all loads; and one that no pages have.
const REPORTING: &str = "/sys/module/page_reporting/parameters/page_reporting_order";
const NOT_REPORTED: &str = "11";
/// The one of the disk that the lab makes.
const READ_AHEAD: &str = "read_ahead_kb";
/// Loads that depend on each other, at random in more memory than caches have.
pub(crate) const CHASE: &str = "chase";

const KNOWN: [KnownEffect; 6] = [
    KnownEffect {
        part: "bbr",
        name: "bbr → cubic on loopback",
        file: CONGESTION,
        from: "bbr",
        tried: "congestion=cubic",
        // On two CPUs it differs by half from pass to pass where others use them, too.
        subject: "network.tcp.bandwidth{chunk_bytes=65536,cpus=1,direction=send,streams=1,\
                  to=loopback}",
    },
    KnownEffect {
        part: "read-ahead",
        name: "read-ahead 0 → 128 KiB on a throttled disk",
        file: READ_AHEAD,
        from: "0",
        tried: "read-ahead=128",
        subject: "sh -c 'dd if=data iflag=nocache count=0; \
                  dd if=data of=/dev/null bs=64K count=16'",
    },
    KnownEffect {
        part: "thp-faults",
        name: "THP never → always for page faults",
        file: THP,
        from: "never",
        tried: "thp=always",
        subject: "dd if=/dev/zero of=/dev/null bs=64M count=1",
    },
    KnownEffect {
        part: "thp-latency",
        name: "THP never → always for loads from memory",
        file: THP,
        from: "never",
        tried: "thp=always",
        // In less memory the tables of pages are in caches.
        subject: "{lab} chase 1024 4000000",
    },
    KnownEffect {
        part: "damon",
        name: "DAMON off for a file that is warm",
        file: "/sys/kernel/mm/damon/admin/kdamonds/0/state",
        from: "on",
        tried: "damon=off",
        subject: "sh -c 'cat data >/dev/null; sleep 1.2; cat data >/dev/null'",
    },
    KnownEffect {
        part: "dirty",
        name: "dirty limits 1 → 40 % for a burst of writes",
        file: "/proc/sys/vm/dirty_ratio",
        from: "1",
        tried: "dirty=10/40",
        // Without the pause a burst waits for the writeback of the one before.
        subject: "sh -c 'sleep 1; dd if=/dev/zero of=burst bs=1M count=384'",
    },
];

/// Nothing that is measured depends on it.
const PLACEBO: &str = "swappiness";
const PLACEBO_SUBJECT: &str = "dd if=/dev/zero of=/dev/null bs=64K count=4000";
const PLACEBOS: &str = "placebos";
const KILLS: &str = "kills";

/// DAMON as it pages out files of one memory cgroup that rest for half a second: below the folder
/// of its first context. What it does to files by itself takes a minute.
const DAMON_SETTINGS: [(&str, &str); 9] = [
    ("monitoring_attrs/intervals/sample_us", "20000"),
    ("monitoring_attrs/intervals/aggr_us", "200000"),
    ("schemes/0/access_pattern/age/min", "2"),
    ("schemes/0/apply_interval_us", "400000"),
    ("schemes/0/quotas/ms", "0"),
    ("schemes/0/quotas/bytes", "0"),
    ("schemes/0/ops_filters/0/type", "memcg"),
    ("schemes/0/ops_filters/0/matching", "N"),
    ("schemes/0/ops_filters/0/allow", "N"),
];

/// The result of a part.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
enum RemediesPart {
    Effect(EffectRow),
    /// Called paying, without a difference, and others.
    Placebos([usize; 3]),
    /// Kills, those that left something changed, and those after which all was as before.
    Kills([usize; 3]),
    /// Why it is not possible on this machine.
    Missing(String),
}

#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
struct EffectRow {
    longer: f64,
    /// Called paying, by an interval that holds the longer run.
    found: usize,
    /// Called paying.
    paying: usize,
    ratios: Vec<f64>,
}

/// A disk in memory with limits, mounted on a folder.
struct LabMount {
    folder: tempfile::TempDir,
    device: String,
    number: String,
}

impl LabMount {
    fn new() -> Result<Self> {
        let folder = tempfile::tempdir_in("/dev/shm")?;
        let image = folder.path().join("image").display().to_string();
        shell(&format!("truncate -s 700M {image} && mkfs.ext4 -q -F -O ^has_journal {image}"))?;
        let made = Command::new("losetup").args(["-f", "--show", &image]).output()?;
        let device = String::from_utf8(made.stdout)?.trim().to_owned();
        ensure!(made.status.success(), "losetup: {}", made.status);
        let name = device.trim_start_matches("/dev/").to_owned();
        let number = std::fs::read_to_string(format!("/sys/block/{name}/dev"))?.trim().to_owned();
        let mount = Self { folder, device, number };
        // A file that is truncated and written again is else written back when it is closed.
        let [place, device] = [mount.place().display().to_string(), mount.device.clone()];
        shell(&format!("mkdir {place} && mount -o noauto_da_alloc {device} {place}"))?;
        let data = format!("{place}/data");
        shell(&format!("dd if=/dev/urandom of={data} bs=1M count=32 status=none && sync {data}"))?;
        // Who reads it next is charged for it: the group whose files DAMON pages out.
        shell(&format!("dd if={data} iflag=nocache count=0 status=none"))?;
        // All of the dirty pages may be of it.
        std::fs::write(format!("/sys/class/bdi/{}/min_ratio", mount.number), "99")?;
        mount.limit(|bytes| bytes)?;
        Ok(mount)
    }

    fn limit(&self, of: fn(u64) -> u64) -> Result<()> {
        for (what, most) in LIMITS {
            let file = format!("/sys/fs/cgroup/blkio/blkio.throttle.{what}_device");
            std::fs::write(&file, format!("{} {}", self.number, of(most))).context(file)?;
        }
        Ok(())
    }

    fn place(&self) -> PathBuf {
        self.folder.path().join("mount")
    }
}

impl Drop for LabMount {
    fn drop(&mut self) {
        let _ = self.limit(|_| 0);
        let _ = shell(&format!("umount {}", self.place().display()));
        let _ = shell(&format!("losetup -d {}", self.device));
    }
}

struct Bed {
    program: PathBuf,
    lab: PathBuf,
    folder: tempfile::TempDir,
    mount: LabMount,
    /// Whose files DAMON pages out.
    group: LabGroup,
}

impl Bed {
    fn command(&self, words: &[&str]) -> Command {
        let mut command = self.group.enter(&self.program, words);
        command.current_dir(self.mount.place()).stdin(Stdio::null());
        command.env("FATHOM_STORE", self.folder.path().join("fathom.db"));
        command
    }

    /// What a try says of a setting and a subject.
    fn tried(&self, [tried, subject, time]: [&str; 3]) -> Result<Record> {
        let subject = subject.replace("{lab}", &self.lab.display().to_string());
        let words = ["doctor", "--try", tried, "--json", "--time", time, "--for", &subject];
        let output = self.command(&words).output()?;
        let errors = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "{tried}: {errors}");
        let document: Document = serde_json::from_slice(&output.stdout)?;
        let record = document.records.into_iter().find(|it| it.text_of(BESIDE).is_none());
        record.with_context(|| format!("{tried}: no record"))
    }

    fn effect(&self, known: &KnownEffect, tries: usize) -> Result<RemediesPart> {
        let file = match known.file {
            READ_AHEAD => self.mount.device.replace("/dev", "/sys/block") + "/queue/read_ahead_kb",
            file => file.to_owned(),
        };
        if !Path::new(&file).exists() {
            return Ok(RemediesPart::Missing(format!("this kernel has no {file}")));
        }
        let _damon = if known.part == "damon" { Some(self.damon()?) } else { None };
        let is_in_memory = known.part == "thp-latency" && Path::new(REPORTING).exists();
        let _kept = if is_in_memory { Some(setting(REPORTING, NOT_REPORTED)?) } else { None };
        let _before =
            if known.from == read(&file)? { None } else { Some(setting(&file, known.from)?) };
        let longer = middle(&self.tried([known.tried, known.subject, LONGER])?);
        let mut row = EffectRow { longer, ..EffectRow::default() };
        for _ in 0..tries {
            let record = self.tried([known.tried, known.subject, SHORT])?;
            let limits = record.summary.as_ref().and_then(|it| it.limits());
            let holds = limits.is_some_and(|[low, high]| low <= longer && longer <= high);
            let pays = TrialVerdict::from_record(&record) == TrialVerdict::Pays;
            row.paying += usize::from(pays);
            row.found += usize::from(pays && holds);
            row.ratios.push(middle(&record));
            println!("{}: {:.3} in {limits:.3?}", known.name, middle(&record));
            ensure!(read(&file)? == known.from, "{}: not as before", known.name);
        }
        Ok(RemediesPart::Effect(row))
    }

    /// DAMON with other settings while this lives.
    fn damon(&self) -> Result<[Box<dyn Any>; 2]> {
        let state = format!("{DAMON}/state");
        ensure!(read(&state)? == "on", "{state}: DAMON does not run");
        let group = self.group.file("");
        let group = group.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        std::fs::write(
            format!("{DAMON}/contexts/0/schemes/0/ops_filters/0/memcg_path"),
            format!("/{group}"),
        )?;
        let path = |file| format!("{DAMON}/contexts/0/{file}");
        let all = DAMON_SETTINGS.map(|(file, value)| setting(&path(file), value));
        let all = all.into_iter().collect::<Result<Vec<_>>>()?;
        // It reads them when it starts: here, and after they are restored.
        std::fs::write(&state, "off")?;
        std::fs::write(&state, "on")?;
        Ok([Box::new(all), Box::new(DamonRestart)])
    }

    fn placebos(&self, count: usize) -> Result<RemediesPart> {
        let mut counts = [0; 3];
        for _ in 0..count {
            let verdict =
                TrialVerdict::from_record(&self.tried([PLACEBO, PLACEBO_SUBJECT, SHORT])?);
            counts[match verdict {
                TrialVerdict::Pays => 0,
                TrialVerdict::Same(_) => 1,
                TrialVerdict::Costs | TrialVerdict::Undecided => 2,
            }] += 1;
        }
        Ok(RemediesPart::Placebos(counts))
    }

    /// Kills a try at another moment each time.
    fn kills(&self, count: usize) -> Result<RemediesPart> {
        let now = || Ok::<_, anyhow::Error>([read(CONGESTION)?, read(THP)?]);
        let before = now()?;
        let (mut left, mut restored) = (0, 0);
        for at in 0..count {
            let words = ["doctor", "--try", "congestion", "thp", "--for", "sleep 0.01"];
            let mut command = Command::new(&self.program);
            command.args(words).env("FATHOM_STORE", self.folder.path().join("fathom.db"));
            let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
            std::thread::sleep(Duration::from_millis(500 + 5_000 * at as u64 / count as u64));
            child.kill()?;
            child.wait()?;
            left += usize::from(now()? != before);
            let status = self.command(&["doctor", "--undo"]).stdout(Stdio::null()).status()?;
            restored += usize::from(status.success() && now()? == before);
        }
        Ok(RemediesPart::Kills([count, left, restored]))
    }
}

struct DamonRestart;

impl Drop for DamonRestart {
    fn drop(&mut self) {
        for state in ["off", "on"] {
            let _ = std::fs::write(format!("{DAMON}/state"), state);
        }
    }
}

/// `chase`: so many loads from so much memory, each at a place that the one before it names.
pub(crate) fn chase(mib: usize, loads: usize) -> Result<bool> {
    let mut memory = vec![0_u64; (mib << 20) / 8];
    ensure!(memory.len().is_power_of_two(), "{mib} is no power of two");
    // Each page is there.
    memory.iter_mut().step_by(512).for_each(|word| *word = black_box(0));
    let (mask, mut at) = (memory.len() - 1, 0_usize);
    for _ in 0..loads {
        // A generator of full period; what is loaded is 0.
        at = at.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        at = at.wrapping_add(memory[at & mask] as usize);
    }
    black_box(at);
    Ok(true)
}

fn middle(record: &Record) -> f64 {
    record.summary.as_ref().map_or(f64::NAN, |it| it.median)
}

/// The value of a setting: the one in brackets, if there are some.
fn read(file: &str) -> Result<String> {
    let text = std::fs::read_to_string(file).with_context(|| file.to_owned())?;
    Ok(text.split(['[', ']']).nth(1).unwrap_or(text.trim()).to_owned())
}

/// The parts whose name contains `only`; writes the page when all are known.
pub(crate) fn run(root: &Path, program: &str, tries: usize, only: &str) -> Result<bool> {
    let program = std::fs::canonicalize(program).with_context(|| program.to_owned())?;
    let names: Vec<&str> = KNOWN.iter().map(|known| known.part).chain([PLACEBOS, KILLS]).collect();
    let chosen: Vec<&str> = names.iter().copied().filter(|name| name.contains(only)).collect();
    if chosen.is_empty() {
        bail!("{only}: none of {}", names.join(", "));
    }
    let parameters = [("RUNS", tries.to_string())];
    let mut parts = EvidenceParts::load(root.join(KEPT), &[tries.to_string()]);
    let origin = EvidenceOrigin::here(root);
    let bed = Bed {
        program,
        lab: std::env::current_exe()?,
        folder: tempfile::tempdir_in("/var/tmp")?,
        mount: LabMount::new()?,
        group: LabGroup::new("memory", "remedies", &[])?,
    };
    for name in chosen {
        let part = match KNOWN.iter().find(|known| known.part == name) {
            Some(known) => bed.effect(known, tries),
            None if name == PLACEBOS => bed.placebos(PLACEBOS_PER_TRY * tries),
            None => bed.kills(KILLS_PER_TRY * tries),
        };
        let part = part.with_context(|| name.to_owned())?;
        println!("{name}: {part:?}");
        parts.set(name, &origin, part).context(KEPT)?;
    }
    let Some(all) = parts.all(&names) else { return Ok(true) };
    let (body, criteria) = page(all.iter().map(|(name, _, part)| (*name, *part)));
    let origins: Vec<(&str, &EvidenceOrigin)> = all.iter().map(|it| (it.0, it.1)).collect();
    let contents = EvidenceContents {
        parameters: &parameters,
        origins: &origins,
        criteria: &criteria,
        body: &body,
    };
    let missed = REMEDIES.write(root, &contents)?;
    missed.iter().for_each(|line| println!("{line}"));
    Ok(missed.is_empty())
}

const PREFACE: &str = "\
Each try has eight passes. It has found an effect if it says that the setting pays, and its
interval holds the median of a longer run (a minute). Ratios are of the number with the new value to
the old one. The disk is a loop device in memory, with limits. DAMON pages out files of the lab that
rest for half a second; as the machine runs it, that takes a minute. For the loads from memory a
guest does not give its free pages back: their first touch would take longer than all loads.

| setting | longer run | called paying | and holds the longer run | ratio of each try |
|---|---:|---:|---:|---|
";

fn page<'p>(parts: impl Iterator<Item = (&'p str, &'p RemediesPart)>) -> (String, Vec<Criterion>) {
    let (mut body, mut criteria) = (PREFACE.to_owned(), Vec::new());
    let mut below = String::new();
    for (part, result) in parts {
        let name = KNOWN.iter().find(|known| known.part == part).map_or(part, |known| known.name);
        match result {
            RemediesPart::Effect(EffectRow { longer, found, paying, ratios }) => {
                let of = ratios.len();
                let each: Vec<String> = ratios.iter().map(|it| format!("{it:.3}")).collect();
                let each = each.join(", ");
                let _ = writeln!(
                    body,
                    "| {name} | {longer:.3} | {paying} of {of} | {found} of {of} | {each} |"
                );
                let text = format!("{name}: found in {found} of {of}");
                criteria.push(Criterion::new(text, *found as f64 >= FOUND_MIN * of as f64));
            }
            RemediesPart::Placebos(counts @ [paying, same, others]) => {
                let of = counts.iter().sum::<usize>();
                let text = format!("placebos called paying: {paying} of {of}");
                criteria.push(Criterion::new(text, *paying <= PAYING_MAX));
                let _ = writeln!(
                    below,
                    "Of the other placebos, {same} had no difference within 5 %; {others} were \
                     undecided or called costing."
                );
            }
            RemediesPart::Kills([of, left, restored]) => {
                let text = format!(
                    "as before after a kill and `--undo`: {restored} of {of} ({left} had left a \
                     setting changed)"
                );
                criteria.push(Criterion::new(text, restored == of && *left > 0));
            }
            RemediesPart::Missing(why) => {
                let _ = writeln!(below, "*{name}* was left out: {why}.");
            }
        }
    }
    (format!("{body}\n{below}"), criteria)
}
