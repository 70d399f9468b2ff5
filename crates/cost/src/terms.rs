//! Counts × prices, and what is left of the measured system time.

use std::collections::BTreeMap;

use fathom_analysis::statistics::{median, median_interval};
use fathom_record::{
    Cost, CostPrice, CostService, CostTerm, CostTime, CostWait, CostWhatIf, Record,
};

use super::count::{Counts, Operation, Place, Tally};
use super::price::Prices;
use super::service::ServiceCounts;
use super::split::Split;
use super::table::{Alternative, Point, Row, VFORK, row};
use super::used::ServiceUse;

/// A gain of less is none.
const GAIN_MIN: f64 = 0.2;
/// Pages of a huge page.
const HUGE: f64 = 512.0;
/// Of most kernels: CONFIG_HZ of 250.
const TICK_NS: f64 = 4e6;
const NORMAL_95: f64 = 1.96;
/// A run of more samples than this, times the median, is not usual.
const USUAL_MAX: f64 = 1.25;
/// Pages of larger ones are in folios of this size.
const BLOCK: u64 = 64 << 10;
/// Fewer say less than the ticks.
const SAMPLES_MIN: f64 = 30.0;

/// What was counted in one run.
#[derive(Clone, Debug)]
pub struct Counted {
    pub counts: Counts,
    pub wall_ns: f64,
}

/// What a run took that was not counted.
#[derive(Clone, Copy, Debug)]
pub struct Timed {
    pub wall_ns: f64,
    pub user_ns: f64,
    pub system_ns: f64,
    pub switches: u64,
}

/// `splits`: of runs besides these, none where CPU time cannot be sampled; `known`: results of this
/// host.
pub fn cost(counted: &Counted, runs: &[Timed], splits: &[Split], known: &[Record]) -> Cost {
    let all = |value: fn(&Timed) -> f64| -> Vec<f64> { runs.iter().map(value).collect() };
    let wall_ns = median(&all(|it| it.wall_ns)).unwrap_or_default();
    let sampled = in_kernel(splits).map(|share| {
        let cpu = typical(&all(|it| it.user_ns + it.system_ns));
        let of = |share: CostTime| {
            let wide = cpu.times(share.ns);
            let own = share.half_width_ns() * cpu.ns;
            CostTime::sum([wide, CostTime::new(0.0, -own, own)])
        };
        [of(CostTime::new(1.0 - share.ns, 1.0 - share.high_ns, 1.0 - share.low_ns)), of(share)]
    });
    let processes = [Operation::Fork, Operation::Vfork].map(|it| counted.counts.number(it));
    let processes = 1 + processes.iter().sum::<u64>();
    let ticked = || {
        let times = [mean(&all(|it| it.user_ns)), mean(&all(|it| it.system_ns))];
        undivided(times, processes as f64)
    };
    let [user, system] = sampled.unwrap_or_else(ticked);
    // Counting itself makes a run switch.
    let switches = all(|it| it.switches as f64);
    let switches = median(&switches).unwrap_or_default().round() as u64;
    let slowdown = counted.wall_ns / wall_ns;
    let samples = splits.iter().map(|split| split.user + split.kernel).sum::<u64>();
    let samples = sampled.map(|_| samples);
    let measured = Cost { wall_ns, user, system, samples, slowdown, ..Cost::default() };
    // Where a thread begins differs from run to run.
    let elsewhere = median(&splits.iter().map(|it| it.elsewhere as f64).collect::<Vec<_>>());
    let elsewhere = elsewhere.unwrap_or_default().round() as u64;
    let besides = [(Operation::Switch, switches), (Operation::Elsewhere, elsewhere)];
    priced(measured, &counted.counts, &besides, known)
}

/// A window of a service that was not counted.
#[derive(Clone, Copy, Debug)]
pub struct ServiceWindow {
    pub completed: u64,
    pub wall_ns: f64,
    /// CPU time of all its threads; its division into user and system time is that of `used`.
    pub cpu_ns: f64,
    pub used: ServiceUse,
    /// CPUs that it can use.
    pub cpus: f64,
}

