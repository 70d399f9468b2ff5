//! Doses: known work is added to one resource at a time. Throughput falls as predicted only if that
//! resource is the bottleneck.

use std::sync::Arc;

use fathom_analysis::load::{LoadEffect, MeasuredStep, Proof, Resource, ShapeEstimate};
use fathom_metric::{Measured, ProcedureError, Recorder};
use fathom_record::quantity::quantity;
use fathom_record::{
    Basis, Fact, Histogram, Interval, LoadThread, LoadWindow, Params, Prediction, Unit, load_facts,
};

use crate::capacities::{Capacities, Rate, wide};
use crate::engine::{Body, End, Outcome, Timing};
use crate::limit::{Limit, id, mean, word};
use crate::metrics;
use crate::options::LoadVariant;
use crate::run::LoadRun;
use crate::step::Step;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng as _, SeedableRng as _};

/// Of the time of a request at saturation.
const SHARE: f64 = 0.5;
const ROUNDS: usize = 5;
/// Rounds beside other programs that are made again, at most.
const REPEATED: usize = 3;
const WINDOW_NS: [u64; 2] = [300_000_000, 3_000_000_000];
/// A window has three responses of each client.
const RUN_NS_MAX: u64 = 30_000_000_000;
/// Limits of `fathom serve`.
const TIME_NS_MAX: f64 = 100e6;
const BYTES_MAX: f64 = (16 << 20) as f64;
const BLOCK: f64 = 4096.0;
/// Not all bytes and not all CPU time of a dose are of its resource.
const TOLERANCE: f64 = 0.1;
/// A lane of the server gives doses of disk and serial section, which costs some 20 µs: more than a
/// tenth of a shorter request.
const LANE_REQUEST_S: f64 = 200e-6;
const FORMULA: &str = "(1 ÷ X) ÷ max(1 ÷ X, D + δ): X throughput at saturation, D demand of the \
    resource per request, δ added load";

/// Work that is added to each request.
#[derive(Clone, Debug, PartialEq)]
struct LoadDose {
    /// The value of the parameter `resource`.
    of: &'static str,
    /// Demand on that resource, without the dose and by it.
    demand_s: f64,
    dose_s: f64,
    /// A field of the requests, and what the body then has more.
    field: Option<String>,
    more_bytes: u64,
    spin_ns: u64,
    words: String,
}

impl LoadDose {
    /// The throughput with the dose ÷ without it.
    fn predicted(&self, request_s: f64) -> f64 {
        request_s / request_s.max(self.demand_s + self.dose_s)
    }

    /// Its record. `predicted`: fixed before the windows.
    fn measured(
        &self,
        params: &Params,
        found: &[LoadEffect],
        ratios: Vec<f64>,
        predicted: f64,
    ) -> Measured {
        let measured = found.iter().find(|it| it.of == self.of).map(|it| it.measured);
        let headline = measured.map(|it| {
            let interval = it.interval.map(|it| Interval::new(it, 0.95, Basis::WithinRun));
            (it.value, interval)
        });
        let half = measured.map_or(0.0, |it| (it.high() - it.low()) / 2.0 / it.value);
        Measured {
            metric: metrics::DOSE.0.id,
            params: params.clone().and("resource", self.of),
            values: ratios,
            headline,
            verdict: Some(wide(half)),
            prediction: Some(Prediction::sum(
                predicted,
                0.0,
                TOLERANCE,
                FORMULA,
                "utilisation law",
            )),
            facts: vec![
                Fact::text(load_facts::DOSE, self.words.clone()),
                Fact::quantity(load_facts::PREDICTED, predicted, Unit::Ratio),
            ],
            ..Measured::default()
        }
    }
}

/// How long a proof takes at most, warm-up left out.
pub fn planned_ns(window_ns: u64) -> u64 {
    6 * (ROUNDS + REPEATED) as u64 * time_ns(window_ns)
}

fn time_ns(window_ns: u64) -> u64 {
    window_ns.clamp(WINDOW_NS[0], WINDOW_NS[1])
}

