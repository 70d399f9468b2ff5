//! Blocks of transfers: each has every cell once, in random order, between two fresh processes.

use std::io::Read as _;
use std::process::{Command, Stdio};
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use fathom_load::check_congestion;
use fathom_measure::clock::monotonic_raw_ns;
use fathom_measure::process::{Running, this_program};
use fathom_measure::{affinity, sampler::LOOPBACK};
use fathom_metric::{Ending, Event, Procedure, ProcedureError, Recorder};
use fathom_paths::device::{Presence, Role, presence};
use fathom_record::{Disturbance, FarEnd};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng as _, SeedableRng as _};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::cell::Cell;
use crate::metrics::BANDWIDTH;
use crate::options::TransferOptions;
use crate::place::{self, Named};
use crate::records;
use crate::run::{REPEAT_MIN, TransferMeasured, TransferRun};
use crate::sender::{self, SenderDone, SenderFailure, SenderLine, SenderOrders, SenderPlace};
use crate::set::{self, Set};

type TransferResult<T> = std::result::Result<T, ProcedureError>;

/// Repetitions of the study, and at most.
const REPEAT_MAX: u32 = 100;
/// A look at Ctrl-C while a sending end works.
const LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };
/// How long CPU load is sampled to find an idle CPU.
const LOAD_WINDOW: Duration = Duration::from_millis(100);
/// Pages that the kernel took are read again this often.
const WARMINGS: u32 = 3;

/// How a pair of processes ended.
enum TransferPair {
    Done,
    /// The cell, and why.
    Failed(usize, SenderFailure),
    /// There can be no other pair: why, and whether the other end does not answer.
    Broken(String, bool),
}

/// The receiving end.
struct FarSide {
    /// The name of the other host, and its place and CPU; `None` on this one.
    to: Option<String>,
    place: Option<SenderPlace>,
    cpu: Option<u32>,
    device: Presence,
    is_emulated: bool,
}

impl Procedure for TransferOptions {
    fn asked(&self) -> String {
        let folders = self.folders.iter().map(|path| path.display().to_string());
        let to = self.to.iter().map(|to| format!("--to {to}"));
        let published = self.published.then(|| "--published".to_owned());
        let device = self.device.then(|| "--device".to_owned());
        folders.chain(to).chain(published).chain(device).collect::<Vec<String>>().join(" ")
    }

    fn prior_metrics(&self) -> &'static [&'static str] {
        &[BANDWIDTH]
    }

    fn part(&self) -> Option<TransferResult<()>> {
        self.sender.then(|| Ok(sender::run()?))
    }

    fn check(&self) -> TransferResult<()> {
        if let Some(text) = &self.to {
            Named { option: "--to", text }.check().map_err(ProcedureError::usage)?;
        }
        self.check_sizes().map_err(ProcedureError::usage)?;
        self.congestion.as_deref().map_or(Ok(()), check_congestion)?;
        set::check_space(&set::folder(self.folder.as_deref())?, &self.sources())
    }

    fn run(&self, recorder: &mut dyn Recorder) -> TransferResult<Ending> {
        let folder = set::folder(self.folder.as_deref())?;
        let FarSide { to, place: remote, cpu: far_cpu, device, is_emulated } =
            self.far_end(recorder)?;
        let has_device = self.devices(device, to.as_deref())?;
        let is_emulated = is_emulated || recorder.host().is_emulated();
        recorder.set_seed(self.seed);
        let busy = affinity::busy_shares(LOAD_WINDOW);
        let near_cpu = affinity::choose(recorder.host(), &busy).map_or(0, |choice| choice.cpu);
        let other = affinity::allowed().into_iter().find(|cpu| *cpu != near_cpu);
        let cpus = [near_cpu, far_cpu.or(other).unwrap_or(near_cpu)];
        let sources = self.sources();
        recorder.event(Event::Progress { done: 0, all: 1, what: "making files" });
        let (sets, _made) = set::prepare(&sources, &folder, recorder.stop().now())?;
        let of_set =
            |(at, set): (usize, &Set)| self.cells(at, set.bytes(), set.largest(), has_device);
        let cells = sets.iter().enumerate().flat_map(of_set);
        let measured = |cell| TransferMeasured { cell, done: Vec::new(), failed: None };
        let congestion = self.congestion.clone();
        let orders = SenderOrders {
            remote,
            cpus,
            folder,
            congestion,
            pages: self.pages,
            sets: Vec::new(),
            cells: vec![],
        };
        let shares_cpu = to.is_none() && cpus[0] == cpus[1];
        let cells = cells.map(measured).collect();
        let mut run =
            TransferRun { sets, cells, to, shares_cpu, is_emulated, orders, disturbed: Vec::new() };
        recorder.event(Event::Plan(&self.plan(&run)));
        let broken = self.blocks(&mut run, recorder)?;
        let has_nothing = run.cells.iter().all(|it| it.done.is_empty());
        if let Some(why) = broken.as_ref().filter(|_| has_nothing) {
            return Err(ProcedureError::failed(why));
        }
        let is_empty = has_nothing && run.cells.iter().all(|it| it.failed.is_none());
        if is_empty && recorder.stop().now().load(Relaxed) {
            return Ok(Ending::Stopped);
        }
        let has_numbers = records::all(recorder, &run, self);
        if let Some(why) = broken {
            return Err(ProcedureError::CutShort(why));
        }
        match run.cells.iter().find_map(|measured| Some(measured.failed.clone()?.why)) {
            Some(why) if !has_numbers => Err(ProcedureError::failed(why)),
            Some(_) => Ok(Ending::NotFound),
            None => Ok(Ending::Done),
        }
    }
}