/// Of all requests that were completed while they were counted. `throughput`: that of the same load
/// before, by which the ceiling is judged; `known`: results of this host.
pub fn service_cost(
    counted: &ServiceCounts,
    plain: &ServiceWindow,
    (server, throughput): (&str, f64),
    known: &[Record],
) -> Cost {
    let scale = counted.completed as f64 / plain.completed.max(1) as f64;
    let ServiceUse { user_ns, system_ns, switches } = plain.used;
    let share = system_ns / (user_ns + system_ns).max(1.0);
    // Ticks are samples of the time.
    let ticks = plain.cpu_ns / TICK_NS;
    let half = TICK_NS * (1.0 + NORMAL_95 * (share * (1.0 - share) * ticks).sqrt());
    let time = |ns: f64| {
        CostTime::new(ns, (ns - half).max(0.0), (ns + half).min(plain.cpu_ns)).times(scale)
    };
    let measured = Cost {
        // What the requests took without counting.
        wall_ns: scale * plain.wall_ns,
        user: time(plain.cpu_ns * (1.0 - share)),
        system: time(plain.cpu_ns * share),
        slowdown: counted.wall_ns / (scale * plain.wall_ns),
        service: Some(CostService {
            server: server.to_owned(),
            requests: counted.completed,
            cpus: plain.cpus,
            throughput,
        }),
        ..Cost::default()
    };
    let switches = (scale * switches as f64).round() as u64;
    priced(measured, &counted.counts, &[(Operation::Switch, switches)], known)
}

/// Measured times, with what was counted, in that run and `besides`, and its prices.
fn priced(measured: Cost, counts: &Counts, besides: &[(Operation, u64)], known: &[Record]) -> Cost {
    let read = sum(counts, Operation::Read(Place::File)).size;
    let copied = counts.copied;
    let file_byte_ns =
        (2 * copied.bytes > read.max(1)).then(|| copied.ns as f64 / copied.bytes as f64);
    let (prices, system) = (Prices { known, file_byte_ns }, measured.system);
    let works = measured.service.as_ref().map_or(1, |service| service.requests).max(1) as f64;
    let mut missing = Vec::new();
    let mut terms: Vec<CostTerm> = merged(counts, besides)
        .into_iter()
        .map(|(operation, tally)| term(operation, (tally, works), &prices, &mut missing))
        .collect();
    let size = |term: &CostTerm| term.time.map_or(-1.0, |time| time.ns);
    terms.sort_by(|a, b| size(b).total_cmp(&size(a)).then(b.count.cmp(&a.count)));
    missing.sort_unstable();
    missing.dedup();
    let expected = CostTime::sum(terms.iter().filter_map(|term| term.time));
    Cost {
        expected,
        unexplained: system.without(expected),
        terms,
        waits: waits(counts),
        calls: counts.calls.clone(),
        missing,
        uncounted: counts.uncounted.iter().map(|it| (*it).to_owned()).collect(),
        ..measured
    }
}

/// The share of CPU time in the kernel, with its 95 % interval: that of the runs, or of as many
/// independent samples if it is wider.
fn in_kernel(splits: &[Split]) -> Option<CostTime> {
    let all = |it: &Split| (it.user + it.kernel) as f64;
    // A run that took longer was held up, such as by memory that the host had to provide.
    let usual = median(&splits.iter().map(all).collect::<Vec<f64>>()).unwrap_or_default();
    let splits: Vec<&Split> = splits.iter().filter(|it| all(it) <= USUAL_MAX * usual).collect();
    let all = |it: &&Split| all(it);
    let n: f64 = splits.iter().map(all).sum();
    let runs = splits.len() as f64;
    if n < SAMPLES_MIN {
        return None;
    }
    let share = splits.iter().map(|it| it.kernel as f64).sum::<f64>() / n;
    let squares = splits.iter().map(|it| (it.kernel as f64 - share * all(it)).powi(2)).sum::<f64>();
    let of_runs = if runs < 2.0 { 0.0 } else { squares * runs / (runs - 1.0) / n / n };
    let half = NORMAL_95 * of_runs.max(share * (1.0 - share) / n).sqrt();
    Some(CostTime::new(share, (share - half).max(0.0), (share + half).min(1.0)))
}

/// The median, of times that are not divided.
fn typical(values: &[f64]) -> CostTime {
    let mean = mean(values);
    let Some((limits, _)) = median_interval(values) else { return mean };
    CostTime::new(median(values).unwrap_or(mean.ns), limits[0], limits[1])
}