/// The doses of all resources whose capacity is known.
fn doses(limit: &Limit, all: &Capacities, request_s: f64) -> Vec<LoadDose> {
    let suspect = word(&limit.name);
    let whole_s = SHARE * request_s;
    let demand_s = |resource| {
        let found = limit.uses.iter().find(|one| one.resource == resource);
        // The bottleneck is in use all the time.
        let known = found.and_then(|one| one.demand_s).unwrap_or(0.0);
        if id(resource) == suspect { request_s } else { known }
    };
    let bytes = |resource, of: &'static str, rate: f64, name: &str| {
        let bytes = (whole_s * rate).min(BYTES_MAX).round();
        // Direct reads have whole blocks.
        let is_disk = resource == Resource::Disk;
        let bytes = if is_disk { (bytes / BLOCK).ceil() * BLOCK } else { bytes };
        LoadDose {
            of,
            demand_s: demand_s(resource),
            dose_s: bytes / rate,
            field: Some(format!("Fathom-Dose: {name}={bytes}")),
            more_bytes: if resource == Resource::Disk { 0 } else { bytes as u64 },
            spin_ns: 0,
            words: format!("{:.0} kB more per request", bytes / 1e3),
        }
    };
    let time = |demand_s: f64, of: &'static str, cpus: f64, name: Option<&str>| {
        let ns = (whole_s * 1e9 * cpus).min(TIME_NS_MAX).round();
        LoadDose {
            of,
            demand_s,
            dose_s: ns / 1e9 / cpus,
            field: name.map(|name| format!("Fathom-Dose: {name}={ns}")),
            more_bytes: 0,
            spin_ns: if name.is_none() { ns as u64 } else { 0 },
            words: format!("{} more per request", quantity(ns, Unit::Nanoseconds)),
        }
    };
    let mut doses = Vec::new();
    let paced = all.paced.filter(|_| suspect == id(Resource::Pacing));
    match (paced, all.network) {
        (Some(rate), _) => {
            doses.push(bytes(Resource::Pacing, "pacing", rate.bytes_s, "wire_bytes"));
        }
        (None, Some(rate)) => {
            doses.push(bytes(Resource::Network, "network", rate.bytes_s, "wire_bytes"));
        }
        (None, None) => {}
    }
    let by_lane = request_s >= LANE_REQUEST_S;
    if let Some(Ok(rate)) = all.disk.clone().filter(|_| by_lane) {
        doses.push(bytes(Resource::Disk, "disk", rate.bytes_s, "disk_bytes"));
    }
    if all.server_cpus > 0.0 {
        let demand_s = demand_s(Resource::ServerCpu);
        doses.push(time(demand_s, "server-cpu", all.server_cpus, Some("cpu_ns")));
    }
    if all.client_cpus > 0.0 {
        doses.push(time(demand_s(Resource::Client), "client", all.client_cpus, None));
    }
    let of_serial = if suspect == "serial" { request_s } else { 0.0 };
    if by_lane {
        doses.push(time(of_serial, "serial", 1.0, Some("serial_ns")));
    }
    doses
}

/// Measures all doses at a saturated number of clients, and records their effects.
pub fn prove(
    run: &mut LoadRun<'_>,
    case: LoadVariant,
    (limit, all, clients): (&Limit, &Capacities, u32),
    params: &Params,
    recorder: &mut dyn Recorder,
) -> Result<Proof, ProcedureError> {
    let not_done = |why: &str| Ok(Proof::NotDone(why.to_owned()));
    let Some(saturation) = limit.saturation() else { return not_done("not saturated") };
    let request_s = 1.0 / saturation.throughput.value;
    let doses = doses(limit, all, request_s);
    let mut random = Xoshiro256PlusPlus::seed_from_u64(run.load.seed);
    let run_ns = time_ns(run.load.window_ns()).max((3e9 * f64::from(clients) * request_s) as u64);
    if run_ns > RUN_NS_MAX {
        return not_done("responses take too long for its windows");
    }
    let mut rounds: Vec<Vec<DoseWindow>> = Vec::new();
    while is_short(&rounds) {
        let mut round = vec![DoseWindow::default(); doses.len() + 1];
        for at in fathom_analysis::statistics::shuffled(round.len(), &mut random) {
            let dose = doses.get(at);
            let what =
                dose.map_or("without added load".to_owned(), |it| format!("added load: {}", it.of));
            let times = (clients, run_ns);
            let seed = random.next_u64();
            let window = measure(run, case, times, dose, seed, (&what, &mut *recorder))?;
            let Some(window) = window else {
                return not_done("a window was stopped or had no response");
            };
            round[at] = window;
        }
        rounds.push(round);
    }
    let quiet = rounds.iter().filter(|round| contention(round).is_none()).count();
    if quiet >= ROUNDS {
        rounds.retain(|round| contention(round).is_none());
    }
    let contention = rounds.iter().find_map(|round| contention(round));
    let suspect = word(&limit.name);
    let effect = |(at, dose)| effect(suspect, (at, dose), &rounds, all);
    let found: Vec<LoadEffect> = doses.iter().enumerate().filter_map(effect).collect();
    let params = params.clone().and("clients", i64::from(clients));
    for (at, dose) in doses.iter().enumerate() {
        let ratios = ratios(&rounds, at);
        recorder.record(dose.measured(&params, &found, ratios, dose.predicted(request_s)));
    }
    if found.len() < doses.len() {
        let text = "an added load had no effect that can be estimated".to_owned();
        return Ok(Proof::Inconclusive(text));
    }
    let untried = untried(&doses, limit, request_s);
    Ok(fathom_analysis::load::prove(suspect, &found, untried.as_deref(), contention.as_deref()))
}

