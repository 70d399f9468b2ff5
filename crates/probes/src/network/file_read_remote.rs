//! file.read.remote: blocks of a file at another host, or at a service of this one, or of a mount.

mod mount;

use std::cell::RefCell;
use std::net::TcpStream;
use std::time::Duration;

use fathom_fileio::FileGenerator;
use fathom_load::Control;
use fathom_measure::sampler::LOOPBACK;
use fathom_record::Histogram;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

use super::FAR_END;
use super::connections::{TO, rtt};
use super::http_get::state;
use super::service::{Served, Service};
use super::tcp_info::TcpInfo;
use crate::file::generated_file::write_synced;
use crate::prelude::*;

metric!(FileReadRemote, ABOUT);

static ABOUT: About = About {
    id: "file.read.remote",
    title: "remote read of one block",
    timed: "over=http: a GET of a range of 4 KiB from a file of a Fathom service, until its last \
            byte has arrived: the time of a pass ÷ its blocks, at most 16 distinct ones. \
            connection=fresh: each block over a connection of its own, whose set-up is included. \
            over=mount: pread(2) of such blocks (client=warm: all) from a file in the folder for \
            test files. Quantiles: single blocks",
    not_timed: "choosing the blocks, evicting and warming the file, comparing the data (loopback), \
                closing",
    model: "server=warm, kept: a value: network.tcp.rtt{bytes=56, cpus=2, mode=block} to the same \
            far end + os.syscall{call=open_close} + os.syscall{call=fstat}: a segment as the \
            request, a few as the answer, and the copy of 4 KiB costs less than 1 µs. \
            server=cold, kept: a bound: ≥ server=warm. fresh, a value: kept + \
            network.tcp.connect. over=mount, bounds: client=warm: ≥ os.syscall{call=read1}, since \
            no request is sent; client=cold: ≥ client=warm. No value for bounds: the speed of the \
            far device, or of the mounted file system, is not published",
    source: "RFC 9110, 14 (ranges); RFC 6928: the initial window of 10 segments holds a block, so \
             that a fresh connection needs one more round trip only",
    pitfalls: &[
        "the service proves the state of its page cache: cold, no page of the folder is resident \
         before each pass (cachestat, mincore), and its process has read from a device; warm, it \
         has read nothing",
        "all files that the service serves are evicted or warmed; other programs there that use \
         them notice it",
        "in order, the far kernel reads ahead: after the first block of a pass few wait for the \
         device",
        "over=http the client has no cache: HTTP ranges are not stored here. A mount has the page \
         cache: client=cold, no page of the file is resident before each pass (cachestat, \
         mincore); warm, all are",
        "over=mount, the state of the server's cache cannot be known or set: there is no `server`. \
         The file was just written, so that it is probably in that cache",
        "over=mount, the round trip is not known: compare with network.tcp.rtt to the same host",
        "over=mount, in order, the client's kernel reads ahead: the result is a rate",
        "FUSE is counted as a network file system by its subtype, such as sshfs. Selected as \
         {over=mount}, any folder is measured; the record says what its mount is",
        "4 KiB over HTTP are not 4 KiB of a network file system: no lease, no attributes, no \
         encryption",
        "to another host: its file of this size, whose content is not known and not compared; a \
         token is sent with each request, unencrypted",
    ],
    parameters: &[
        Parameter::new(
            "client",
            "cold, warm",
            "over=mount: the file is in no page of the page cache here · in it as a whole",
        ),
        Parameter::new("connection", "kept, fresh", "over=http: one for all blocks · one for each"),
        Parameter::new(
            "file_bytes",
            "4K, doubling to 512K, 64M, 1G",
            "of the file; 64M on loopback is 1G to another host; quick: 512K",
        ),
        Parameter::new("order", "sequential, random", "of the blocks"),
        Parameter::new("over", "http, mount", "range requests · a mounted network file system"),
        Parameter::new(
            "server",
            "cold, warm",
            "over=http: the file is in no page of the server's cache · in it as a whole",
        ),
        TO,
    ],
    needs: &["os.syscall", "network.tcp.rtt", "network.tcp.connect"],
    requires: "loopback: two CPUs and a folder on a device. Another host: files of these sizes in \
               the folder that it serves. over=mount: a folder on a network file system",
    published: "6.68 ms, sequential and random, over a network file system (2016)",
    noise_limit: 0.15,
    cases_share_visits: false,
    disk: Some(MetricDisk { large: 0, own: LARGE as u64 }),
    ..FAR_END
};