/// The mean: the kernel divides the time of a short run by ticks, so that a median is of one kind.
fn mean(values: &[f64]) -> CostTime {
    let n = values.len().max(1) as f64;
    let mean = values.iter().sum::<f64>() / n;
    let squares = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>();
    let half = match values.len() {
        ..2 => TICK_NS,
        _ => NORMAL_95 * (squares / (n - 1.0) / n).sqrt(),
    };
    CostTime::new(mean, (mean - half).max(0.0), mean + half)
}

/// The kernel divides the time of a process by the ticks that it saw, and calls all of it user time
/// if it saw none: so much of it may be system time.
fn undivided([mut user, mut system]: [CostTime; 2], processes: f64) -> [CostTime; 2] {
    let unseen = user.ns * (-(user.ns + system.ns) / processes / TICK_NS).exp();
    user.low_ns = (user.low_ns - unseen).max(0.0);
    system.high_ns += unseen;
    [user, system]
}

/// All sizes of an operation together, except where the size decides the price.
fn merged(counts: &Counts, besides: &[(Operation, u64)]) -> Vec<(Operation, Tally)> {
    let mut all: BTreeMap<(Operation, u32), Tally> = BTreeMap::new();
    for ((operation, class), tally) in &counts.operations {
        let is_apart =
            matches!(operation, Operation::Read(_) | Operation::Write(_) | Operation::Fork);
        let sum = all.entry((*operation, if is_apart { *class } else { 0 })).or_default();
        sum.count += tally.count;
        sum.size += tally.size;
        sum.mixed += tally.mixed;
        sum.forked += tally.forked;
    }
    let faults = |operation: &Operation| matches!(operation, Operation::Fault(_));
    let all_faults =
        all.iter().filter(|((it, _), _)| faults(it)).map(|(_, it)| it.count).sum::<u64>();
    // A call comes between two faults at most.
    let after_calls = counts.calls.values().sum::<u64>() as f64 / all_faults.max(1) as f64;
    let written = sum(counts, Operation::Write(Place::File));
    let block = written.size.checked_div(written.count).unwrap_or(BLOCK).min(BLOCK);
    for ((operation, _), tally) in &mut all {
        match operation {
            Operation::Fault(_) => {
                tally.mixed = (after_calls.min(1.0) * tally.count as f64).round() as u64;
            }
            Operation::Drop => tally.size = block * tally.count,
            _ => {}
        }
    }
    for (operation, count) in besides.iter().filter(|(_, count)| *count > 0) {
        all.insert((*operation, 0), Tally { count: *count, ..Tally::default() });
    }
    all.into_iter().map(|((operation, _), tally)| (operation, tally)).collect()
}

/// Of all sizes.
fn sum(counts: &Counts, operation: Operation) -> Tally {
    let of_it = counts.operations.iter().filter(|((one, _), _)| *one == operation);
    of_it.fold(Tally::default(), |sum, (_, it)| Tally {
        count: sum.count + it.count,
        size: sum.size.saturating_add(it.size),
        ..sum
    })
}

/// `works`: the command, or the requests of a service, whose bytes are apart.
fn term(
    operation: Operation,
    (tally, works): (Tally, f64),
    prices: &Prices<'_>,
    missing: &mut Vec<String>,
) -> CostTerm {
    let count = tally.count as f64;
    let size = tally.size as f64 / count;
    let plain = CostTerm {
        operation: operation.words(),
        count: tally.count,
        size: (tally.size > 0).then_some(size),
        ..CostTerm::default()
    };
    let Some(row) = row(operation) else { return plain };
    let factor = row.factor(tally);
    match prices.price(row, size, factor) {
        Ok(price) => CostTerm {
            time: Some(price.time.times(count)),
            what_if: what_if(row, (tally, works), &price, prices),
            price: Some(price),
            ..plain
        },
        Err(lacks) => {
            missing.extend(lacks);
            plain
        }
    }
}