impl TransferOptions {
    /// Whether each end has its kernel device. Fails if a missing one was asked for.
    fn devices(&self, far: Presence, to: Option<&str>) -> TransferResult<[bool; 2]> {
        let ends = [(Role::Sends, presence(Role::Sends), None), (Role::Receives, far, to)];
        for ((role, found, to), option) in ends.iter().zip(self.needs_devices()) {
            if let (Presence::Missing(obstacle), Some(option)) = (found, option) {
                let (path, to) = (role.path(), to.map_or(String::new(), |to| format!("{to}:")));
                let text = format!("{option}: {to}{path}: {obstacle}; see docs/KERNEL.md");
                return Err(ProcedureError::failed(text));
            }
        }
        Ok(ends.map(|(_, found, _)| found == Presence::Usable))
    }

    fn far_end(&self, recorder: &mut dyn Recorder) -> TransferResult<FarSide> {
        let Some(text) = &self.to else {
            let device = presence(Role::Receives);
            return Ok(FarSide { to: None, place: None, cpu: None, device, is_emulated: false });
        };
        let token_file = place::token_file(self.token_file.as_deref());
        let token_file = token_file.map_err(ProcedureError::failed)?;
        let named = Named { option: "--to", text };
        let reached = named.reach(token_file.as_deref(), self.bind, recorder.host());
        let reached = reached.map_err(ProcedureError::failed)?;
        let device = named.try_files(&reached, token_file.as_deref(), self.bind);
        let device = device.map_err(ProcedureError::failed)?;
        let is_emulated = reached.host.host.is_emulated();
        recorder.add_far(reached.host);
        let place = Some(SenderPlace { address: reached.address, token_file, bind: self.bind });
        let (to, cpu) = (Some(reached.to), Some(reached.cpu));
        Ok(FarSide { to, place, cpu, device, is_emulated })
    }

    /// How often to repeat; `None`: as long as there is time.
    fn repeats(&self) -> Option<u32> {
        self.repeat.or(self.published.then_some(REPEAT_MAX))
    }

    fn plan(&self, run: &TransferRun) -> String {
        let sets: Vec<String> = run.sets.iter().map(Set::describe).collect();
        let (count, time) = (run.cells.len(), self.time.as_secs_f64());
        let to = run.to.as_deref().unwrap_or(LOOPBACK);
        let often = match self.repeats() {
            Some(1) => "once".to_owned(),
            Some(repeat) => format!("{repeat} times"),
            None => format!("up to {REPEAT_MAX} times in about {time:.0} s"),
        };
        let word = if count == 1 { "combination" } else { "combinations" };
        format!("{count} {word} to {to}, {often}, after one that is discarded; {}", sets.join("; "))
    }