const BLOCK: u64 = 4096;
/// Blocks of a pass.
const BLOCKS: usize = 16;
const SMALL_MAX: i64 = 512 << 10;
const LARGE: i64 = 64 << 20;
const LARGE_REMOTE: i64 = 1 << 30;
const SEED: u64 = 3;
/// Requests without a file, for the time of a round trip over the same connection.
const TRIPS: usize = 64;
/// Warm: bytes that the service may read from devices for itself, of those that it sent.
const FETCHED_MAX: f64 = 0.1;

/// The parsed parameters of a case over HTTP.
#[derive(Clone, Debug, PartialEq, Eq)]
struct RemoteFile {
    bytes: i64,
    is_random: bool,
    is_cold: bool,
    is_fresh: bool,
    to: String,
}

impl RemoteFile {
    fn from_params(params: &Params) -> Option<Self> {
        Some(Self {
            bytes: params.integer("file_bytes").filter(|bytes| *bytes >= BLOCK as i64)?,
            is_random: params.text("order")? == "random",
            is_cold: params.text("server")? == "cold",
            is_fresh: params.text("connection")? == "fresh",
            to: params.text("to")?.to_owned(),
        })
    }

    fn params(&self) -> Params {
        let word = |is, [yes, no]: [&'static str; 2]| if is { yes } else { no };
        Params::one("file_bytes", self.bytes)
            .and("order", word(self.is_random, ["random", "sequential"]))
            .and("server", word(self.is_cold, ["cold", "warm"]))
            .and("connection", word(self.is_fresh, ["fresh", "kept"]))
            .and("over", "http")
            .and("to", self.to.as_str())
    }

    fn case(self) -> ProbeCase {
        let blocks = (self.bytes / BLOCK as i64).min(BLOCKS as i64) as f64;
        let block_ns = if self.is_cold { 400e3 } else { 100e3 };
        let pass_ns = blocks * block_ns + if self.is_cold { 5e6 } else { 0.0 };
        let far_ns = if self.to == LOOPBACK { self.bytes as f64 * 10.0 } else { 300e6 };
        ProbeCase { params: self.params(), cost_ns: 10e6 + 8.0 * pass_ns + far_ns }
    }
}

fn sizes(effort: Effort) -> Vec<i64> {
    match effort {
        Effort::Quick => vec![SMALL_MAX],
        Effort::Standard => vec![BLOCK as i64, SMALL_MAX],
        Effort::Thorough => (12..20).map(|power| 1 << power).chain([LARGE]).collect(),
    }
}

/// Warm before cold and kept before fresh, as the models need them.
fn all(effort: Effort) -> Vec<RemoteFile> {
    let mut found = Vec::new();
    for (is_fresh, is_cold) in [(false, false), (false, true), (true, false), (true, true)] {
        for bytes in sizes(effort) {
            for is_random in [false, true] {
                found.push(RemoteFile { bytes, is_random, is_cold, is_fresh, to: LOOPBACK.into() });
            }
        }
    }
    // One block has no order, and where each has its own connection, the order matters less.
    found.retain(|case| match case.bytes == BLOCK as i64 {
        true => !case.is_random,
        false => case.is_random || !case.is_fresh,
    });
    found.retain(|case| effort != Effort::Quick || !(case.is_cold || case.is_fresh));
    found
}

impl Probe for FileReadRemote {
    fn expects(&self, case: &ProbeCase) -> Counters {
        // Nothing waits.
        if mount::is_warm(&case.params) { Counters::NONE } else { ABOUT.expects }
    }

