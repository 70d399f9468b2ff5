//! network.tcp.bandwidth: bytes per second over TCP, between this process and a far end.

use std::net::{IpAddr, TcpStream};

use fathom_far::ProtocolOutcome;
use fathom_far::transfer::{BLOCK_BYTES_MAX, Length, Track, Transfer, TransferDirection};
use fathom_measure::clock::thread_cpu_ns;
use fathom_measure::sampler::LOOPBACK;
use fathom_record::Counter;
use fathom_record::host::NetworkLink;
use rustix::net::sockopt;

use super::FAR_END;
use super::connections::TO;
use super::ends;
use super::limit::{Evidence, paces, spread};
use super::near::check_cpu;
use super::tcp_info::TcpInfo;
use crate::prelude::*;

metric!(TcpBandwidth, ABOUT);

static ABOUT: About = About {
    id: "network.tcp.bandwidth",
    title: "TCP bandwidth",
    unit: Unit::BytesPerSecond,
    better: Better::Higher,
    timed: "bytes that the receiving end has counted, over the time between two of its counts, in \
            the middle of a transfer: send and recv of a chunk at a time, and poll where a buffer \
            is full or empty. direction=both: the sum of both directions",
    not_timed: "connecting, slow start, the first three eighths of each transfer, in which buffers \
                fill, and its end; producing and consuming data: the buffers stay cached",
    model: "on loopback a bound: each byte is copied into the kernel and out of it, each time at \
            most at the payload rate of memory.bandwidth{op=copy,threads=1} in the fastest level, \
            which is half of it, as it counts loads and stores. With cpus=1 one CPU makes both \
            copies: half of that. Without a copy in a cache in this run, op=read. To another host \
            a bound: the speed of the link × the payload's share of a frame, 1448/1538 with an \
            MTU of 1500 bytes. No value: the costs of segments and buffers are known from this \
            metric alone",
    source: "Linux net/ipv4/tcp.c: tcp_sendmsg and tcp_recvmsg copy; IEEE 802.3: 38 bytes of \
             preamble, header, checksum and gap a frame; RFC 9293 and RFC 7323: 52 bytes of \
             headers",
    pitfalls: &[
        "a sender's count includes what is still in its buffers: bytes are counted at the \
         receiver, which answers each block of an eighth of a transfer with its count. Both ends \
         of an interval are stamped at the near end, so that the delay of the answer cancels",
        "slow start, a filling buffer and the burst of a token bucket exceed or fall short of the \
         steady rate: transfers are repeated until their rate is steady, and the start of each is \
         left out",
        "congestion control may pace even loopback (BBR), several times below what the CPUs allow: \
         the record names the one of both ends and what limited the transfer, and congestion=cubic \
         gives the other number where the default paces",
        "on loopback the sender's call runs the receiver's protocol work: CPU time per GB of one \
         end alone says little",
        "several connections share one thread at each end, as in iperf3 before 3.16; neper and \
         newer iperf3 use a thread for each",
    ],
    parameters: &[
        Parameter::new("chunk_bytes", "4 KiB, 64 KiB, 1 MiB", "bytes of a send or recv"),
        Parameter::new("congestion", "cubic", "of both ends; absent: the default one of this host"),
        Parameter::new("cpus", "1, 2", "both ends on the worker's CPU · each on its own"),
        Parameter::new(
            "direction",
            "send, receive, both",
            "the worker sends · receives · both at the same time",
        ),
        Parameter::new("streams", "1, 2, 4", "connections"),
        TO,
    ],
    needs: &["memory.bandwidth"],
    requires: "a loopback interface; two CPUs for cpus=2",
    published: "18 to 37 Gbit/s with BBR, 37 to 62 with cubic (iperf3, loopback)",
    // The kernel keeps metrics of a route from one connection to the next.
    cases_share_visits: false,
    ..FAR_END
};

/// Blocks of a transfer, and those to another host, where segments arrive in bursts.
const BLOCKS: u64 = 8;
const BLOCKS_REMOTE: u64 = 16;
/// The part of a transfer that fills the buffers.
const FILLING: [u64; 2] = [3, 8];
/// Counts that are closer to each other than this part of the mean distance are of one burst.
const BURST: u64 = 8;
/// Length of a transfer in shortest batches: 5 ms on this host and 100 ms to another, where a round
/// trip and the burst of a shaper take milliseconds.
const FLOORS: f64 = 50.0;
const FLOORS_REMOTE: f64 = 1_000.0;
/// Transfers until the rate is steady, at most, and what is steady.
const SETTLE_MAX: u32 = 10;
const STEADY: f64 = 0.1;
/// A preempted end finds all counts at once: that transfer has no interval, and is repeated.
pub(super) const TRIES: u32 = 32;
const BLOCKS_MAX: u64 = 1024;