/// Resources without an added load that may limit, and why: what is not used at all does not.
fn untried(doses: &[LoadDose], limit: &Limit, request_s: f64) -> Option<String> {
    let is_idle = |of: &str| {
        let own = limit.uses.iter().filter(|one| id(one.resource) == of);
        own.filter_map(|one| one.utilisation).any(|share| share.value == 0.0)
    };
    let is_tried = |of: &str| {
        let is_link = of == "network" && doses.iter().any(|dose| dose.of == "pacing");
        is_link || doses.iter().any(|dose| dose.of == of)
    };
    let all = ["network", "disk", "server-cpu", "client", "serial"];
    let missing: Vec<&str> = all.into_iter().filter(|of| !is_tried(of) && !is_idle(of)).collect();
    let why = match request_s < LANE_REQUEST_S {
        true => "requests are shorter than 200 µs",
        false => "capacity unknown",
    };
    (!missing.is_empty()).then(|| format!("{} ({why})", missing.join(", ")))
}

/// Whether rounds are missing: those beside other programs are made again.
fn is_short(rounds: &[Vec<DoseWindow>]) -> bool {
    let quiet = rounds.iter().filter(|round| contention(round).is_none()).count();
    quiet < ROUNDS && rounds.len() < ROUNDS + REPEATED
}

/// What other programs did in the windows of a round.
fn contention(round: &[DoseWindow]) -> Option<String> {
    round.iter().find_map(|window| window.step.contention())
}

/// The throughput with added load ÷ without it, in each round.
fn ratios(rounds: &[Vec<DoseWindow>], at: usize) -> Vec<f64> {
    let without = |round: &[DoseWindow]| round.last().map_or(f64::NAN, DoseWindow::rate);
    rounds.iter().map(|round| round[at].rate() / without(round)).collect()
}

/// The effect of a dose, which is judged by what it took: a spin takes longer where other programs
/// use the CPU, and a dose for one resource may have a cost for the suspect.
fn effect(
    suspect: &str,
    (at, dose): (usize, &LoadDose),
    rounds: &[Vec<DoseWindow>],
    all: &Capacities,
) -> Option<LoadEffect> {
    let without = rounds.first()?.len() - 1;
    let demand = |of: &str, at: usize, waits: bool| {
        let each: Option<Vec<f64>> =
            rounds.iter().map(|round| demand(of, &round[at], all, waits)).collect();
        each.map(|each| mean(&each))
    };
    let is_own = dose.of == suspect;
    let both = demand(dose.of, without, !is_own).zip(demand(dose.of, at, !is_own));
    let (took_s, with_s) = match both {
        Some((before, with)) => ((with - before).max(0.0), with),
        // A lock has no counter: it is held for as long as was asked.
        None if dose.of == "serial" => (dose.dose_s, dose.demand_s + dose.dose_s),
        // Whether it was taken is unknown: it excludes nothing.
        None => (0.0, 0.0),
    };
    let side = demand(suspect, without, false).zip(demand(suspect, at, false));
    let side = side.map_or(1.0, |(before, with)| before / with).min(1.0);
    let request_s =
        mean(&rounds.iter().map(|round| 1.0 / round[without].rate()).collect::<Vec<f64>>());
    let if_other = match is_own {
        true => request_s / request_s.max(took_s),
        false => (request_s / request_s.max(with_s)).min(side),
    };
    let measured = ShapeEstimate::of_sweeps(&ratios(rounds, at))?;
    let if_limit = request_s / (request_s + took_s);
    Some(LoadEffect { of: dose.of, measured, if_limit, if_other })
}

