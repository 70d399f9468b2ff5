//! What a server on this machine uses that does not report itself: by its processes and sockets.
//!
//! Nobody can measure what its disk and its network give. Instead: a disk that limits keeps a
//! thread waiting all the time, and behind a network that limits the responses wait, which more
//! clients only prolong.

use fathom_analysis::load::{
    BUSY, MeasuredStep, MeasuredSweep, Name, Resource, ShapeEstimate, Use, WAITING_MIN,
};
use fathom_analysis::statistics::mean_half_width;
use fathom_record::quantity::counted;
use fathom_record::{Looks, ServerUse};

use super::{LimitUsed, exact, mean, of_share};

/// The largest and the smallest of them differ by at most this factor.
const STEPS_SPAN: u32 = 4;
/// A resource that is as busy with less than this share of the throughput does not limit it: it
/// spins, or can do more at once.
const GROWN_MAX: f64 = 0.5;
const AS_BUSY: f64 = 0.9;
/// What is above may be saturated.
const IDLE: f64 = 0.75;
/// From this share on threads wait for something.
const BLOCKED_MIN: f64 = 0.25;
/// Fewer bytes of devices than this share of the bytes sent are not work of the disk.
const DEVICE_SHARE_MIN: f64 = 0.01;
/// A client that thinks acknowledges the end of a response late by up to this, without waiting for
/// it (TCP_DELACK_MIN and a tick).
const ACKNOWLEDGED_S: f64 = 0.044;

/// The steps with most clients. With few of them throughput may be level already, but
/// a request now and then finds the limiting resource idle.
pub fn loaded<'s>(steps: &[&'s MeasuredStep]) -> Vec<&'s MeasuredStep> {
    let most = steps.iter().map(|step| step.clients).max().unwrap_or(0);
    steps.iter().copied().filter(|step| STEPS_SPAN * step.clients >= most).collect()
}

/// The uses of all resources over the sweeps of steps, and the bytes per second of the disk.
/// `think_s`: the think time of clients; `is_saturated`: whether throughput is level there.
pub fn uses(steps: &[&MeasuredStep], think_s: f64, is_saturated: bool) -> (Vec<Use>, LimitUsed) {
    let sweeps: Vec<&MeasuredSweep> = steps.iter().flat_map(|step| &step.by_sweep).collect();
    let servers: Option<Vec<&ServerUse>> = sweeps.iter().map(|it| it.server.as_ref()).collect();
    let servers = servers.unwrap_or_default();
    let throughputs: Vec<f64> = sweeps.iter().map(|sweep| sweep.point.throughput).collect();
    let of = |resource, share| of_share(resource, share, mean(&throughputs));
    let cpu: Option<Vec<f64>> = servers.iter().map(|server| server.cpu_share()).collect();
    let client: Vec<f64> = sweeps.iter().map(|sweep| sweep.client_share).collect();
    let network = network(steps, think_s);
    // A long way alone keeps data under way, too, but does not level the throughput.
    let network = network.filter(|share| is_saturated || share.high() <= IDLE);
    let read: Option<Vec<f64>> = servers.iter().map(|it| it.per_second(it.disk_bytes)).collect();
    let read = read.as_deref().map(mean).filter(|rate| rate.is_finite());
    let (disk, cpu) = (disk(&servers), cpu.and_then(|cpu| exact(&cpu)));
    let is_busy = |share: Option<ShapeEstimate>| share.is_some_and(|share| share.low() >= BUSY);
    // The end of a response is acknowledged late: behind a busy thread it seems to be under way.
    let measured_under = match () {
        () if is_busy(network) => None,
        () if is_busy(disk) => Some(Resource::Disk),
        () => Some(Resource::ServerCpu),
    };
    let uses = vec![
        Use { demand_s: None, measured_under, ..of(Resource::Network, network) },
        of(Resource::Disk, disk),
        of(Resource::ServerCpu, cpu),
        of(Resource::Client, exact(&client)),
    ];
    (uses, read.map(|rate| (Resource::Disk, rate)).into_iter().collect())
}

