//! os.pipe.bandwidth and os.unix.bandwidth: throughput of a pipe or a Unix stream socket.

use std::cell::RefCell;

use fathom_measure::sampler::Kernel;
use fathom_record::Histogram;

use super::child::Switches;
use super::stream::{OsStream, PIPE_BYTES, StreamChannel};
use super::wake::no_second_cpu;
use crate::prelude::*;

pub static PIPE_BANDWIDTH: Bandwidth = Bandwidth { about: &PIPE, channel: StreamChannel::Pipe };
pub static UNIX_BANDWIDTH: Bandwidth =
    Bandwidth { about: &UNIX, channel: StreamChannel::UnixSocket };

/// A byte stream from one process to another.
pub struct Bandwidth {
    about: &'static About,
    channel: StreamChannel,
}

const BASE: About = About {
    unit: Unit::BytesPerSecond,
    better: Better::Higher,
    parameters: &[
        Parameter::new(
            "chunk_bytes",
            "64 KiB, 4 KiB",
            "bytes of one write; the reader reads until it has as many",
        ),
        Parameter::new(
            "cpus",
            "1, 2",
            "1: writer and reader share the worker's CPU · 2: the writer has another CPU",
        ),
    ],
    not_timed: "starting the writer; waking it for the first chunk of a batch, which the \
                difference of N and 2N chunks removes; producing and consuming data: the buffers \
                stay cached, as reused buffers do",
    requires: "for cpus=2, a second CPU",
    // Other cases change the scheduler's statistics of the worker.
    cases_share_visits: false,
    ..super::TURNS
};
const IN_FLIGHT: &str = "a writer that runs ahead fills the buffer before the timer starts, which \
                         overestimates: here each batch is requested by a message, so nothing is \
                         in flight before or after it";
const RECEIVED: &str = "bytes are counted by the reader; the first word of each page is its number \
                        in the stream, written and compared within the timed loop, a few \
                        nanoseconds a page";
const TWO_CPUS: &str = "on two CPUs a reader that catches up sleeps, and waking it is part of the \
                        number; that is expensive in a guest, where an idle virtual CPU halts";
const NOT_PLACED: &str = "lmbench's bw_pipe and bw_unix do not pin their processes, and their \
                          writers run ahead";
const INLINED: &str = "read and write are inlined system calls: the C library's functions add a \
                       mispredicted return each, which matters for small chunks";

static PIPE: About = About {
    id: "os.pipe.bandwidth",
    title: "bandwidth of a pipe",
    timed: "bytes read from a pipe of 64 KiB, written by another process: a copy into the kernel, \
            a copy out of it, the system calls, and the context switches or wake-ups between them",
    model: "with chunk=64 KiB a bound: on one CPU a full pipe costs a write, a read and two \
            switches, so ≤ 64 KiB ÷ (2 × os.switch.process{set_bytes=0} + \
            os.syscall{call=write1} + os.syscall{call=read1}); the pipe's lock is held during a \
            copy, so two CPUs copy in turn and save the switches at best: ≤ 64 KiB ÷ \
            (64 KiB ÷ bandwidth on one CPU − 2 × os.switch.process{set_bytes=0}). With chunk=4 KiB \
            a value on one CPU: 15 more writes and reads for each 64 KiB. On two CPUs there is no \
            model: which side sleeps, and how often, depends on the scheduler",
    source: "Linux fs/pipe.c: pipe_write and pipe_read copy under pipe->mutex, and sleep when the \
             pipe is full or empty",
    pitfalls: &[
        IN_FLIGHT,
        RECEIVED,
        TWO_CPUS,
        NOT_PLACED,
        INLINED,
        "on two CPUs it may be bimodal: 64 KiB fill the pipe, and once one side sleeps, its \
         wake-up takes longer than the other's copy, so both sleep alternately for a while. Each \
         64 KiB are timed separately (one clock read); a mode's share counts these, not time. A \
         socket holds several chunks and is drained in bursts, so its chunks are not timed",
        "a pipe's size depends on the page size, and shrinks for a user with many pipes: 64 KiB \
         are set and verified, else the metric is unavailable",
    ],
    needs: &["os.syscall", "os.switch.process"],
    published: "548 MB/s (lmbench bw_pipe, 1.4 GHz Cortex-A53, TI AM62x Linux 12.01 Performance \
                Guide)",
    ..BASE
};