/// What was measured here at another parameter, where it is a gain.
fn what_if(
    row: &Row,
    (tally, works): (Tally, f64),
    price: &CostPrice,
    prices: &Prices<'_>,
) -> Option<CostWhatIf> {
    let count = tally.count as f64;
    let with = |parts, times: f64| -> Option<(CostTime, Vec<String>)> {
        let CostPrice { time, from } = prices.sum(parts).ok()?;
        let time = row.in_program(prices.in_kernel(row, time), row.factor(tally));
        Some((time.times(times), from))
    };
    let (change, (time, from)) = match row.alternative {
        None if tally.forked > 0 => {
            let rest = count - tally.forked as f64;
            (VFORK.to_owned(), (price.time.times(rest), price.from.clone()))
        }
        Some(Alternative::Blocks) => {
            let bytes = tally.size as f64 / works;
            let of_all = |size: f64| {
                let CostPrice { time, from } = prices.price(row, size, row.factor(tally)).ok()?;
                Some((size, (time.times(works * (bytes / size).ceil()), from)))
            };
            let larger = |point: &&Point| (bytes * works / count..=bytes).contains(&point.size);
            let larger = row.points.iter().filter(larger);
            let all = larger.filter_map(|point| of_all(point.size));
            let best = all.min_by(|(_, (a, _)), (_, (b, _))| a.ns.total_cmp(&b.ns));
            let (size, of_size) = best?;
            let size = fathom_record::quantity::binary_size(size as i64);
            (format!("in {size}"), of_size)
        }
        Some(Alternative::HugePages(parts)) if count >= HUGE => {
            ("huge pages".to_owned(), with(parts, (count / HUGE).ceil())?)
        }
        None | Some(Alternative::HugePages(_)) => return None,
        Some(Alternative::Other(change, parts)) => (change.to_owned(), with(parts, count)?),
        Some(Alternative::Once(change)) => (change.to_owned(), (price.time, price.from.clone())),
    };
    let is_gain = time.ns < (1.0 - GAIN_MIN) * price.time.ns * count;
    is_gain.then_some(CostWhatIf { change, time, from })
}

fn waits(counts: &Counts) -> Vec<CostWait> {
    let wait = |(wait, (count, ns)): (&super::count::Wait, &(u64, u64))| CostWait {
        what: wait.word().to_owned(),
        count: *count,
        ns: ns.saturating_sub(count * counts.stop_ns) as f64,
    };
    let mut all: Vec<CostWait> = counts.waits.iter().map(wait).collect();
    all.sort_by(|a, b| b.ns.total_cmp(&a.ns));
    all
}

#[cfg(test)]
mod tests {
    use fathom_record::{Params, Unit};

    use super::*;
    use crate::count::{FaultKind, Wait};

    fn known() -> Vec<Record> {
        let time = |metric: &str, params: Params, ns: f64| {
            Record::fixture(metric, Unit::Nanoseconds).of_case(&params).within(ns, 0.0)
        };
        let block = |bytes: i64, rate: f64| {
            let params = Params::one("block", bytes).and("state", "warm").and("threads", 1);
            let record = Record::fixture("file.read.throughput", Unit::BytesPerSecond);
            record.of_case(&params.and("way", "read")).within(rate, 0.0)
        };
        vec![
            time("file.call", Params::one("call", "read1"), 300.0),
            block(4096, 8e9),
            block(65_536, 16e9),
            block(1 << 20, 16e9),
            time("memory.fault", Params::one("kind", "anonymous_first"), 1000.0),
            time("memory.fault", Params::one("kind", "huge"), 30_000.0),
            time("os.switch.process", Params::one("set_bytes", 0), 1500.0),
            time("network.tcp.connect", Params::one("to", "loopback"), 20_000.0),
        ]
    }

    fn counted() -> Counted {
        let mut counts = Counts::default();
        counts.add_many(Operation::Read(Place::File), 1000, 512_000);
        counts.add_many(Operation::Fault(FaultKind::Anonymous), 5120, 0);
        counts.add_many(Operation::Connect, 10, 0);
        counts.add_many(Operation::Other, 3, 0);
        counts.add_many(Operation::Stat, 2, 0);
        counts.waits.insert(Wait::Pipe, (10, 60_000));
        counts.stop_ns = 2_000;
        Counted { counts, wall_ns: 30e6 }
    }

    fn runs(system_ns: [f64; 3]) -> Vec<Timed> {
        let run = |system_ns| Timed { wall_ns: 10e6, user_ns: 1e6, system_ns, switches: 4 };
        system_ns.map(run).into()
    }

