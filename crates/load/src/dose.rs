//! Doses: known work is added to one resource at a time. Throughput falls as predicted only if that
//! resource is the bottleneck.

use std::sync::Arc;

use fathom_analysis::load::{Resource, ShapeEstimate};
use fathom_metric::{Measured, ProcedureError, Recorder};
use fathom_record::quantity::quantity;
use fathom_record::{
    Basis, Fact, Interval, Params, Prediction, ServerUse, Unit, Verdict, load_facts,
};

use crate::capacities::{Capacities, Rate};
use crate::engine::{Body, End, Outcome, Tally, Timing};
use crate::limit::{Limit, Proof, id, mean, word};
use crate::metrics;
use crate::options::LoadVariant;
use crate::run::{LoadRun, shuffled};
use crate::step::Step;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng as _, SeedableRng as _};

/// Of the time of a request at saturation.
const SHARE: f64 = 0.5;
const ROUNDS: usize = 3;
const WINDOW_NS: [u64; 2] = [300_000_000, 4_000_000_000];
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
}

/// How long a proof takes, warm-up left out.
pub fn planned_ns(window_ns: u64) -> u64 {
    6 * ROUNDS as u64 * time_ns(window_ns)
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
    // Logarithms of the ratios of each dose, by round.
    let mut ratios = vec![Vec::new(); doses.len()];
    // Demands on the suspect: a dose for another resource may have side costs.
    let mut demands = vec![Vec::new(); doses.len() + 1];
    let suspect = word(&limit.name);
    let run_ns = time_ns(run.load.window_ns()).max((3e9 * f64::from(clients) * request_s) as u64);
    if run_ns > RUN_NS_MAX {
        return not_done("responses take too long for its windows");
    }
    for _ in 0..ROUNDS {
        let mut rates = vec![0.0; doses.len() + 1];
        for at in shuffled(rates.len(), &mut random) {
            let dose = doses.get(at);
            let what =
                dose.map_or("without added load".to_owned(), |it| format!("added load: {}", it.of));
            let window = throughput(
                run,
                case,
                (clients, run_ns),
                dose,
                random.next_u64(),
                (&what, recorder),
            )?;
            let Some((rate, used)) = window else {
                return not_done("a window was stopped or had no response");
            };
            rates[at] = rate;
            demands[at].extend(used.and_then(|used| demand(suspect, &used, all)));
        }
        let without = rates[doses.len()];
        for (ratio, rate) in ratios.iter_mut().zip(&rates) {
            ratio.push(rate / without);
        }
    }
    let before_s = mean(&demands[doses.len()]);
    let effect = |(dose, (ratios, demands)): (&LoadDose, (&Vec<f64>, &Vec<f64>))| {
        // Of the suspect it is the dose itself.
        let side = if dose.of == suspect { 1.0 } else { before_s / mean(demands) };
        Effect::from_dose(dose, ratios, (request_s, side))
    };
    let both = doses.iter().zip(ratios.iter().zip(&demands));
    let found: Vec<Effect> = both.filter_map(effect).collect();
    let params = params.clone().and("clients", i64::from(clients));
    found.iter().for_each(|effect| _ = recorder.record(effect.measured(&params)));
    let without = || Proof::NotDone("no load can be added to it".to_owned());
    Ok(judge(suspect, &found).unwrap_or_else(without))
}

/// What a window used.
struct DoseUsed {
    server: ServerUse,
    client_ns: u64,
    completed: f64,
}

/// The time per request of a resource. `None` if it has no capacity, or its use is unknown.
fn demand(of: &str, used: &DoseUsed, all: &Capacities) -> Option<f64> {
    let of_rate = |bytes: Option<u64>, rate: Rate| Some(bytes? as f64 / rate.bytes_s);
    let of_cpus = |ns: u64, cpus: f64| (cpus > 0.0).then(|| ns as f64 / 1e9 / cpus);
    let all_s = match of {
        "network" => of_rate(used.server.wire_bytes, all.network?),
        "pacing" => of_rate(used.server.wire_bytes, all.paced?),
        "disk" => of_rate(used.server.disk_bytes, all.disk.as_ref()?.as_ref().ok().copied()?),
        "server-cpu" => of_cpus(used.server.cpu_ns, all.server_cpus),
        "client" => of_cpus(used.client_ns, all.client_cpus),
        _ => None,
    };
    Some(all_s? / used.completed)
}