static UNIX: About = About {
    id: "os.unix.bandwidth",
    title: "bandwidth of a Unix socket",
    timed: "bytes read from one of two connected Unix stream sockets, written by another process: \
            a copy into the kernel, a copy out of it, allocating and freeing the buffers, the \
            system calls, and the context switches or wake-ups",
    model: "on one CPU a bound: with chunk=64 KiB each chunk costs at least a small message \
            without its switch, so ≤ 64 KiB ÷ (os.unix.rtt{kind=stream} ÷ 2 − \
            os.switch.process{set_bytes=0}); with chunk=4 KiB the same 64 KiB take 15 more writes \
            and reads, and a buffer for each write. On two CPUs there is no model: how far the \
            two copies overlap depends on the scheduler",
    source: "Linux net/unix/af_unix.c: unix_stream_sendmsg allocates, copies and queues for each \
             write, unix_stream_read_generic copies and frees",
    pitfalls: &[
        IN_FLIGHT,
        RECEIVED,
        TWO_CPUS,
        NOT_PLACED,
        INLINED,
        "the number of bytes in flight depends on net.core.wmem_default: the send buffer is set to \
         212,992 bytes, its usual default, and read back",
    ],
    needs: &["os.syscall", "os.switch.process", "os.unix.rtt"],
    published: "649 MB/s (lmbench bw_unix, 1.4 GHz Cortex-A53, TI AM62x Linux 12.01 Performance \
                Guide)",
    ..BASE
};

const LARGE: i64 = 64 << 10;
const SMALL: i64 = 4 << 10;
/// Bytes of one iteration: enough that waking the writer on another CPU for the first chunk is a
/// small part of a batch.
const ITERATION_BYTES: usize = 4 << 20;
/// Tolerance of the worker's switches against one for each full pipe.
const DEVIATION_MAX: f64 = 0.02;

fn params(chunk_bytes: i64, cpus: i64) -> Params {
    Params::one("chunk_bytes", chunk_bytes).and("cpus", cpus)
}

metric!(Bandwidth.about);

impl Probe for Bandwidth {
    /// On two CPUs the worker sleeps while the writer fills the buffer.
    fn expects(&self, case: &ProbeCase) -> Counters {
        match case.params.integer("cpus") {
            Some(2) => Counters::SLEEP,
            _ => Counters::TURNS,
        }
    }

    fn cases(&self, _: &Host, _: &Sizes) -> Vec<ProbeCase> {
        let case = |chunk, cpus| {
            // Both sides may sleep for each 64 KiB.
            let cost_ns = if (chunk, cpus) == (LARGE, 2) { 50e6 } else { 30e6 };
            ProbeCase { params: params(chunk, cpus), cost_ns }
        };
        vec![case(LARGE, 1), case(LARGE, 2), case(SMALL, 1), case(SMALL, 2)]
    }