    fn selection(&self, case: &ProbeCase, _: &Host) -> Result<Stratum, NotSelected> {
        // From a warm cache no device is read: the service on another CPU decides.
        let is_warm = case.params.text("server") == Some("warm");
        Err(if is_warm { NotSelected::SecondCpu } else { NotSelected::Device })
    }

    fn cases(&self, _: &Host, sizes: &Sizes) -> Vec<ProbeCase> {
        let mounted = if sizes.mount { mount::cases(sizes.effort) } else { Vec::new() };
        all(sizes.effort).into_iter().map(RemoteFile::case).chain(mounted).collect()
    }

    fn remote(&self, case: &ProbeCase, to: &str) -> Option<ProbeCase> {
        let here = RemoteFile::from_params(&case.params)?;
        let bytes = if here.bytes == LARGE { LARGE_REMOTE } else { here.bytes };
        Some(RemoteFile { bytes, to: to.to_owned(), ..here }.case())
    }

    fn predict(&self, case: &ProbeCase, _: &Host, known: &Inputs<'_>) -> Model {
        if mount::is_mount(&case.params) {
            return mount::predict(case, known);
        }
        let remote = parsed(&case.params, RemoteFile::from_params)?;
        let to = remote.to.clone();
        if remote.is_fresh {
            let connect = Params::one("to", to.as_str());
            let kept = RemoteFile { is_fresh: false, ..remote }.params();
            let sum = Sum {
                terms: &[Term::once(ABOUT.id, kept), Term::once("network.tcp.connect", connect)],
                tolerance: 0.3,
                source: "the same request after the handshake; a block fits the initial window",
                otherwise: "the server's accept is slow, or the initial window is smaller than a \
                            block",
            };
            return sum.predict(known);
        }
        if remote.is_cold {
            let warm = RemoteFile { is_cold: false, ..remote }.params();
            let source = "the page cache is filled from the device first";
            return at_least(ABOUT.id, &warm, source, known);
        }
        let call = |call| Term::once("os.syscall", Params::one("call", call));
        let params = rtt(&to, "block", 56);
        let trip = Term::once("network.tcp.rtt", params);
        let sum = Sum {
            terms: &[trip, call("open_close"), call("fstat")],
            tolerance: 0.3,
            source: "a request and its answer; the server opens the file for each; the copy of a \
                     block costs little beside it",
            otherwise: "the server waits for something else, or the network is slow enough that \
                        the bytes count",
        };
        // The round trip is nearly all of it.
        Ok(sum.predict(known)?.self_consistent())
    }