const CHUNK: u32 = 64 << 10;
pub(super) const CHUNKS: [u32; 3] = [4 << 10, CHUNK, 1 << 20];
/// The other congestion control, where the default one paces.
const OTHER: &str = "cubic";

/// The parsed parameters of a case.
#[derive(Clone, Debug, PartialEq, Eq)]
struct TcpBandwidthFlow {
    chunk_bytes: u32,
    streams: u32,
    cpus: i64,
    direction: TransferDirection,
    congestion: Option<String>,
    to: String,
}

impl TcpBandwidthFlow {
    fn usual(direction: TransferDirection) -> Self {
        let to = LOOPBACK.to_owned();
        Self { chunk_bytes: CHUNK, streams: 1, cpus: 2, direction, congestion: None, to }
    }

    fn from_params(params: &Params) -> Option<Self> {
        let number = |name| params.number(name);
        Some(Self {
            chunk_bytes: number("chunk_bytes")?,
            streams: number("streams")?,
            cpus: params.integer("cpus")?,
            direction: match params.text("direction")? {
                "send" => TransferDirection::Send,
                "receive" => TransferDirection::Receive,
                _ => TransferDirection::Both,
            },
            congestion: params.text("congestion").map(str::to_owned),
            to: params.text("to")?.to_owned(),
        })
    }

    fn params(&self) -> Params {
        let direction = match self.direction {
            TransferDirection::Send => "send",
            TransferDirection::Receive => "receive",
            TransferDirection::Both => "both",
        };
        let params = Params::one("chunk_bytes", i64::from(self.chunk_bytes))
            .and("streams", i64::from(self.streams))
            .and("cpus", self.cpus)
            .and("direction", direction)
            .and("to", self.to.as_str());
        match &self.congestion {
            Some(name) => params.and("congestion", name.as_str()),
            None => params,
        }
    }
}

impl Probe for TcpBandwidth {
    /// Received segments are processed in interrupt context. On one CPU the ends alternate.
    fn expects(&self, case: &ProbeCase) -> Counters {
        match case.params.integer("cpus") {
            Some(1) => Counters::from_counters(&[
                Counter::Preemptions,
                Counter::RunQueue,
                Counter::NotRunning,
                Counter::Interrupts,
            ]),
            _ => ABOUT.expects,
        }
    }

    fn cases(&self, host: &Host, sizes: &Sizes) -> Vec<ProbeCase> {
        let usual = TcpBandwidthFlow::usual;
        let chunk =
            |chunk_bytes| TcpBandwidthFlow { chunk_bytes, ..usual(TransferDirection::Send) };
        let streams = |streams, direction| TcpBandwidthFlow { streams, ..usual(direction) };
        let one_cpu = TcpBandwidthFlow { cpus: 1, ..usual(TransferDirection::Send) };
        let mut flows = vec![usual(TransferDirection::Send), usual(TransferDirection::Receive)];
        let has_other = host.tcp.congestion_available.iter().any(|name| name == OTHER);
        let unpaced = |flow| TcpBandwidthFlow { congestion: Some(OTHER.to_owned()), ..flow };
        let has_unpaced = is_paced(host) && has_other;
        if has_unpaced {
            flows.push(unpaced(usual(TransferDirection::Send)));
        }
        match (sizes.effort, sizes.smoke) {
            (_, true) => flows.extend([one_cpu, streams(3, TransferDirection::Both)]),
            (Effort::Quick, _) => flows.push(one_cpu),
            _ => flows.extend([
                one_cpu,
                usual(TransferDirection::Both),
                chunk(4 << 10),
                chunk(1 << 20),
                streams(2, TransferDirection::Send),
                streams(4, TransferDirection::Send),
                streams(4, TransferDirection::Receive),
            ]),
        }
        if has_unpaced && sizes.effort != Effort::Quick && !sizes.smoke {
            flows.extend([4 << 10, 1 << 20].map(|bytes| unpaced(chunk(bytes))));
        }
        let case = |flow: TcpBandwidthFlow| ProbeCase { params: flow.params(), cost_ns: 100e6 };
        flows.into_iter().map(case).collect()
    }

    fn remote(&self, case: &ProbeCase, to: &str) -> Option<ProbeCase> {
        let flow = TcpBandwidthFlow::from_params(&case.params)?;
        let is_chosen = flow.cpus == 2 && flow.chunk_bytes == CHUNK && flow.congestion.is_none();
        let flow = TcpBandwidthFlow { to: to.to_owned(), ..flow };
        is_chosen.then(|| ProbeCase { params: flow.params(), cost_ns: 2e9 })
    }