    fn predict(&self, case: &ProbeCase, _: &Host, known: &Inputs<'_>) -> Model {
        let chunk = case.params.integer("chunk_bytes").unwrap_or(LARGE);
        match (self.channel, chunk, case.params.integer("cpus")) {
            (StreamChannel::Pipe, LARGE, Some(1)) => {
                let mut terms = calls(1.0);
                terms.push(BandwidthTerm::switches(2.0));
                let source = "a pipe of 64 KiB is written and read once for each 64 KiB, and on \
                              one CPU the two sides alternate";
                at_most(&terms, source, known)
            }
            (StreamChannel::Pipe, LARGE, _) => {
                let source = "Linux fs/pipe.c: both sides copy under one lock, so two CPUs save \
                              switches but no copying";
                let terms = [BandwidthTerm::stream(PIPE.id, LARGE), BandwidthTerm::switches(-2.0)];
                at_most(&terms, source, known)
            }
            (StreamChannel::UnixSocket, LARGE, Some(1)) => {
                let terms = [BandwidthTerm::message(0.5), BandwidthTerm::switches(-1.0)];
                let source = "a chunk is written, queued and read like a message of one byte, \
                              and then copied twice";
                at_most(&terms, source, known)
            }
            (_, LARGE, _) => Err(NoModel::TwoCopies),
            (channel, _, Some(1)) => {
                let mut terms = calls(((LARGE - SMALL) / SMALL) as f64);
                terms.push(BandwidthTerm::stream(self.about.id, LARGE));
                let source =
                    "the same bytes and switches, but 16 calls instead of one on each side";
                match channel {
                    StreamChannel::Pipe => value(&terms, source, known),
                    StreamChannel::UnixSocket => at_most(&terms, source, known),
                }
            }
            _ => Err(NoModel::SchedulersChoice),
        }
    }

    fn visit(&self, cases: &[ProbeCase], sampler: &mut Sampler) -> Result<()> {
        each(cases, sampler, |index, case, sampler| {
            let settings = sampler.settings();
            let cpu = match case.params.integer("cpus") {
                Some(2) => settings.other_cpu.ok_or_else(no_second_cpu)?,
                _ => settings.cpu,
            };
            let chunk_bytes = chunk_of(case);
            let mut stream = OsStream::start(self.channel, chunk_bytes, cpu)?;
            sampler.works_with(stream.process());
            let before = Switches::of_this_thread();
            let clock = sampler.clock().clone();
            let timings = RefCell::default();
            let is_pipe = self.channel == StreamChannel::Pipe;
            let timed = is_pipe.then_some(&timings);
            sampler.run(vec![work(index, chunk_bytes, &mut stream, &clock, timed)]);
            let switches = Switches::of_this_thread().since(&before).total();
            let bytes = stream.received * chunk_bytes as u64;
            // On one CPU the worker must switch once for each full pipe.
            if is_pipe && cpu == settings.cpu {
                let least = (1.0 - DEVIATION_MAX) * (bytes / PIPE_BYTES as u64) as f64;
                let detail = format!("{bytes} bytes, {switches} context switches of the worker");
                sampler.check(index, "turns", switches as f64 >= least, detail);
            }
            let error = stream.finish()?;
            let allowed = affinity::allowed();
            let passed = error.is_none() && allowed == [settings.cpu];
            let cpus = || format!("writer on CPU {cpu}, worker's CPU affinity: {allowed:?}");
            sampler.check(index, "CPUs", passed, error.unwrap_or_else(cpus));
            Ok(())
        })
    }
}

fn chunk_of(case: &ProbeCase) -> usize {
    let bytes = case.params.number("chunk_bytes");
    bytes.unwrap_or(LARGE as usize)
}

/// Receives `ITERATION_BYTES` an iteration. For a pipe each 64 KiB are also timed, except the
/// first, which include waking the writer.
fn work<'s>(
    index: usize,
    chunk_bytes: usize,
    stream: &'s mut OsStream,
    clock: &'s Clock,
    timings: Option<&'s RefCell<Histogram>>,
) -> SamplerWork<'s> {
    let [chunks, full] = [ITERATION_BYTES, PIPE_BYTES].map(|bytes| (bytes / chunk_bytes) as u64);
    let kernel: Kernel<'s> = match timings {
        None => Box::new(move |iterations| stream.receive(iterations * chunks) / chunks),
        Some(timings) => Box::new(move |iterations| {
            let (mut timings, mut last) = (timings.borrow_mut(), None);
            let arrived = |received| {
                if received % full == 0 {
                    // One stamp ends a stretch of 64 KiB and begins the next.
                    let now = clock.stop();
                    let rate = |last| PIPE_BYTES as f64 * 1e9 / clock.ns(last, now);
                    last.replace(now).into_iter().for_each(|last| timings.add(rate(last)));
                }
            };
            stream.receive_each(iterations * chunks, arrived) / chunks
        }),
    };
    let to_unit = |ns_a_byte| 1e9 / ns_a_byte;
    let per_iteration = ITERATION_BYTES as f64;
    let (case, twin, has_entry) = (index, None, true);
    SamplerWork::Batched { case, kernel, twin, has_entry, per_iteration, to_unit, timings }
}