    fn visit(&self, cases: &[ProbeCase], sampler: &mut Sampler) -> Result<()> {
        if cases.iter().any(|case| mount::is_mount(&case.params)) {
            return mount::visit(cases, sampler);
        }
        each_parsed(cases, sampler, RemoteFile::from_params, |index, remote, sampler| {
            measure(index, &remote, sampler)
        })
    }
}

fn measure(case: usize, remote: &RemoteFile, sampler: &mut Sampler) -> Result<()> {
    let place = sampler.resources().far_end(&remote.to)?;
    let served = Served::new(sampler)?;
    let is_here = place.address.is_none();
    if is_here {
        let file = write_synced(served.path(), remote.bytes as u64, SEED)?;
        let published = file.publish(&served.path().join("file"), false);
        published.map_err(|error| SamplerFault::system("write a file to serve", error))?;
    }
    let service = Service::open(&place, &served, sampler)?;
    let mut control = service.control();
    let path = path(&service, &mut control, remote)?;
    let before = begin(&service, &mut control, remote)?;
    let stream = service.connect()?;
    let first = TcpInfo::from_socket(&stream);
    let reading = RemoteReading {
        service: &service,
        control: &mut control,
        remote,
        path,
        seed: is_here.then_some(SEED),
        stream: &stream,
        random: Xoshiro256PlusPlus::seed_from_u64(sampler.settings().seed),
        buffer: Vec::new(),
        passes_ns: Vec::new(),
        blocks: 0,
    };
    let reading = RefCell::new(reading);
    let timings = RefCell::new(Histogram::new());
    let operation = |clock: &Clock| reading.borrow_mut().pass(clock, &mut timings.borrow_mut());
    let batch = (remote.bytes as u64 / BLOCK).min(BLOCKS as u64);
    sampler.run(vec![single(case, batch, operation).timed(&timings)]);
    let clock = sampler.clock().clone();
    let mut reading = reading.into_inner();
    let trip_ns = reading.trip_ns(&clock)?;
    let RemoteReading { passes_ns, blocks, .. } = reading;
    let after = telemetry(&service, &mut control)?;
    if let Some(ns) = statistics::median(&passes_ns) {
        sampler.state(case, Fact::quantity("round trip", trip_ns, Unit::Nanoseconds));
        sampler.state(case, Fact::quantity("in round trips", ns / trip_ns, Unit::Ratio));
    }
    state(case, &stream, first, after.congestion.as_deref(), sampler);
    let fetched = after.read_bytes.zip(before.read_bytes).map(|(now, then)| now - then.min(now));
    prove(case, remote, fetched, (passes_ns.len(), blocks), sampler);
    Ok(())
}

/// Warms the file of a warm case. Returns the telemetry after that: what warming reads from devices
/// does not count.
fn begin(
    service: &Service,
    control: &mut Control,
    remote: &RemoteFile,
) -> Result<fathom_load::LoadTelemetry> {
    if !remote.is_cold {
        change(service, control, "warm")?;
    }
    telemetry(service, control)
}

/// The state of the server's page cache, by what it read from devices.
fn prove(
    case: usize,
    remote: &RemoteFile,
    fetched: Option<u64>,
    (passes, blocks): (usize, u64),
    sampler: &mut Sampler,
) {
    let sent = blocks * BLOCK;
    let shown = fetched.map_or("unknown".to_owned(), |bytes| bytes.to_string());
    let (passed, text) = match remote.is_cold {
        true => (
            fetched.is_none_or(|bytes| bytes >= passes as u64 * BLOCK),
            format!("COLD before each of {passes} passes; bytes from devices: {shown}"),
        ),
        false => (
            fetched.is_some_and(|bytes| bytes as f64 <= FETCHED_MAX * sent as f64),
            format!("WARM before; {sent} bytes sent; bytes from devices: {shown}"),
        ),
    };
    sampler.check(case, "server cache", passed, text);
    let compared = if remote.to == LOOPBACK { "each block as written" } else { "lengths only" };
    sampler.check(case, "content", true, compared);
}

/// The path of a file of the size that the case states.
fn path(service: &Service, control: &mut Control, remote: &RemoteFile) -> Result<String> {
    let listing = control.list().map_err(|error| service.refused("the list of files", error))?;
    let bytes = remote.bytes as u64;
    let found = listing.files.into_iter().find(|file| file.bytes == bytes);
    let text = format!("{} serves no file of {bytes} bytes", remote.to);
    let found =
        found.ok_or_else(|| SamplerFault::unavailable(text, Remedy::ServeFile { bytes }))?;
    Ok(format!("/{}", found.path))
}

fn telemetry(service: &Service, control: &mut Control) -> Result<fathom_load::LoadTelemetry> {
    control.telemetry().map_err(|error| service.refused("telemetry", error))
}

/// Attempts to evict, and the pause before each further one: pages stay while they are in the
/// buffer of a socket.
const ATTEMPTS: u32 = 20;
const PAUSE: Duration = Duration::from_millis(2);

/// Evicts or warms the files of the service, which says what is in memory afterwards.
fn change(service: &Service, control: &mut Control, what: &str) -> Result<()> {
    let mut text = String::new();
    for _ in 0..ATTEMPTS {
        let done = control.change_cache(what).map_err(|error| service.refused(what, error))?;
        let of = done.bytes;
        let Some(resident) = done.resident_bytes_after else {
            let why = "the server cannot tell what is in its page cache";
            return Err(SamplerFault::unavailable(why, Remedy::kernel("6.5")));
        };
        if resident == if what == "warm" { of } else { 0 } {
            return Ok(());
        }
        text = format!("after {what}, {resident} of {of} bytes are in the server's memory");
        std::thread::sleep(PAUSE);
    }
    Err(SamplerFault::unavailable(text, Remedy::OtherFolder))
}

/// The reads of a case.
struct RemoteReading<'s> {
    service: &'s Service,
    control: &'s mut Control,
    remote: &'s RemoteFile,
    path: String,
    /// Of the data, if they are known.
    seed: Option<u64>,
    stream: &'s TcpStream,
    random: Xoshiro256PlusPlus,
    buffer: Vec<u8>,
    /// Nanoseconds per block.
    passes_ns: Vec<f64>,
    blocks: u64,
}