    #[test]
    fn terms_are_counts_times_prices_and_the_rest_is_unexplained() {
        let cost = cost(&counted(), &runs([8e6, 9e6, 10e6]), &[], &known());
        let names: Vec<&str> = cost.terms.iter().map(|term| term.operation.as_str()).collect();
        let largest = ["page fault, anonymous", "read, file", "connect", "context switch"];
        assert_eq!(names[..4], largest);
        let ns: Vec<f64> = cost.terms.iter().filter_map(|term| Some(term.time?.ns)).collect();
        assert_eq!((ns[0], ns[2], ns[3]), (5_120_000.0, 200_000.0, 6_000.0));
        assert_eq!(cost.terms[1].size, Some(512.0));
        assert!((cost.expected.ns - ns.iter().sum::<f64>()).abs() < 1.0);
        assert!((cost.unexplained.ns - (9e6 - cost.expected.ns)).abs() < 1.0);
        assert!(cost.unexplained.half_width_ns() >= cost.system.half_width_ns());
        assert_eq!(cost.missing, ["file.path{call=stat}"]);
        assert_eq!((cost.slowdown, cost.wall_ns), (3.0, 10e6));
        assert_eq!((cost.waits[0].what.as_str(), cost.waits[0].ns), ("pipe", 40_000.0));
    }

    #[test]
    fn what_if_is_only_what_was_measured_and_is_a_gain() {
        let of = |known: &[Record], name: &str| {
            let cost = cost(&counted(), &runs([9e6; 3]), &[], known);
            let term = cost.terms.into_iter().find(|term| term.operation == name).unwrap();
            term.what_if.map(|other| (other.change, other.time.ns.round()))
        };
        let all = known();
        let huge = Some(("huge pages".to_owned(), 300_000.0));
        assert_eq!(of(&all, "page fault, anonymous"), huge);
        assert_eq!(of(&all, "read, file"), Some(("in 64 KiB".to_owned(), 32_768.0)));
        assert_eq!(of(&all, "connect"), Some(("one connection".to_owned(), 20_000.0)));
        let without = |metric: &str, params: &str| -> Vec<Record> {
            let is =
                |it: &&Record| !(it.metric.as_str() == metric && it.params.to_string() == params);
            all.iter().filter(is).cloned().collect()
        };
        let without_huge = without("memory.fault", "{kind=huge}");
        assert_eq!(of(&without_huge, "page fault, anonymous"), None);
    }

    #[test]
    fn calls_after_other_calls_cost_more_than_those_of_a_loop() {
        let mut counts = Counts::default();
        for is_mixed in [true, true, false, false] {
            counts.is_mixed = is_mixed;
            counts.add(Operation::Connect, 0);
        }
        let connects = |counts: Counts| {
            let cost = cost(&Counted { counts, wall_ns: 1e6 }, &runs([1e6; 3]), &[], &known());
            let term = cost.terms.iter().find(|term| term.operation == "connect");
            term.and_then(|term| term.time).expect("a price")
        };
        // Half of them, 1.3 times 20 µs; the bounds are those of a loop.
        let half = connects(counts.clone());
        assert_eq!(half.ns.round(), 4.0 * 20_000.0 * 1.15);
        assert!(half.low_ns < 80_000.0 && half.high_ns > half.ns, "{half:?}");
        counts.operations.values_mut().for_each(|tally| tally.mixed = 0);
        assert_eq!(connects(counts).ns, 80_000.0);
    }

    #[test]
    fn vfork_saves_what_follows_a_fork_and_a_call_before_each_fault_costs() {
        let mut counts = Counts::default();
        let fault = Operation::Fault(FaultKind::Anonymous);
        counts.add_forked(Operation::Fault(FaultKind::Cow), (100, 75), 0);
        counts.add_many(fault, 100, 0);
        let fault_cow = Params::one("kind", "cow");
        let cow = Record::fixture("memory.fault", Unit::Nanoseconds).of_case(&fault_cow);
        let known = [known(), vec![cow.within(2000.0, 0.0)]].concat();
        let of = |counts: &Counts, name| {
            let counted = Counted { counts: counts.clone(), wall_ns: 1e6 };
            let cost = cost(&counted, &runs([1e6; 3]), &[], &known);
            cost.terms.into_iter().find(|term| term.operation == name).expect("a term")
        };
        let term = of(&counts, "page fault, copy-on-write");
        let other = term.what_if.expect("another way");
        assert_eq!((other.change.as_str(), other.time.ns.round()), (VFORK, 50_000.0));
        assert_eq!(of(&counts, "page fault, anonymous").time.map(|it| it.ns), Some(100_000.0));
        counts.calls.insert("getppid".to_owned(), 100);
        let half = of(&counts, "page fault, anonymous").time.map(|it| it.ns.round());
        assert_eq!(half, Some(107_500.0));
    }