/// A window of a proof.
#[derive(Clone, Default)]
struct DoseWindow {
    step: MeasuredStep,
    /// CPU time of the client, and its waits for a CPU.
    client_ns: [u64; 2],
}

impl DoseWindow {
    fn from_window(window: &LoadWindow) -> Self {
        let mut step = MeasuredStep::default();
        step.add(window);
        // Of many windows the response times would be what grows in memory.
        step.batches.clear();
        step.all.times = Histogram::default();
        let sum = |of: fn(&LoadThread) -> u64| window.threads.iter().map(of).sum();
        Self { step, client_ns: [sum(|it| it.cpu_ns), sum(|it| it.wait_ns)] }
    }

    fn rate(&self) -> f64 {
        self.step.throughput()
    }
}

/// The time per request of a resource, of a CPU also that of waiting for it if `waits`. `None` if
/// it has no capacity, or its use is unknown.
fn demand(of: &str, window: &DoseWindow, all: &Capacities, waits: bool) -> Option<f64> {
    let of_rate = |bytes: u64, rate: Rate| bytes as f64 / rate.bytes_s;
    let of_cpus = |[cpu_ns, wait_ns]: [u64; 2], cpus: f64| {
        let ns = cpu_ns + if waits { wait_ns } else { 0 };
        (cpus > 0.0).then(|| ns as f64 / 1e9 / cpus)
    };
    let server = window.step.server.as_ref();
    let received = window.step.all.received_bytes;
    let all_s = match of {
        "network" => of_rate(received, all.network?),
        "pacing" => of_rate(received, all.paced?),
        "disk" => of_rate(server?.disk_bytes?, all.disk.as_ref()?.as_ref().ok().copied()?),
        "server-cpu" => of_cpus([server?.cpu_ns, server?.reactor_wait_ns], all.server_cpus)?,
        "client" => of_cpus(window.client_ns, all.client_cpus)?,
        _ => return None,
    };
    Some(all_s / window.step.all.arrived())
}

/// A window with added load. `None` if nothing was completed, or after a stop.
fn measure(
    run: &mut LoadRun<'_>,
    case: LoadVariant,
    (clients, run_ns): (u32, u64),
    dose: Option<&LoadDose>,
    seed: u64,
    (what, recorder): (&str, &mut dyn Recorder),
) -> Result<Option<DoseWindow>, ProcedureError> {
    run.set_cache(&mut Step::new(clients))?;
    let mut work = run.load.workload(&run.target, case, clients, seed);
    // Bytes of a dose are no file's.
    work.body = if work.body == Body::Verify { Body::Copy } else { work.body };
    if let Some(dose) = dose {
        work.spin_ns = dose.spin_ns;
        if let Some(field) = &dose.field {
            work.requests = Arc::new(work.requests.with(field, dose.more_bytes));
        }
    }
    let timing = Timing::with_window(run_ns, None);
    let Outcome { tally, end } = run.window(&work, timing, what, recorder)?;
    let is_whole = end == End::Complete && tally.window.completed() > 0;
    Ok(is_whole.then(|| DoseWindow::from_window(&tally.window)))
}

#[cfg(test)]
mod tests {
    use fathom_analysis::load::{Name, Use};
    use fathom_record::{LoadSlot, ServerUse, Verdict};

    use super::*;
    use crate::figures::LoadTelemetry;
    use crate::fixture::assert_golden;
    use crate::used::between;