    /// Why there can be no further repetitions, if so.
    fn blocks(
        &self,
        run: &mut TransferRun,
        recorder: &mut dyn Recorder,
    ) -> TransferResult<Option<String>> {
        let begun_ns = monotonic_raw_ns();
        let mut random = Xoshiro256PlusPlus::seed_from_u64(self.seed);
        // Finds what is impossible here, and how long a block takes.
        if let Some((why, _)) = run.block(&mut random, recorder)? {
            return Err(ProcedureError::failed(why));
        }
        run.discard_block();
        if recorder.stop().now().load(Relaxed) {
            return Ok(None);
        }
        let block_ns = monotonic_raw_ns() - begun_ns;
        let limit_ns = self.time.as_nanos() as u64;
        let fitting = u32::try_from(limit_ns / block_ns.max(1)).unwrap_or(REPEAT_MAX);
        let repeat = self.repeats().unwrap_or(fitting.clamp(1, REPEAT_MAX));
        let seconds = f64::from(repeat) * block_ns as f64 / 1e9;
        let time = if seconds < 120.0 {
            format!("{seconds:.0} s")
        } else {
            format!("{:.0} min", seconds / 60.0)
        };
        let word = if repeat == 1 { "repetition" } else { "repetitions" };
        recorder.event(Event::Plan(&format!("{repeat} {word}, about {time}")));
        if repeat < REPEAT_MIN {
            let text = format!("{repeat} repetitions have no interval; {REPEAT_MIN} have one");
            recorder.event(Event::Warning(&text));
        }
        for done in 0..repeat {
            let is_late = monotonic_raw_ns() - begun_ns > block_ns + limit_ns;
            if self.repeats().is_none() && done > 0 && is_late {
                break;
            }
            let what = "transferring";
            recorder.event(Event::Progress { done: done.into(), all: repeat.into(), what });
            if let Some((why, is_gone)) = run.block(&mut random, recorder)? {
                let to = run.orders.remote.as_ref().map(|place| place.address.to_string());
                let to = to.unwrap_or_else(|| "the receiving end".to_owned());
                let noun = if done == 1 { "repetition" } else { "repetitions" };
                return Ok(Some(match is_gone {
                    true => format!("{to} stopped answering after {done} {noun}"),
                    false => format!("{to}: {why} (after {done} {noun})"),
                }));
            }
            if recorder.stop().now().load(Relaxed) {
                break;
            }
            recorder.draft(&mut |recorder| records::draft(recorder, run, self));
        }
        Ok(None)
    }
}

impl TransferRun {
    fn discard_block(&mut self) {
        self.cells.iter_mut().for_each(|measured| measured.done.clear());
        self.disturbed.clear();
    }

    /// Every cell once. A cell that fails ends its pair of processes; the others go on with a new
    /// one. What failed once is not tried again. Returns why there can be no other block, if so,
    /// and whether the other end does not answer.
    fn block(
        &mut self,
        random: &mut Xoshiro256PlusPlus,
        recorder: &mut dyn Recorder,
    ) -> TransferResult<Option<(String, bool)>> {
        self.warm(recorder)?;
        let live = self.cells.iter().enumerate().filter(|(_, it)| it.failed.is_none());
        let mut left: Vec<(usize, Cell)> = live.map(|(at, it)| (at, it.cell)).collect();
        shuffle(&mut left, random);
        let mut done: Vec<Option<SenderDone>> = vec![None; self.cells.len()];
        let (mut broken, mut disturbed) = (None, None);
        while !left.is_empty() && !recorder.stop().now().load(Relaxed) {
            let (cell, why) = match self.pair(&left, (&mut done, &mut disturbed), recorder)? {
                TransferPair::Done => break,
                TransferPair::Failed(cell, why) => (cell, why),
                TransferPair::Broken(why, is_gone) => {
                    broken = Some((why, is_gone));
                    break;
                }
            };
            self.cells[cell].failed = Some(why);
            left.retain(|(at, _)| *at != cell && done[*at].is_none());
        }
        // A part of a block has times, and contrasts of what it has.
        if done.iter().any(Option::is_some) {
            for (measured, one) in self.cells.iter_mut().zip(done) {
                measured.done.push(one);
            }
            self.disturbed.push(disturbed.unwrap_or_default());
        }
        Ok(broken)
    }

