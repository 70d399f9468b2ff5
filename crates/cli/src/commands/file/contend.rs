//! `fathom file contend`: processes that read files of their own at the same time.
//!
//! Each is a fresh process (`contender`). A pipe holds all of them until all are ready: when this
//! end of it closes, they begin. What counts is the time from when the last began to when the
//! first was done, in which all of them read.

use std::io::{PipeReader, Read as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::Ordering;

use fathom_analysis::statistics::{self, Line};
use fathom_fileio::residency::{self, State};
use fathom_fileio::{Source, read};
use fathom_record::{Cause, Disturbance, Params, Reason, Unit, Verdict};
use fathom_report::quantity;
use indicatif::ProgressBar;

use super::cap::Cap;
use super::contender::{BLOCK, READY};
use super::session::{Measured, Session, checked, refuse, size};
use super::state;
use super::temporary::{Folder, Temporary};
use crate::arguments::file::{ContendArguments, StateName};
use crate::exit::Status;
use crate::pipeline::worker;

/// The least that tells a device from its latency.
const BYTES_MIN: u64 = 1 << 20;
/// More than a share of time could read.
const BYTES_MAX: u64 = 64 << 30;
/// Less that all of them read together tells nothing: blocks, on average.
const TOGETHER_MIN: usize = 8;
/// A round in which one was done before another had begun is tried again.
const TRIES: u32 = 5;
/// A file that is in memory by more than this share was not read past it.
const CACHED_MAX: f64 = 0.25;

/// The files of the processes, and how they are read.
struct Files {
    sources: Vec<Source>,
    /// Past the page cache, or after they were dropped from it.
    asked: StateName,
    bytes: u64,
    /// Of a round.
    nanoseconds: u64,
    /// What was not as it should have been.
    wrong: Option<Verdict>,
}

/// All rounds with so many processes: nanoseconds that a block took, in each.
struct Row {
    processes: u64,
    rounds: Vec<Option<f64>>,
}

impl Row {
    fn values(&self) -> Vec<f64> {
        self.rounds.iter().copied().flatten().collect()
    }

    /// That some rounds gave nothing.
    fn doubt(&self) -> Option<Reason> {
        let lost = self.rounds.iter().filter(|round| round.is_none()).count();
        let all = self.rounds.len();
        let text = format!("in {lost} of {all} rounds not all processes read at the same time");
        let reason = || Reason::new(Cause::MissingInput, text).with_next("give more --bytes");
        (lost > 0).then(reason)
    }
}

pub(super) fn contend(arguments: &ContendArguments) -> anyhow::Result<Status> {
    let bytes = arguments.bytes / BLOCK as u64 * BLOCK as u64;
    if !(BYTES_MIN..=BYTES_MAX).contains(&bytes) {
        let (least, most) = (size(BYTES_MIN), size(BYTES_MAX));
        let got = size(arguments.bytes);
        return Err(refuse(format!("--bytes {got}: a file of {least} to {most} is meant")));
    }
    let most = arguments.processes.0.iter().copied().max().unwrap_or(1);
    let folder = Folder::on_device(arguments.folder.as_deref())?;
    folder.check(most * bytes)?;
    let mut session = Session::begin(&arguments.common, "file contend".to_owned())?;
    let Some(mut files) = files(&mut session, arguments, &folder, most, bytes)? else {
        return Ok(Status::Interrupted);
    };
    let row = |&processes: &u64| Row { processes, rounds: Vec::new() };
    let mut rows: Vec<Row> = arguments.processes.0.iter().map(row).collect();
    let (done, disturbance) =
        session.observed(|_| rounds(&session, arguments, &mut files, &mut rows));
    done?;
    files.check_unread();
    tell(&mut session, &files, &rows, &disturbance);
    session.end()
}

/// A file for each process, and the way to read them; none where it was told to stop.
fn files(
    session: &mut Session,
    arguments: &ContendArguments,
    folder: &Folder,
    most: u64,
    bytes: u64,
) -> anyhow::Result<Option<Files>> {
    let all = size(most * bytes);
    let reads = format!("reads for {:.0} s at most", arguments.time_limit.as_secs_f64());
    let text = format!("writes {most} files of {}, {all}, and {reads}", size(bytes));
    session.say_facts(&[("temporary", text)]);
    let mut sources = Vec::new();
    for _ in 0..most {
        let mut file = Temporary::new(folder)?;
        if !file.resize(bytes, session.stop().now(), &ProgressBar::hidden())? {
            return Ok(None);
        }
        residency::evict(file.file())?;
        sources.push(file.into_source());
    }
    let request =
        read::Request { range: Some(0..BLOCK as u64), ..read::Request::whole(read::Way::Direct) };
    let direct = fathom_fileio::read(&sources[0], &request, session.clock());
    let is_direct = direct.is_ok_and(|outcome| outcome.fallbacks == 0 && outcome.faults.is_empty());
    let rounds = arguments.processes.0.len() as f64 * f64::from(arguments.repeat);
    let share = arguments.time_limit.div_f64(rounds);
    Ok(Some(Files {
        sources,
        asked: if is_direct { StateName::Direct } else { StateName::Cold },
        bytes,
        nanoseconds: share.as_nanos() as u64,
        wrong: None,
    }))
}

/// Every number of processes once in each round, so that a slow moment falls on all alike.
fn rounds(
    session: &Session,
    arguments: &ContendArguments,
    files: &mut Files,
    rows: &mut [Row],
) -> anyhow::Result<()> {
    let program = worker::Workers::of_this_program()?.program;
    let bar = session.bar(u64::from(arguments.repeat) * rows.len() as u64);
    for _ in 0..arguments.repeat {
        for row in &mut *rows {
            if session.stop().now().load(Ordering::Relaxed) {
                break;
            }
            let mut block = None;
            for _ in 0..TRIES {
                block = block.or(overlap(&files.round(&program, row.processes)?));
                if block.is_some() {
                    break;
                }
            }
            row.rounds.push(block);
            bar.inc(1);
        }
    }
    bar.finish_and_clear();
    Ok(())
}

impl Files {
    /// One round of so many processes: the moments at which each began, and had each block.
    fn round(&mut self, program: &Path, processes: u64) -> anyhow::Result<Vec<Vec<u64>>> {
        if self.asked == StateName::Cold {
            for source in &self.sources[..processes as usize] {
                let found = residency::evict(source.file())?;
                self.wrong = self.wrong.take().or(state::not_as_asked(source, self.asked, &found));
            }
        }
        let (gate, hold) = std::io::pipe()?;
        let mut all = Vec::new();
        for source in &self.sources[..processes as usize] {
            all.push(Contender(worker::start_tied(|| self.contender(program, source, &gate))?));
        }
        for contender in &mut all {
            let mut ready = [0];
            let said = contender.output()?.read_exact(&mut ready);
            anyhow::ensure!(said.is_ok() && ready == [READY], "a process that was to read ended");
        }
        // All at once: they wait for the end of this pipe.
        drop(hold);
        let mut stamps = Vec::new();
        for contender in &mut all {
            let mut answer = Vec::new();
            contender.output()?.read_to_end(&mut answer)?;
            anyhow::ensure!(answer.len() > 8, "a process that was to read gave no answer");
            let stamp = |bytes: &[u8; 8]| u64::from_le_bytes(*bytes);
            stamps.push(answer.as_chunks::<8>().0.iter().map(stamp).collect());
        }
        Ok(stamps)
    }

    fn contender(
        &self,
        program: &Path,
        source: &Source,
        gate: &PipeReader,
    ) -> std::io::Result<Command> {
        let own = std::process::id();
        let file = PathBuf::from(format!("/proc/{own}/fd/{}", source.file().as_raw_fd()));
        let mut command = Command::new(program);
        command.args(["file", "contender", "--file"]).arg(file);
        command.args(["--coordinator", &own.to_string()]);
        command.args(["--blocks", &(self.bytes / BLOCK as u64).to_string()]);
        command.args(["--nanoseconds", &self.nanoseconds.to_string()]);
        if self.asked == StateName::Direct {
            command.arg("--direct");
        }
        command.stdin(Stdio::from(gate.try_clone()?)).stdout(Stdio::piped());
        // The terminal's Ctrl-C is for this process, which ends after the round.
        command.process_group(0);
        Ok(command)
    }

    /// Reads past the cache leave nothing in it: else they went through it.
    fn check_unread(&mut self) {
        let cached = |source: &Source| match residency::of(source.file()).state {
            State::Warm => true,
            State::Mixed { share } => share > CACHED_MAX,
            State::Cold | State::Unknown { .. } => false,
        };
        if self.asked == StateName::Direct && self.sources.iter().any(cached) {
            let text = "the file system took direct reads, and read by way of the page cache";
            let verdict =
                || Verdict::because(fathom_record::State::Invalid, Cause::NotAsAsked, text);
            self.wrong.get_or_insert_with(verdict);
        }
    }

    fn state(&self) -> &'static str {
        if self.asked == StateName::Direct { "direct" } else { "cold" }
    }
}