    /// A window of a second and 4 kB, with 2 s of client CPU time, and half as much waiting at both
    /// ends.
    fn window(completed: u64, cpu_ns: u64) -> DoseWindow {
        let server = between(
            &LoadTelemetry::default(),
            &LoadTelemetry { cpu_ns, reactor_wait_ns: cpu_ns / 2, ..LoadTelemetry::default() },
        );
        let server = ServerUse { disk_bytes: Some(800), ..server };
        let slot = LoadSlot { completed, received_bytes: 4_000, ..LoadSlot::default() };
        let thread = LoadThread { cpu_ns: 2_000_000_000, wait_ns: 1_000_000_000, wall_ns: 1 };
        DoseWindow::from_window(&LoadWindow {
            window_ns: 1_000_000_000,
            slots: vec![slot],
            threads: vec![thread],
            server: Some(server),
            ..LoadWindow::default()
        })
    }

    fn capacities() -> Capacities {
        let rate = |bytes_s| Rate { bytes_s, half: 0.0 };
        Capacities {
            network: Some(rate(100.0)),
            paced: Some(rate(50.0)),
            disk: Some(Ok(rate(20.0))),
            server_cpus: 3.0,
            client_cpus: 0.5,
            ..Capacities::default()
        }
    }

    #[test]
    fn demand_is_the_use_of_a_resource_by_its_capacity() {
        let (used, all) = (window(10, 3_000_000_000), capacities());
        let resources = ["network", "pacing", "disk", "server-cpu", "client", "queue"];
        let found = resources.map(|of| demand(of, &used, &all, false));
        assert_eq!(found, [Some(4.0), Some(8.0), Some(4.0), Some(0.1), Some(0.4), None]);
        let waits = ["server-cpu", "client"].map(|of| demand(of, &used, &all, true));
        assert_eq!(waits, [Some(0.15), Some(0.6)]);
        let none = Capacities { disk: Some(Err("in memory".to_owned())), ..Capacities::default() };
        assert_eq!(resources.map(|of| demand(of, &used, &none, false)), [None; 6]);
    }

    #[test]
    fn dose_is_judged_by_what_it_took() {
        // Requests of 100 ms, of which the server computes 1 ms; a spin of 50 ms.
        let all = Capacities { server_cpus: 1.0, ..capacities() };
        let dose = LoadDose { of: "server-cpu", ..dose(0.001, 0.05) };
        let rounds = |completed, cpu_ms: u64| {
            let with = window(completed, cpu_ms * 1_000_000);
            vec![vec![with, window(10, 10_000_000)]; ROUNDS]
        };
        let of = |completed, cpu_ms| {
            let found = effect("disk", (0, &dose), &rounds(completed, cpu_ms), &all).unwrap();
            [found.if_limit, found.if_other].map(|ratio| (100.0 * ratio).round())
        };
        // 10 × 51 ms of CPU, with waits half as much again.
        assert_eq!(of(10, 510), [57.0, 100.0]);
        // One request in a second, and 667 ms of CPU.
        assert_eq!(of(1, 667), [9.0, 10.0], "the waits explain it");
    }

    #[test]
    fn round_beside_other_programs_is_made_again() {
        let quiet = || vec![window(10, 10_000_000)];
        let busy = || {
            let mut round = quiet();
            let sweep = &mut round[0].step.by_sweep[0];
            (sweep.others, sweep.client_waiting) = (Some(1.5), 0.3);
            round
        };
        assert!(contention(&busy()).is_some_and(|it| it.contains("1.5 CPUs")));
        let rounds = |quiets: usize, busies: usize| {
            let quiet = std::iter::repeat_with(quiet).take(quiets);
            quiet.chain(std::iter::repeat_with(busy).take(busies)).collect::<Vec<_>>()
        };
        assert!(is_short(&rounds(ROUNDS - 1, REPEATED)));
        assert!(!is_short(&rounds(ROUNDS, 0)) && !is_short(&rounds(0, ROUNDS + REPEATED)));
    }

    #[test]
    fn proof_takes_six_windows_a_round_and_some_are_repeated() {
        let ns = [1, 1_000_000_000, 9_000_000_000].map(planned_ns);
        assert_eq!(ns, [14_400_000_000, 48_000_000_000, 144_000_000_000]);
    }