    fn predict(&self, case: &ProbeCase, host: &Host, known: &Inputs<'_>) -> Model {
        let flow = parsed(&case.params, TcpBandwidthFlow::from_params)?;
        match flow.to.as_str() {
            LOOPBACK => at_most_copied(flow.cpus, known),
            to => at_most_of_link(to, directions(flow.direction), host),
        }
    }

    fn visit(&self, cases: &[ProbeCase], sampler: &mut Sampler) -> Result<()> {
        each_parsed(cases, sampler, TcpBandwidthFlow::from_params, |index, flow, sampler| {
            measure(index, &flow, sampler)
        })
    }
}

fn is_paced(host: &Host) -> bool {
    host.tcp.congestion.as_deref().is_some_and(paces)
}

/// One stream in chunks of this size, at the pace of the CPUs.
pub(super) fn of_chunk(chunk_bytes: u32, host: Option<&Host>) -> Params {
    let congestion = host.is_some_and(is_paced).then(|| OTHER.to_owned());
    TcpBandwidthFlow { chunk_bytes, congestion, ..TcpBandwidthFlow::usual(TransferDirection::Send) }
        .params()
}

/// The rate at which the CPUs can copy the payload.
pub(super) fn at_most_copied(cpus: i64, known: &Inputs<'_>) -> Model {
    const METRIC: &str = "memory.bandwidth";
    let of = |op: &'static str| {
        let cases = known.cases_of(METRIC).filter(move |(params, _)| {
            params.text("op") == Some(op) && params.integer("threads") == Some(1)
        });
        let in_cache = cases.filter(|(params, _)| params.text("level") != Some("dram"));
        in_cache.max_by(|(_, one), (_, other)| one.median.total_cmp(&other.median))
    };
    let copies = 1.0 / cpus_to_copies(cpus);
    let found = of("copy").map(|case| (copies / 2.0, case)).or(of("read").map(|it| (copies, it)));
    let missing = || NoModel::MissingInput { metric: format!("{METRIC}{{op=copy}}") };
    let (factor, (params, summary)) = found.ok_or_else(missing)?;
    let name = format!("{METRIC}{params}");
    let bound = Prediction::at_most(
        factor * summary.median,
        &if factor == 1.0 { format!("≤ {name}") } else { format!("≤ {factor} × {name}") },
        "each byte is copied into the kernel and out of it (Linux net/ipv4/tcp.c)",
    );
    let meaning = "the kernel copies faster than this program, or moves pages without a copy";
    Ok(bound.with_result(&name, summary.median, Unit::BytesPerSecond).if_above(meaning))
}

/// Copies that one CPU makes of each byte.
fn cpus_to_copies(cpus: i64) -> f64 {
    if cpus == 1 { 2.0 } else { 1.0 }
}

/// The number of directions.
fn directions(direction: TransferDirection) -> f64 {
    if direction == TransferDirection::Both { 2.0 } else { 1.0 }
}

/// Bytes of IP and TCP headers with timestamps, and of an Ethernet frame beside its packet:
/// preamble, header, checksum and gap.
const HEADERS: f64 = 52.0;
const FRAME: f64 = 38.0;

/// The payload that the only link of known speed carries. In a virtual machine, the speed of a link
/// is a number of its hypervisor, which need not keep to it.
pub(super) fn at_most_of_link(to: &str, directions: f64, host: &Host) -> Model {
    let unknown = || NoModel::unknown_fact(&["network.bits_per_s"]);
    let is_here = to.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
    let known = |link: &&NetworkLink| link.up == Some(true) && !host.is_guest();
    let mut links = host.network.iter().filter(known).filter_map(|link| {
        Some((link.bits_per_s? as f64 / 8.0, f64::from(link.mtu_bytes?), &link.name))
    });
    let (speed, mtu, name) = links.next().filter(|_| !is_here).ok_or_else(unknown)?;
    if links.next().is_some() {
        return Err(unknown());
    }
    let share = (mtu - HEADERS) / (mtu + FRAME);
    let formula = format!("≤ {directions} × speed of {name} × {share:.4}");
    let source = "IEEE 802.3: 38 bytes a frame beside its packet; 52 bytes of headers in a packet";
    let bound = Prediction::at_most(directions * speed * share, &formula, source);
    let origin = Origin::host(host, "network");
    let bound =
        bound.with_quantity(&format!("speed of {name}"), speed, Unit::BytesPerSecond, origin);
    let meaning = "the path is not over this link, or its speed is not the one that it reports";
    Ok(bound.with_input("payload share", share, Origin::calculated("MTU")).if_above(meaning))
}