/// A process that reads. It ends with this value.
struct Contender(Child);

impl Contender {
    fn output(&mut self) -> anyhow::Result<&mut std::process::ChildStdout> {
        self.0.stdout.as_mut().ok_or_else(|| anyhow::anyhow!("a process without output"))
    }
}

impl Drop for Contender {
    fn drop(&mut self) {
        // It has mostly ended by itself; then there is nothing to kill.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What a block took, by the moments of each process, while all of them read: from when the last
/// began until the first was done. None where there was no such time.
fn overlap(stamps: &[Vec<u64>]) -> Option<f64> {
    let from = *stamps.iter().filter_map(|one| one.first()).max()?;
    let to = *stamps.iter().filter_map(|one| one.last()).min()?;
    let within = |one: &Vec<u64>| one[1..].iter().filter(|&&at| at > from && at <= to).count();
    let blocks: usize = stamps.iter().map(within).sum();
    let time = to.checked_sub(from)? as f64;
    (blocks >= TOGETHER_MIN * stamps.len()).then(|| stamps.len() as f64 * time / blocks as f64)
}

/// The line through the medians, and the slope of each round.
fn fitted(rows: &[Row]) -> Option<(Line, Vec<f64>)> {
    let median = |row: &Row| Some((row.processes as f64, statistics::median(&row.values())?));
    let (x, y): (Vec<f64>, Vec<f64>) = rows.iter().filter_map(median).unzip();
    let whole = statistics::line(&x, &y)?;
    let rounds = rows.iter().map(|row| row.rounds.len()).min()?;
    let slope = |round: usize| {
        let point = |row: &Row| Some((row.processes as f64, row.rounds[round]?));
        let (x, y): (Vec<f64>, Vec<f64>) = rows.iter().filter_map(point).unzip();
        statistics::line(&x, &y).map(|line| line.slope)
    };
    Some((whole, (0..rounds).filter_map(slope).collect()))
}

fn tell(session: &mut Session, files: &Files, rows: &[Row], disturbance: &Disturbance) {
    let cap = Cap::on_reads(files.sources[0].file(), Some(BLOCK));
    let told = cap.as_ref().map(|cap| cap.told.clone()).unwrap_or_default();
    let facts = [("files", state::place(&files.sources[0])), ("read", files.state().to_owned())];
    session.say_facts(&facts);
    cap.iter().for_each(|cap| session.say_facts(&cap.facts()));
    let all = |row: &Row, ns: &f64| 1e9 * row.processes as f64 * BLOCK as f64 / ns;
    let mut text = format!("\n{:>9}{:>16}{:>22}\n", "processes", "a block takes", "all together");
    let mut records = Vec::new();
    for row in rows.iter().filter(|row| !row.rounds.is_empty()) {
        let values = row.values();
        let rates: Vec<f64> = values.iter().map(|ns| all(row, ns)).collect();
        let ns = statistics::median(&values).unwrap_or(f64::NAN);
        let (time, rate) = (quantity(ns, Unit::Nanoseconds), all(row, &ns));
        let rate = quantity(rate, Unit::BytesPerSecond);
        text += &format!("{:>9}{time:>16}{rate:>22}\n", row.processes);
        records.push(session.record(Measured {
            metric: "file.contention",
            params: Params::one("processes", row.processes as i64).and("state", files.state()),
            values,
            in_fresh_processes: true,
            disturbance: disturbance.clone(),
            checks: checked(vec![
                ("file", state::place(&files.sources[0])),
                ("block", BLOCK.to_string()),
            ]),
            verdict: files.wrong.clone(),
            doubts: row.doubt().into_iter().collect(),
            remarks: cap.iter().filter_map(|cap| cap.reached(&rates)).collect(),
            notes: told.clone(),
            ..Measured::default()
        }));
    }
    session.say(&text);
    let fitted = fitted(rows);
    if let Some((line, slopes)) = &fitted {
        let (slope, intercept) = (time(line.slope), time(line.intercept));
        let fit = format!("{slope} × processes + {intercept} (r² {:.3})", line.r_squared);
        session.say_facts(&[("a block takes", fit.clone())]);
        records.push(session.record(Measured {
            metric: "file.contention.per_process",
            params: Params::one("state", files.state()),
            values: slopes.clone(),
            is_difference: true,
            in_fresh_processes: true,
            disturbance: disturbance.clone(),
            verdict: files.wrong.clone(),
            notes: vec![fit],
            ..Measured::default()
        }));
    }
    // Those between the first and the last say nothing of their own.
    let between = 1..records.len().saturating_sub(if fitted.is_some() { 2 } else { 1 });
    for (index, record) in records.iter().enumerate() {
        if !between.contains(&index) {
            session.say(&format!("\n{}\n", record.name()));
            session.say_standing(record);
        }
    }
}

fn time(ns: f64) -> String {
    quantity(ns, Unit::Nanoseconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Moments from one on, so far apart.
    fn moments(from: u64, apart: u64, blocks: u64) -> Vec<u64> {
        (0..=blocks).map(|block| from + apart * block).collect()
    }

    #[test]
    fn only_what_all_of_them_read_together_counts() {
        let alone = moments(100, 100, 40);
        assert_eq!(overlap(std::slice::from_ref(&alone)), Some(100.0));
        // From 1100, when the second began, to 4100, when the first was done: 30 and 10 blocks.
        let slower = moments(1100, 300, 40);
        assert_eq!(overlap(&[alone.clone(), slower]), Some(2.0 * 3000.0 / 40.0));
        assert_eq!(overlap(&[alone.clone(), moments(4100, 100, 40)]), None, "one after the other");
        assert_eq!(overlap(&[alone.clone(), moments(3500, 100, 40)]), None, "hardly together");
        assert_eq!(overlap(&[alone, vec![100]]), None);
        assert_eq!(overlap(&[]), None);
    }

    #[test]
    fn the_slope_is_that_of_each_round_and_the_line_that_of_the_medians() {
        let row = |processes, values: [f64; 3]| Row { processes, rounds: values.map(Some).into() };
        let mut rows = [
            row(1, [10.0, 11.0, 12.0]),
            row(2, [20.0, 22.0, 24.0]),
            row(4, [40.0, 44.0, 48.0]),
            row(8, [80.0, 88.0, 96.0]),
        ];
        let slopes = |rows: &[Row]| {
            let (line, slopes) = fitted(rows).expect("enough points");
            (line.slope.round(), slopes.iter().map(|slope| slope.round()).collect::<Vec<_>>())
        };
        assert_eq!(slopes(&rows), (11.0, vec![10.0, 11.0, 12.0]));
        rows[1].rounds[0] = None;
        assert_eq!(slopes(&rows).1, [10.0, 11.0, 12.0], "a round has a line without one of them");
        assert!(rows[1].doubt().is_some_and(|doubt| doubt.text.contains("1 of 3 rounds")));
        assert_eq!(rows[0].doubt(), None);
        assert!(fitted(&rows[..2]).is_none(), "two points make no line");
    }
}