/// The throughput with added load, and what was used. `None` if nothing was completed, or after a
/// stop.
fn throughput(
    run: &mut LoadRun<'_>,
    case: LoadVariant,
    (clients, run_ns): (u32, u64),
    dose: Option<&LoadDose>,
    seed: u64,
    (what, recorder): (&str, &mut dyn Recorder),
) -> Result<Option<(f64, Option<DoseUsed>)>, ProcedureError> {
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
    let Outcome { tally: Tally { window, .. }, end } = run.window(&work, timing, what, recorder)?;
    let completed = window.completed() as f64;
    if end != End::Complete || completed == 0.0 {
        return Ok(None);
    }
    let client_ns = window.threads.iter().map(|thread| thread.cpu_ns).sum();
    let used = window.server.map(|server| DoseUsed { server, client_ns, completed });
    Ok(Some((completed / window.window_ns as f64 * 1e9, used)))
}

/// The effect of a dose on the throughput, as a ratio.
#[derive(Clone, Debug, PartialEq)]
struct Effect {
    of: &'static str,
    /// Fixed before the windows.
    predicted: f64,
    /// What a higher demand on the suspect, as measured, leaves of the throughput.
    side: f64,
    measured: ShapeEstimate,
    words: String,
    ratios: Vec<f64>,
}

impl Effect {
    fn from_dose(dose: &LoadDose, ratios: &[f64], (request_s, side): (f64, f64)) -> Option<Self> {
        Some(Self {
            of: dose.of,
            predicted: dose.predicted(request_s),
            side: if side.is_finite() { side.min(1.0) } else { 1.0 },
            measured: ShapeEstimate::of_sweeps(ratios)?,
            words: dose.words.clone(),
            ratios: ratios.to_vec(),
        })
    }

    fn measured(&self, params: &Params) -> Measured {
        let interval = self.measured.interval.map(|it| Interval::new(it, 0.95, Basis::WithinRun));
        let prediction =
            Prediction::sum(self.predicted, 0.0, TOLERANCE, FORMULA, "utilisation law");
        Measured {
            metric: metrics::DOSE.0.id,
            params: params.clone().and("resource", self.of),
            values: self.ratios.clone(),
            headline: Some((self.measured.value, interval)),
            verdict: Some(Verdict::default()),
            prediction: Some(prediction),
            facts: vec![
                Fact::text(load_facts::DOSE, self.words.clone()),
                Fact::quantity(load_facts::PREDICTED, self.predicted, Unit::Ratio),
            ],
            ..Measured::default()
        }
    }
}

/// The dose of the suspect must have at least half of its predicted effect, by the whole interval,
/// and no other dose without a predicted effect may have as much.
fn judge(suspect: &str, found: &[Effect]) -> Option<Proof> {
    let own = found.iter().find(|effect| effect.of == suspect)?;
    let middle = (1.0 + own.predicted) / 2.0;
    let percent = |ratio: f64| format!("{:.0} %", 100.0 * ratio);
    let as_found = format!(
        "with {} for the {suspect}, throughput was {} ({} to {}), and {} was predicted",
        own.words,
        percent(own.measured.value),
        percent(own.measured.low()),
        percent(own.measured.high()),
        percent(own.predicted)
    );
    if own.measured.low() > middle {
        return Some(Proof::Refuted(as_found));
    }
    if own.measured.high() >= middle {
        return Some(Proof::Inconclusive(as_found));
    }
    let has_effect = |effect: &&Effect| {
        effect.measured.high() < middle && effect.measured.low() <= own.measured.high()
    };
    let is_other =
        |effect: &&Effect| effect.of != suspect && effect.predicted.min(effect.side) > middle;
    let other = found.iter().filter(is_other).find(has_effect);
    Some(other.map_or(Proof::Confirmed, |other| {
        Proof::Refuted(format!(
            "load added to another resource, {}, also lowers throughput to {}",
            other.of,
            percent(other.measured.value)
        ))
    }))
}

#[cfg(test)]
mod tests {
    use fathom_analysis::load::{Name, Use};