/// The share of the response times in which data of the server were under way.
fn network(steps: &[&MeasuredStep], think_s: f64) -> Option<ShapeEstimate> {
    // By sweep, over all looks: connections with data under way, clients that waited for a response
    // and did not think, and ends of responses that may have been acknowledged late.
    let counts = |(clients, sweep): (u32, &MeasuredSweep)| {
        let looks = sweep.server.as_ref()?.looks.filter(|looks| looks.sockets > 0)?;
        let (of, point) = (looks.sockets as f64, sweep.point);
        let late_s = think_s.min(ACKNOWLEDGED_S);
        let waiting = of * f64::from(clients) * point.response_s / (point.response_s + think_s);
        Some([looks.sending as f64, waiting, of * point.throughput * late_s])
    };
    let sweeps =
        steps.iter().flat_map(|step| step.by_sweep.iter().map(|sweep| (step.clients, sweep)));
    let all: Vec<[f64; 3]> = sweeps.filter_map(counts).collect();
    let sum = |at: usize| all.iter().map(|counts| counts[at]).sum::<f64>();
    let [sending, waiting, late] = [sum(0), sum(1), sum(2)];
    let share = sending / waiting;
    // Sweeps with more clients show more: the scatter is that of a ratio of sums.
    let weight = all.len() as f64 / waiting;
    let values = all.iter().map(|[sent, waits, _]| weight * (sent - share * waits));
    let half = mean_half_width(&values.collect::<Vec<f64>>()).unwrap_or(0.0);
    let interval = Some([(share - late / waiting - half).max(0.0), share + half]);
    share.is_finite().then_some(ShapeEstimate { value: share.min(1.0), interval })
}

/// The share of the time in which a thread was blocked, if by devices.
fn disk(servers: &[&ServerUse]) -> Option<ShapeEstimate> {
    let looks: Option<Vec<_>> = servers.iter().map(|server| server.looks).collect();
    let looks = looks?;
    let share = |of: &Looks| (of.threads > 0).then(|| of.blocked as f64 / of.threads as f64);
    let shares: Option<Vec<f64>> = looks.iter().map(share).collect();
    let blocked = exact(&shares?)?;
    let bytes: Option<u64> = looks.iter().map(|looks| looks.device_bytes).sum();
    let sent: u64 = servers.iter().map(|server| server.bytes_sent).sum();
    let is_device = bytes.is_some_and(|bytes| bytes as f64 > DEVICE_SHARE_MIN * sent as f64);
    match is_device {
        true => Some(blocked),
        // Few bytes: what blocks is something else, such as a lock of the kernel or a mount.
        false if blocked.value > BLOCKED_MIN => None,
        false => Some(ShapeEstimate { value: 0.0, interval: None }),
    }
}

/// Why a resource may be busy with other work than the requests: it is as busy with few clients,
/// and less than half of the throughput.
pub fn doubt(name: &Name, first: &MeasuredStep, sweeps: &[&MeasuredSweep]) -> Option<String> {
    let Name::Resource(resource @ (Resource::ServerCpu | Resource::Disk)) = name else {
        return None;
    };
    let begin: Vec<&MeasuredSweep> = first.by_sweep.iter().collect();
    let busy = |sweeps: &[&MeasuredSweep]| -> Option<f64> {
        let servers: Option<Vec<&ServerUse>> = sweeps.iter().map(|it| it.server.as_ref()).collect();
        let servers = servers?;
        if *resource == Resource::Disk {
            return Some(disk(&servers)?.value);
        }
        // Of all CPUs: the busiest thread may be another one.
        let cpus: Option<Vec<f64>> = servers.iter().map(|it| it.cpus()).collect();
        Some(mean(&cpus?))
    };
    let rate = |sweeps: &[&MeasuredSweep]| {
        mean(&sweeps.iter().map(|sweep| sweep.point.throughput).collect::<Vec<f64>>())
    };
    let (then, now) = (busy(&begin)?, busy(sweeps)?);
    let share = rate(&begin) / rate(sweeps);
    (share < GROWN_MAX && then > AS_BUSY * now).then(|| {
        format!(
            "{} is as busy with {} and {:.0} % of the throughput",
            resource.word(),
            counted(first.clients as usize, "client"),
            100.0 * share
        )
    })
}

/// Why no resource has a name although throughput is level.
pub fn idle(uses: &[Use], sweeps: &[&MeasuredSweep]) -> String {
    let waiting = mean(&sweeps.iter().map(|sweep| sweep.waiting()).collect::<Vec<f64>>());
    if waiting > WAITING_MIN {
        return format!("an end waits for a CPU {:.0} % of the time", 100.0 * waiting);
    }
    let share = |resource| {
        let found = uses.iter().find(|one| one.resource == resource);
        found.and_then(|one| one.utilisation).map_or(0.0, |share| share.value)
    };
    let [cpu, disk] = [Resource::ServerCpu, Resource::Disk].map(share);
    if cpu + disk > IDLE {
        return format!(
            "a thread of the server computes {:.0} % and waits for the disk {:.0} % of the time",
            100.0 * cpu,
            100.0 * disk
        );
    }
    "none of its processes is busy: a lock, a limit on workers, asynchronous reads, or a server \
     behind it"
        .to_owned()
}

#[cfg(test)]
mod tests;