fn infos<'s>(connections: impl IntoIterator<Item = &'s TcpStream>) -> Vec<TcpInfo> {
    connections.into_iter().filter_map(TcpInfo::from_socket).collect()
}

fn measure(case: usize, flow: &TcpBandwidthFlow, sampler: &mut Sampler) -> Result<()> {
    let place = sampler.resources().far_end(&flow.to)?;
    let work =
        fathom_far::ProtocolWork::Transfer { streams: flow.streams, chunk_bytes: flow.chunk_bytes };
    let other = flow.congestion.as_deref();
    let (far, connections) = ends::open_with(work, &place, flow.cpus, other, sampler)?;
    let congestion = sockopt::tcp_congestion(&connections[0]).unwrap_or_default().to_string();
    let first = infos(&connections);
    let clock = sampler.clock().clone();
    let is_remote = place.address.is_some();
    let floor_ns = sampler.settings().batch_floor_ns;
    let length = match is_remote {
        true => (BLOCKS_REMOTE, FLOORS_REMOTE * floor_ns),
        false => (BLOCKS, FLOORS * floor_ns),
    };
    let streams = Transfer::new(connections, flow.chunk_bytes as usize);
    let mut near = TcpBandwidthNear::new(streams, flow, length);
    near.settle(&clock)?;
    let batch = near.length.block / u64::from(flow.chunk_bytes);
    sampler.run(vec![single(case, batch, |clock| near.rate(clock))]);
    let last = infos(near.transfer.connections());
    let TcpBandwidthNear { transfer, rates, cpu_ns, wall_ns, .. } = near;
    let bytes = transfer.bytes();
    drop(transfer);
    let outcome = far.finish().map_err(|error| ends::fault(&flow.to, error))?;
    check(case, (flow, is_remote), bytes, [&congestion, &outcome.congestion], sampler);
    let counts = format!("near {bytes}, far {}, in both directions", outcome.count);
    sampler.check(case, "bytes", bytes == outcome.count, counts);
    let own = first.into_iter().zip(last).map(|(first, last)| [first, last]);
    let own = own.filter(|_| flow.direction.sends());
    let theirs = outcome.tcp.iter().copied().filter(|_| flow.direction.receives());
    let senders: Vec<[TcpInfo; 2]> = own.chain(theirs).collect();
    let shares = [cpu_ns, outcome.far.disturbance.cpu_ns].map(|ns| ns as f64 / wall_ns.max(1.0));
    let evidence = Evidence {
        cpu: shares,
        one_cpu: !is_remote && flow.cpus == 1,
        paces: paces(&congestion) || paces(&outcome.congestion),
        is_here: place.address.is_none_or(|address| address.ip().is_loopback()),
        spread: spread(&rates),
        ..Evidence::of_senders(&senders)
    };
    let facts = of_senders(&senders, [&congestion, &outcome.congestion]);
    let per_gb = cpu_per_gb([cpu_ns, outcome.far.disturbance.cpu_ns], bytes, &outcome);
    for fact in evidence.facts().into_iter().chain(facts).chain(per_gb) {
        sampler.state(case, fact);
    }
    sampler.keep_far_end(case, outcome.far);
    Ok(())
}

/// The facts of the first sender, with the retransmits of all.
fn of_senders(senders: &[[TcpInfo; 2]], controls: [&str; 2]) -> Vec<Fact> {
    let Some([first, last]) = senders.first() else { return Vec::new() };
    let count = |[first, last]: &[TcpInfo; 2]| last.retransmits.saturating_sub(first.retransmits);
    let retransmits = senders.iter().map(count).fold(first.retransmits, u32::saturating_add);
    TcpInfo { retransmits, ..*last }.facts(first, controls)
}

/// CPU time of each end per 10^9 bytes.
fn cpu_per_gb(cpu_ns: [u64; 2], bytes: u64, outcome: &ProtocolOutcome) -> [Fact; 2] {
    let per_gb = |ns: u64, bytes: u64| ns as f64 * 1e9 / bytes.max(1) as f64;
    let fact = |name, ns| Fact::quantity(name, ns, Unit::Nanoseconds);
    [
        fact("near end CPU time per GB", per_gb(cpu_ns[0], bytes)),
        fact("far end CPU time per GB", per_gb(cpu_ns[1], outcome.count)),
    ]
}