impl RemoteReading<'_> {
    /// Reads the blocks of a pass; nanoseconds per block.
    fn pass(&mut self, clock: &Clock, timings: &mut Histogram) -> Result<f64> {
        let order = choose(&mut self.random, self.remote);
        if self.remote.is_cold {
            change(self.service, self.control, "evict")?;
        }
        let mut all_ns = 0.0;
        for &at in &order {
            let ns = self.block(at, clock)?;
            timings.add(ns);
            all_ns += ns;
        }
        let ns = all_ns / order.len() as f64;
        self.blocks += order.len() as u64;
        self.passes_ns.push(ns);
        Ok(ns)
    }

    /// Reads and compares a block; the nanoseconds of its request.
    fn block(&mut self, at: u64, clock: &Clock) -> Result<f64> {
        let range = format!("Range: bytes={at}-{}", at + BLOCK - 1);
        let request = self.service.request(&self.path, Some(&range));
        let start = clock.start();
        let fresh = self.remote.is_fresh.then(|| self.service.connect()).transpose()?;
        let stream = fresh.as_ref().unwrap_or(self.stream);
        let body = self.service.exchange(stream, &request, 206, &mut self.buffer)?;
        let ns = clock.ns(start, clock.stop());
        let found = &self.buffer[body];
        let mut expected = [0; BLOCK as usize];
        if let Some(seed) = self.seed {
            FileGenerator::new(seed).fill(at, &mut expected);
        }
        if found.len() != expected.len() || (self.seed.is_some() && found != expected) {
            let text = format!("the block at byte {at} differs from the data written");
            return Err(SamplerFault::WrongWork(text));
        }
        Ok(ns)
    }

    /// The median time of a request without a file over a connection that is kept.
    fn trip_ns(&mut self, clock: &Clock) -> Result<f64> {
        let request = self.service.request("/.fathom/health", None);
        // The kept connection may have been idle for too long.
        let fresh = self.remote.is_fresh.then(|| self.service.connect()).transpose()?;
        let stream = fresh.as_ref().unwrap_or(self.stream);
        let mut trips = Vec::new();
        for _ in 0..TRIPS {
            let start = clock.start();
            self.service.exchange(stream, &request, 200, &mut self.buffer)?;
            trips.push(clock.ns(start, clock.stop()));
        }
        Ok(statistics::median(&trips).unwrap_or(f64::NAN))
    }
}

/// Offsets of the distinct blocks of a pass.
fn choose(random: &mut Xoshiro256PlusPlus, remote: &RemoteFile) -> Vec<u64> {
    let all = remote.bytes as u64 / BLOCK;
    let count = all.min(BLOCKS as u64);
    // The modulo bias is below 2^-40.
    let mut below = |limit: u64| random.next_u64() % limit;
    if !remote.is_random {
        let first = below(all - count + 1);
        return (first..first + count).map(|block| block * BLOCK).collect();
    }
    let mut chosen = Vec::new();
    while (chosen.len() as u64) < count {
        let block = below(all) * BLOCK;
        if !chosen.contains(&block) {
            chosen.push(block);
        }
    }
    chosen
}

#[cfg(test)]
mod tests;