    use super::*;
    use crate::figures::LoadTelemetry;
    use crate::fixture::assert_golden;
    use crate::used::between;

    #[test]
    fn demand_is_the_use_of_a_resource_by_its_capacity() {
        let server = between(
            &LoadTelemetry::default(),
            &LoadTelemetry {
                cpu_ns: 3_000_000_000,
                bytes_on_wire: Some(10),
                ..LoadTelemetry::default()
            },
        );
        let server = ServerUse { wire_bytes: Some(4_000), disk_bytes: Some(800), ..server };
        let used = DoseUsed { server, client_ns: 2_000_000_000, completed: 10.0 };
        let rate = |bytes_s| Rate { bytes_s, half: 0.0 };
        let all = Capacities {
            network: Some(rate(100.0)),
            paced: Some(rate(50.0)),
            disk: Some(Ok(rate(20.0))),
            server_cpus: 3.0,
            client_cpus: 0.5,
            ..Capacities::default()
        };
        let resources = ["network", "pacing", "disk", "server-cpu", "client", "queue"];
        let found = resources.map(|of| demand(of, &used, &all));
        assert_eq!(found, [Some(4.0), Some(8.0), Some(4.0), Some(0.1), Some(0.4), None]);
        let none = Capacities { disk: Some(Err("in memory".to_owned())), ..Capacities::default() };
        assert_eq!(resources.map(|of| demand(of, &used, &none)), [None; 6]);
    }

    #[test]
    fn proof_takes_six_windows_a_round() {
        let ns = [1, 1_000_000_000, 9_000_000_000].map(planned_ns);
        assert_eq!(ns, [5_400_000_000, 18_000_000_000, 72_000_000_000]);
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
            let doses = doses(&Limit::named(name, uses), all, request_s);
            let line = |it: &LoadDose| {
                let [demand, dose] =
                    [it.demand_s, it.dose_s].map(|s| quantity(1e9 * s, Unit::Nanoseconds));
                let field = it.field.as_deref().unwrap_or("no field");
                let more = format!("{} bytes, spin {} ns", it.more_bytes, it.spin_ns);
                format!("  {}: {demand} + {dose}, {field}, {more}; {}\n", it.of, it.words)
            };
            doses.iter().map(line).collect::<String>()
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

    fn effect(of: &'static str, predicted: f64, measured: f64) -> Effect {
        let measured = ShapeEstimate { value: measured, interval: None };
        Effect { of, predicted, side: 1.0, measured, words: String::new(), ratios: Vec::new() }
    }

    #[test]
    fn record_of_a_dose_has_its_effect_and_its_prediction() {
        let mut effect = effect("disk", 0.5, 0.55);
        effect.measured.interval = Some([0.5, 0.6]);
        effect.words = "8 KiB more".to_owned();
        effect.ratios = vec![0.54, 0.56];
        let measured = effect.measured(&Params::one("to", "far"));
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

    #[test]
    fn only_the_effect_of_the_suspect_confirms_it() {
        let found = |own: f64, other: f64, third: f64| {
            let all = [effect("disk", 0.67, own), effect("serial", 1.0, other)];
            let becomes = effect("network", 0.8, third);
            judge("disk", &[all[0].clone(), all[1].clone(), becomes])
        };
        assert_eq!(found(0.7, 0.99, 0.81), Some(Proof::Confirmed));
        assert!(matches!(found(0.98, 0.99, 0.81), Some(Proof::Refuted(_))), "no effect");
        assert!(matches!(found(0.7, 0.7, 0.81), Some(Proof::Refuted(_))), "of any dose");
        let mut wide = effect("disk", 0.67, 0.7);
        wide.measured.interval = Some([0.5, 0.9]);
        assert!(matches!(judge("disk", &[wide]), Some(Proof::Inconclusive(_))));
        let mut other = effect("serial", 1.0, 0.75);
        other.measured.interval = Some([0.5, 1.1]);
        let own = effect("disk", 0.67, 0.7);
        assert_eq!(
            judge("disk", &[own, other]),
            Some(Proof::Confirmed),
            "no effect by its interval"
        );
        assert_eq!(judge("undetermined", &[effect("disk", 0.67, 0.67)]), None);
    }
}