    fn warm(&self, recorder: &mut dyn Recorder) -> TransferResult<()> {
        let mut cold = None;
        for set in &self.sets {
            let mut is_warm = false;
            for _ in 0..WARMINGS {
                is_warm = is_warm || set.warm(recorder.stop().now())?;
            }
            cold = cold.or((!is_warm).then_some(&set.name));
        }
        if let Some(name) = cold.filter(|_| !recorder.stop().now().load(Relaxed)) {
            let text = format!("the files of {name} do not stay in the page cache");
            recorder.event(Event::Warning(&text));
        }
        Ok(())
    }

    /// Two fresh processes.
    fn pair(
        &mut self,
        left: &[(usize, Cell)],
        (done, disturbed): (&mut [Option<SenderDone>], &mut Option<(Disturbance, FarEnd)>),
        recorder: &mut dyn Recorder,
    ) -> TransferResult<TransferPair> {
        let program = this_program()?;
        let command = || {
            let mut command = Command::new(&program);
            command.args(["transfer", "--sender"]).stdin(Stdio::piped()).stdout(Stdio::piped());
            command.stderr(Stdio::null());
            Ok(command)
        };
        let orders =
            SenderOrders { sets: self.sets.clone(), cells: left.to_vec(), ..self.orders.clone() };
        let mut sender = Running::start_tied(command, &[])?;
        sender.write_input(&serde_json::to_vec(&orders).map_err(std::io::Error::from)?)?;
        let mut text = Vec::new();
        loop {
            while let Some(end) = text.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = text.drain(..=end).collect();
                match serde_json::from_slice(&line).map_err(std::io::Error::from)? {
                    SenderLine::Done(one) => {
                        let at = one.cell;
                        if let Some(place) = done.get_mut(at) {
                            *place = Some(*one);
                        }
                    }
                    SenderLine::Failed { cell, failure, disturbance } => {
                        add(disturbed, *disturbance, FarEnd::default());
                        return Ok(TransferPair::Failed(cell, failure));
                    }
                    SenderLine::Broken { why, is_gone } => {
                        return Ok(TransferPair::Broken(why, is_gone));
                    }
                    SenderLine::End(ends) => {
                        let (near, far) = *ends;
                        add(disturbed, near, far);
                        return Ok(TransferPair::Done);
                    }
                }
            }
            if recorder.stop().now().load(Relaxed) {
                return Ok(TransferPair::Done);
            }
            let out = sender.stdout()?;
            match poll(&mut [PollFd::new(out, PollFlags::IN)], Some(&LOOK)) {
                Ok(0) | Err(rustix::io::Errno::INTR) => continue,
                Ok(_) => {}
                Err(error) => return Err(error.into()),
            }
            let mut piece = [0; 4096];
            match out.read(&mut piece)? {
                // Ctrl-C in a terminal reaches the sending end as well.
                0 if recorder.stop().now().load(Relaxed) => return Ok(TransferPair::Done),
                // It was killed, or failed as a process.
                0 => {
                    let next = left.iter().find(|(at, _)| done[*at].is_none());
                    let why = "the sending end ended without a result".to_owned();
                    let failure = SenderFailure { why, is_missing: false };
                    return Ok(next
                        .map_or(TransferPair::Done, |(at, _)| TransferPair::Failed(*at, failure)));
                }
                count => text.extend_from_slice(&piece[..count]),
            }
        }
    }
}

/// Adds what disturbed a pair of a block. The other end of a pair that failed does not say.
fn add(block: &mut Option<(Disturbance, FarEnd)>, near: Disturbance, far: FarEnd) {
    let near = block.take().map_or_else(|| near.clone(), |(known, _)| known.plus(&near));
    *block = Some((near, far));
}

/// Fisher–Yates. The modulo bias is below 2^-50.
fn shuffle<T>(all: &mut [T], random: &mut Xoshiro256PlusPlus) {
    for last in (1..all.len()).rev() {
        all.swap(last, (random.next_u64() % (last as u64 + 1)) as usize);
    }
}