fn check(
    case: usize,
    (flow, is_remote): (&TcpBandwidthFlow, bool),
    bytes: u64,
    [near, far]: [&str; 2],
    sampler: &mut Sampler,
) {
    // Another host may not have the control.
    let is_own = flow.congestion.as_deref().is_none_or(|name| name == near);
    let is_same = is_own && (near == far || is_remote);
    sampler.check(case, "tcp congestion", is_same, format!("near {near}, far {far}"));
    check_cpu(case, sampler);
    sampler.check(case, "transferred", bytes > 0, format!("{bytes} bytes"));
}

/// The near end, and what it used.
struct TcpBandwidthNear<'f> {
    transfer: Transfer,
    flow: &'f TcpBandwidthFlow,
    length: Length,
    rates: Vec<f64>,
    cpu_ns: u64,
    wall_ns: f64,
}

impl<'f> TcpBandwidthNear<'f> {
    fn new(transfer: Transfer, flow: &'f TcpBandwidthFlow, (blocks, least_ns): (u64, f64)) -> Self {
        let block = u64::from(flow.chunk_bytes);
        let length = Length { block, blocks, least_ns };
        Self { transfer, flow, length, rates: Vec::new(), cpu_ns: 0, wall_ns: 0.0 }
    }

    /// Repeats transfers until slow start is over, and finds the block of which the shortest time
    /// has as many as asked for.
    fn settle(&mut self, clock: &Clock) -> Result<()> {
        let chunk = u64::from(self.flow.chunk_bytes);
        let tracks = f64::from(self.flow.streams) * directions(self.flow.direction);
        let mut earlier = 0.0;
        for _ in 0..SETTLE_MAX {
            let rate = self.rate(clock)?;
            let bytes = rate / tracks * self.length.least_ns / 1e9 / self.length.blocks as f64;
            let largest = BLOCK_BYTES_MAX / chunk * chunk;
            self.length.block = (bytes as u64).next_multiple_of(chunk).clamp(chunk, largest);
            if (rate / earlier - 1.0).abs() < STEADY {
                break;
            }
            earlier = rate;
        }
        self.rates.clear();
        Ok(())
    }

    /// One transfer, in bytes per second.
    fn rate(&mut self, clock: &Clock) -> Result<f64> {
        for _ in 0..TRIES {
            let (begun, used_ns) = (clock.start(), thread_cpu_ns());
            let run = self.transfer.run(self.flow.direction, self.length, clock);
            let tracks = run.map_err(|error| ends::fault(&self.flow.to, error))?;
            self.cpu_ns += thread_cpu_ns() - used_ns;
            self.wall_ns += clock.ns(begun, clock.stop());
            if let Some(rate) = steady_rate(&tracks, clock) {
                self.rates.push(rate);
                return Ok(rate);
            }
            // More than the buffers of the sockets deliver in one burst.
            self.length.blocks = (2 * self.length.blocks).min(BLOCKS_MAX);
        }
        Err(SamplerFault::Failed("all counts arrived at once".to_owned()))
    }
}

/// Bytes per second of all connections, from a count of the first of them after the start until
/// one of them ends.
pub(super) fn steady_rate(tracks: &[Track], clock: &Clock) -> Option<f64> {
    let begun = tracks.first()?.first()?.0;
    let until = tracks.iter().filter_map(|track| track.last()).map(|mark| mark.0).min()?;
    let filled = begun + (until - begun) * FILLING[0] / FILLING[1];
    let mut after = tracks[0].iter().map(|mark| mark.0).filter(|stamp| *stamp >= filled).peekable();
    let mut from = after.next()?;
    // From the end of a burst to the end of another.
    let apart = (until - begun) / (BURST * tracks[0].len() as u64);
    while let Some(next) = after.next_if(|next| next - from < apart) {
        from = next;
    }
    let ns = clock.ns(from, until);
    let bytes: f64 =
        tracks.iter().map(|track| bytes_at(track, until) - bytes_at(track, from)).sum();
    (ns > 0.0 && bytes > 0.0).then(|| bytes * 1e9 / ns)
}

/// The bytes received until then; between two counts at a constant rate.
fn bytes_at(track: &Track, stamp: u64) -> f64 {
    let after = track.partition_point(|mark| mark.0 < stamp);
    let earlier = after.checked_sub(1).map_or((0, 0), |index| track[index]);
    let Some(later) = track.get(after) else { return earlier.1 as f64 };
    let share = (stamp - earlier.0) as f64 / (later.0 - earlier.0).max(1) as f64;
    earlier.1 as f64 + (later.1 - earlier.1) as f64 * share
}

#[cfg(test)]
mod tests;