/// A part of the time that 64 KiB take.
struct BandwidthTerm {
    times: f64,
    metric: &'static str,
    params: Params,
    /// The metric is a rate: the term is the time of 64 KiB at this rate.
    is_rate: bool,
}

impl BandwidthTerm {
    fn call(times: f64, call: &str) -> Self {
        let params = Params::one("call", call);
        Self { times, metric: "os.syscall", params, is_rate: false }
    }

    fn switches(times: f64) -> Self {
        let params = Params::one("set_bytes", 0);
        Self { times, metric: "os.switch.process", params, is_rate: false }
    }

    /// Round trips of a byte over a Unix stream socket.
    fn message(times: f64) -> Self {
        let params = Params::one("kind", "stream");
        Self { times, metric: "os.unix.rtt", params, is_rate: false }
    }

    /// 64 KiB in chunks of this size on one CPU.
    fn stream(metric: &'static str, chunk_bytes: i64) -> Self {
        Self { times: 1.0, metric, params: params(chunk_bytes, 1), is_rate: true }
    }

    fn ns(&self, known: &Inputs<'_>) -> Result<f64, NoModel> {
        let value = earlier(self.metric, &self.params, known)?;
        Ok(self.times * if self.is_rate { LARGE as f64 * 1e9 / value } else { value })
    }

    fn formula(&self) -> String {
        let name = format!("{}{}", self.metric, self.params);
        match (self.is_rate, self.times.abs()) {
            (true, _) => format!("64 KiB ÷ {name}"),
            (false, 1.0) => name,
            (false, times) => format!("{times} × {name}"),
        }
    }
}

/// As many writes and reads.
fn calls(times: f64) -> Vec<BandwidthTerm> {
    vec![BandwidthTerm::call(times, "write1"), BandwidthTerm::call(times, "read1")]
}

/// 64 KiB ÷ the sum of the terms, and the formula.
fn rate(terms: &[BandwidthTerm], known: &Inputs<'_>) -> Result<(f64, String), NoModel> {
    let (mut sum_ns, mut formula) = (0.0, String::new());
    for term in terms {
        sum_ns += term.ns(known)?;
        formula += match (formula.is_empty(), term.times < 0.0) {
            (true, _) => "",
            (_, false) => " + ",
            (_, true) => " − ",
        };
        formula += &term.formula();
    }
    match sum_ns > 0.0 {
        true => Ok((LARGE as f64 * 1e9 / sum_ns, format!("64 KiB ÷ ({formula})"))),
        false => Err(NoModel::NoTime { formula, value: sum_ns }),
    }
}

/// An upper bound.
fn at_most(terms: &[BandwidthTerm], source: &str, known: &Inputs<'_>) -> Model {
    let (limit, formula) = rate(terms, known)?;
    let bound = Prediction::at_most(limit, &format!("≤ {formula}"), source);
    with_inputs(bound, terms, known)
}

fn value(terms: &[BandwidthTerm], source: &str, known: &Inputs<'_>) -> Model {
    let (rate, formula) = rate(terms, known)?;
    let sum = Prediction::sum(0.0, rate, 0.3, &formula, source).self_consistent();
    let otherwise = "if less, the reader is woken and runs before the pipe is full, so small \
                     chunks cost additional switches";
    Ok(with_inputs(sum, terms, known)?.otherwise(otherwise))
}

fn with_inputs(mut prediction: Prediction, terms: &[BandwidthTerm], known: &Inputs<'_>) -> Model {
    for BandwidthTerm { metric, params, .. } in terms {
        let name = format!("{metric}{params}");
        let value = earlier(metric, params, known)?;
        prediction = prediction.with_input(&name, value, Origin::this_run(&name));
    }
    Ok(prediction)
}

#[cfg(test)]
mod tests;