    #[test]
    fn dose_of_each_resource_is_half_of_a_request() {
        let rate = |bytes_s| Rate { bytes_s, half: 0.0 };
        let all = Capacities {
            network: Some(rate(10e6)),
            paced: Some(rate(5e6)),
            disk: Some(Ok(rate(100e6))),
            server_cpus: 2.0,
            client_cpus: 0.5,
            ..Capacities::default()
        };
        let text = |name, resource, all: &Capacities, request_s| {
            let demand = |resource, demand_s| Use {
                resource,
                utilisation: None,
                demand_s: Some(demand_s),
                measured_under: None,
            };
            let uses = vec![demand(resource, 0.007), demand(Resource::Client, 0.003)];
            let limit = Limit::named(name, uses);
            let doses = doses(&limit, all, request_s);
            let line = |it: &LoadDose| {
                let [demand, dose] =
                    [it.demand_s, it.dose_s].map(|s| quantity(1e9 * s, Unit::Nanoseconds));
                let field = it.field.as_deref().unwrap_or("no field");
                let more = format!("{} bytes, spin {} ns", it.more_bytes, it.spin_ns);
                format!("  {}: {demand} + {dose}, {field}, {more}; {}\n", it.of, it.words)
            };
            let untried = untried(&doses, &limit, request_s);
            let untried = untried.map_or(String::new(), |it| format!("  untried: {it}\n"));
            doses.iter().map(line).collect::<String>() + &untried
        };
        let (network, pacing) = (Resource::Network, Resource::Pacing);
        let none = Capacities { disk: Some(Err(String::new())), ..Capacities::default() };
        let cases = [
            ("network", text(Name::Resource(network), network, &all, 0.02)),
            ("pacing", text(Name::Resource(pacing), pacing, &all, 0.02)),
            ("serial, by a lane", text(Name::Serial, Resource::ServerCpu, &all, 200e-6)),
            ("serial, too short for a lane", text(Name::Serial, Resource::Disk, &all, 199e-6)),
            ("largest doses", text(Name::Serial, Resource::Disk, &all, 50.0)),
            ("nothing known", text(Name::Serial, Resource::Disk, &none, 0.02)),
        ];
        let text = cases.map(|(what, text)| format!("{what}\n{text}")).concat();
        assert_golden("doses.txt", &text);
    }

    #[test]
    fn record_of_a_dose_has_its_effect_and_its_prediction() {
        let dose = LoadDose { words: "8 KiB more".to_owned(), ..dose(0.1, 0.1) };
        let measured = ShapeEstimate { value: 0.55, interval: Some([0.5, 0.6]) };
        let found = [LoadEffect { of: "disk", measured, if_limit: 0.5, if_other: 1.0 }];
        let measured = dose.measured(&Params::one("to", "far"), &found, vec![0.54, 0.56], 0.5);
        assert_eq!(measured.metric, metrics::DOSE.0.id);
        assert_eq!(measured.params, Params::one("to", "far").and("resource", "disk"));
        assert_eq!(measured.values, [0.54, 0.56]);
        let (value, interval) = measured.headline.expect("a number");
        let limits = interval.map(|interval| (interval.low, interval.high));
        assert_eq!((value, limits), (0.55, Some((0.5, 0.6))));
        assert_eq!(measured.verdict, Some(Verdict::default()));
        assert_eq!(measured.prediction.and_then(|it| it.value), Some(0.5));
        let facts: Vec<&str> = measured.facts.iter().map(|fact| fact.name.as_str()).collect();
        assert_eq!(facts, ["dose", "predicted"]);
    }

    fn dose(demand_s: f64, dose_s: f64) -> LoadDose {
        let (field, words) = (None, String::new());
        LoadDose { of: "disk", demand_s, dose_s, field, more_bytes: 0, spin_ns: 0, words }
    }

    #[test]
    fn prediction_is_by_the_longest_demand() {
        assert!((dose(0.1, 0.05).predicted(0.1) - 2.0 / 3.0).abs() < 1e-12, "the bottleneck");
        assert!((dose(0.02, 0.05).predicted(0.1) - 1.0).abs() < 1e-12, "another one");
        assert!(
            (dose(0.075, 0.05).predicted(0.1) - 0.8).abs() < 1e-12,
            "it becomes the bottleneck"
        );
    }
}