    #[test]
    fn short_processes_may_have_more_system_time_than_the_kernel_saw() {
        let times = [7e6, 1e6].map(|ns| CostTime::new(ns, ns, ns));
        let [user, system] = undivided(times, 1.0);
        let unseen = 7e6 * (-2_f64).exp();
        assert!((system.high_ns - 1e6 - unseen).abs() < 1.0, "{system:?}");
        assert!((7e6 - user.low_ns - unseen).abs() < 1.0 && user.high_ns == 7e6, "{user:?}");
        assert!(undivided(times, 20.0)[1].high_ns > 7e6, "of twenty processes nothing is known");
    }

    #[test]
    fn samples_divide_cpu_time_where_there_are_enough() {
        let split = |user, kernel| Split { user, kernel, ..Split::default() };
        // 10, 11 and 12 ms in all.
        let of = |splits: &[Split]| cost(&counted(), &runs([9e6, 10e6, 11e6]), splits, &known());
        let even = of(&[split(30, 70); 4]);
        assert_eq!((even.system.ns.round(), even.user.ns.round()), (7.7e6, 3.3e6));
        assert_eq!(even.samples, Some(400));
        let [of_cpu, of_share] = [0.7 * 1e6 / 3_f64.sqrt(), 11e6 * (0.21 / 400.0_f64).sqrt()];
        let half = 1.96 * of_cpu.hypot(of_share);
        assert!((even.system.half_width_ns() - half).abs() < 1.0, "{:?}", even.system);
        let uneven = of(&[split(0, 100), split(60, 40), split(0, 100), split(60, 40)]);
        assert_eq!(uneven.system.ns.round(), 7.7e6);
        assert!(uneven.system.half_width_ns() > 2.0 * half, "runs differ more than samples");
        let few = of(&[split(9, 20)]);
        assert_eq!((few.samples, few.system.ns), (None, 10e6), "by ticks");
    }

    #[test]
    fn cost_of_a_service_is_of_the_requests_that_were_counted() {
        let Counted { counts, .. } = counted();
        let counted = ServiceCounts { counts, completed: 100, wall_ns: 1e9 };
        let used = ServiceUse { user_ns: 1e8, system_ns: 3e8, switches: 4000 };
        let (completed, wall_ns, cpu_ns, cpus) = (400, 2e9, 8e8, 1.0);
        let plain = ServiceWindow { completed, wall_ns, cpu_ns, used, cpus };
        let cost = service_cost(&counted, &plain, ("x (PID 1)", 210.0), &known());
        // A quarter of 0.6 s; ± a tick and that of 200 samples.
        assert_eq!((cost.system.ns, cost.user.ns, cost.wall_ns), (1.5e8, 5e7, 5e8));
        let half = 1e6 * (1.0 + 1.96 * 37.5_f64.sqrt());
        assert!((cost.system.half_width_ns() - half).abs() < 1.0, "{:?}", cost.system);
        assert_eq!(cost.slowdown, 2.0);
        let switches = cost.terms.iter().find(|it| it.operation == "context switch");
        assert_eq!(switches.map(|it| it.count), Some(1000), "as many as without counting");
        let service = cost.service.clone().expect("a service");
        assert_eq!((service.requests, service.throughput), (100, 210.0));
        let read = cost.terms.iter().find(|it| it.operation == "read, file").expect("reads");
        let change = read.what_if.as_ref().map(|other| other.change.as_str());
        assert_eq!(change, Some("in 4 KiB"), "a request has 5 KiB");
        let demand_s = (cost.user.ns + cost.expected.ns) / 100.0 / 1e9;
        let ceiling = cost.ceiling().expect("a ceiling");
        assert!((ceiling * demand_s - 1.0).abs() < 1e-9, "{ceiling}");
    }

    #[test]
    fn mean_has_an_interval_even_of_one_run() {
        assert_eq!(mean(&[8e6]), CostTime::new(8e6, 4e6, 12e6));
        let of = mean(&[1.0, 3.0, 1.0, 3.0]);
        assert!(of.ns == 2.0 && (of.high_ns - of.ns - 1.96 / 3_f64.sqrt()).abs() < 1e-3, "{of:?}");
    }
}
