//! What limits the throughput: the shape of the curve, what it uses of each resource at saturation,
//! and the records of both.

mod local;

use std::collections::BTreeMap;

use fathom_analysis::load::{BUSY, bottleneck, shape};
use fathom_analysis::load::{
    LeftOut, MeasuredStep, MeasuredSweep, Name, Proof, Resource, Saturation, Shape, ShapeCurve,
    ShapeEstimate, ShapePoint, StepJudgement, Use, WAITING_MIN,
};
use fathom_analysis::statistics::mean_half_width;
use fathom_metric::Measured;
use fathom_record::load_facts::{UTILISATION, ends_of, of_resource};
use fathom_record::{
    Basis, Cause, Fact, Interval, Params, Reason, Series, ServerUse, State, Unit, Verdict,
    load_facts,
};

use crate::capacities::{Capacities, Rate, wide};
use crate::metrics::{self, OfServer};

/// Less than this share of the bytes sent is not work of the disk.
const DISK_SHARE_MIN: f64 = 0.01;
/// An end that lacks a CPU, and is busy or waits for more than this share of the time, may be
/// limited by the CPU.
const SHARED_MIN: f64 = 0.75;
/// Scatter of the response times of N clients and of one.
const DEMAND_MAX: f64 = 1.25;
/// A use that still agrees with its capacity. Pacing that is exceeded by more is no limit: it was
/// measured in a bad moment.
const AGREES_MAX: f64 = 1.05;

/// Bytes per second.
type LimitUsed = Vec<(Resource, f64)>;

/// A curve with what it used.
pub struct Limit {
    pub shape: Shape,
    pub uses: Vec<Use>,
    pub name: Name,
    /// Bytes per second of each resource in use at saturation, or at the largest step.
    used: LimitUsed,
    /// Of the valid steps.
    clients: Vec<u32>,
    /// Sweeps with a number of clients at which the client was the limit.
    client_from: Option<u32>,
    /// Steps that are no points of the curve, and why.
    left_out: Vec<(u32, LeftOut)>,
    /// Of a curve that is not saturated, with a think time: (D + Z) ÷ D, where D is the response
    /// time of one client, or what the network needs for a request if that is longer.
    knee: Option<ShapeEstimate>,
    /// Whether a step at saturation is.
    is_noisy: bool,
    /// Whether the server's figures are those of its processes.
    is_local: bool,
}

impl Limit {
    /// `steps`: in ascending order; `judged` as many.
    pub fn from_steps(
        steps: &[&MeasuredStep],
        judged: &[StepJudgement],
        think_s: f64,
        all: &Capacities,
    ) -> Self {
        let both = || steps.iter().copied().zip(judged);
        let valid = || both().filter(|(_, judged)| judged.is_point()).map(|(step, _)| step);
        let point = |step: &MeasuredStep| ShapePoint {
            clients: step.clients,
            sweeps: step.by_sweep.iter().map(|sweep| sweep.point).collect(),
        };
        let curve = ShapeCurve { think_s, points: valid().map(point).collect() };
        let shape = shape(&curve);
        // A step with too few responses for an interval of its own is enough.
        let alone = both().find(|(step, judged)| step.clients == 1 && judged.shows());
        let alone = alone.filter(|(step, _)| think_s > 0.0 && is_demand(step, valid()));
        let knee = alone.and_then(|(step, _)| {
            // A burst of a token bucket serves one client faster than the link carries.
            let least_s = all.network_demand_s().unwrap_or(0.0);
            let knee = |sweep: &MeasuredSweep| 1.0 + think_s / sweep.point.response_s.max(least_s);
            ShapeEstimate::of_sweeps(&step.by_sweep.iter().map(knee).collect::<Vec<f64>>())
        });
        // The generator itself is the limit of what follows the last valid step, or of all but one.
        let last = match curve.points.as_slice() {
            [_, .., last] => last.clients,
            _ => 0,
        };
        let is_client_bound = |step: &&&MeasuredStep| step.clients > last && step.is_client_bound();
        let client_from = steps.iter().find(is_client_bound).map(|step| step.clients);
        let at: Vec<&MeasuredStep> = match (&shape, client_from) {
            (Shape::Saturated(found), _) => {
                let to = found.falls_from.map_or(u32::MAX, |from| from - 1);
                valid().filter(|step| (found.plateau_from..=to).contains(&step.clients)).collect()
            }
            // An invalid step is the evidence.
            (_, Some(from)) => steps.iter().copied().filter(|step| step.clients == from).collect(),
            (Shape::NotSaturated { up_to, .. }, None) => {
                valid().filter(|step| step.clients == *up_to).collect()
            }
        };
        let is_saturated = matches!(shape, Shape::Saturated(_));
        let is_local =
            |sweep: &&MeasuredSweep| sweep.server.as_ref().is_some_and(|it| it.looks.is_some());
        let all_sweeps = || at.iter().flat_map(|step| &step.by_sweep);
        let is_local = all_sweeps().next().is_some() && all_sweeps().all(|it| is_local(&it));
        let at = if is_local { local::loaded(&at) } else { at };
        let sweeps: Vec<&MeasuredSweep> = at.iter().flat_map(|step| &step.by_sweep).collect();
        let (uses, used) = match is_local {
            true => local::uses(&at, think_s, is_saturated),
            false => uses(&sweeps, all),
        };
        let name = match client_from {
            Some(_) if !is_saturated => client(&uses),
            _ => match (bottleneck(&shape, &uses), &shape) {
                // A CPU that others use is no serial section.
                (Name::Serial | Name::Undetermined(_), Shape::Saturated(_))
                    if let Some(why) = waiting(&sweeps) =>
                {
                    Name::Undetermined(why)
                }
                (Name::Serial, _) if is_local => Name::Undetermined(local::idle(&uses, &sweeps)),
                (name, _) => name,
            },
        };
        let first = valid().next().filter(|_| is_local);
        let name = match first.and_then(|first| local::doubt(&name, first, &sweeps)) {
            Some(why) => Name::Undetermined(why),
            None => name,
        };
        let clients = curve.points.iter().map(|point| point.clients).collect();
        let is_used = |step: &MeasuredStep| at.iter().any(|it| it.clients == step.clients);
        let is_noisy = both().any(|(step, judged)| judged.is_noisy() && is_used(step));
        // The remark on a client-bound generator is of its own.
        let left_out = both().filter(|(step, _)| !step.is_client_bound());
        let left_out = left_out.filter_map(|(step, it)| Some((step.clients, it.left_out.clone()?)));
        let left_out = left_out.collect();
        Self { shape, uses, name, used, clients, left_out, client_from, knee, is_noisy, is_local }
    }

    /// Of a server whose requests come through a proxy: work of that, which nobody counts, looks
    /// like one request at a time.
    #[must_use]
    pub fn behind_proxy(self) -> Self {
        match self.name {
            Name::Serial => {
                let why = "the TLS proxy before the server may be the limit: its CPU is unknown";
                Self { name: Name::Undetermined(why.to_owned()), ..self }
            }
            _ => self,
        }
    }

    #[cfg(test)]
    pub fn named(name: Name, uses: Vec<Use>) -> Self {
        let shape = Shape::NotSaturated { up_to: 0, why: String::new() };
        let (used, clients, left_out) = (Vec::new(), Vec::new(), Vec::new());
        let (client_from, knee, is_noisy, is_local) = (None, None, false, false);
        Self { shape, uses, name, used, clients, left_out, client_from, knee, is_noisy, is_local }
    }

    pub fn saturation(&self) -> Option<&Saturation> {
        match &self.shape {
            Shape::Saturated(saturation) => Some(saturation),
            Shape::NotSaturated { .. } => None,
        }
    }

    /// The largest valid step at saturation.
    pub fn plateau_to(&self) -> Option<u32> {
        let found = self.saturation()?;
        let is_on = |clients: &u32| found.falls_from.is_none_or(|falls| *clients < falls);
        self.clients.iter().copied().filter(is_on).max()
    }

    pub fn is_undetermined(&self) -> bool {
        matches!(self.name, Name::Undetermined(_))
    }

    /// The name that stands: on loopback the network is work of CPUs, so that only a dose confirms
    /// it.
    fn standing(&self, is_loopback: bool, proof: Option<&Proof>) -> Name {
        let is_network = matches!(self.name, Name::Resource(Resource::Network | Resource::Pacing));
        match proof {
            Some(Proof::Refuted(why)) => Name::Undetermined(format!("refuted: {why}")),
            Some(Proof::Confirmed) => self.name.clone(),
            _ if is_network && is_loopback && self.is_local => Name::Undetermined(
                "responses wait in the sockets of loopback: pacing (bbr) or a queueing discipline"
                    .to_owned(),
            ),
            _ if is_network && is_loopback => Name::Undetermined(
                "the network of loopback is work of CPUs: only --prove can confirm it".to_owned(),
            ),
            _ => self.name.clone(),
        }
    }

    /// A number of clients between two steps is known to those only.
    fn between_steps(&self, found: Interval) -> Interval {
        let steps = || self.clients.iter().copied().map(f64::from);
        let low = steps().filter(|step| *step < found.low).reduce(f64::max).unwrap_or(found.low);
        let high = steps().find(|step| *step >= found.high).unwrap_or(found.high);
        Interval { low, high, basis: Basis::Grid, ..found }
    }

    /// Records of the shape of the curve.
    pub fn of_curve(&self, params: &Params) -> Vec<Measured> {
        let plain = |metric: &OfServer, estimate: &ShapeEstimate, least: f64| {
            let value = estimate.value.max(least);
            let limits = estimate.interval.map(|limits| limits.map(|limit| limit.max(least)));
            let half = limits.map_or(0.0, |[low, high]| (high - low) / 2.0 / value);
            Measured {
                metric: metric.0.id,
                params: params.clone(),
                values: vec![value],
                headline: Some((value, limits.map(interval))),
                verdict: Some(wide(half)),
                doubts: self.doubts(),
                ..Measured::default()
            }
        };
        match &self.shape {
            Shape::Saturated(found) => {
                let from = f64::from(found.plateau_from);
                let mut facts = vec![Fact::quantity(load_facts::FROM_CLIENTS, from, Unit::Ratio)];
                facts.extend(self.left_out());
                facts.extend(found.falls_from.map(|falls| {
                    Fact::quantity(load_facts::FALLS_FROM_CLIENTS, f64::from(falls), Unit::Ratio)
                }));
                let rate = plain(&metrics::SATURATION, &found.throughput, 0.0);
                // One client is the least.
                let knee = found.knee.as_ref().map(|knee| plain(&metrics::KNEE, knee, 1.0));
                let mut rest = plain(&metrics::CLIENTS_95, &found.clients_95, 1.0);
                if let Some((_, Some(interval))) = &mut rest.headline {
                    *interval = self.between_steps(*interval);
                }
                let first = Measured { facts, ..rate };
                [Some(first), knee, Some(rest)].into_iter().flatten().collect()
            }
            Shape::NotSaturated { up_to, why } => {
                let text = match self.clients.len() {
                    0 | 1 => format!("saturation is unknown: {why}"),
                    _ => format!("not saturated up to {up_to} clients: {why}"),
                };
                let first = self.left_out.iter().map(|(_, why)| why).min();
                let reason =
                    Reason::new(Cause::TooShort, text).with_remedy(first.and_then(LeftOut::remedy));
                let verdict = Verdict { state: State::Unavailable, reasons: vec![reason] };
                // Twice as many clients without saturation refute it.
                let least = f64::from(*up_to) / 2.0;
                let knee = self.knee.as_ref().filter(|knee| knee.high() > least);
                let knee = knee.map(|knee| plain(&metrics::KNEE, knee, 1.0));
                let saturation = Measured {
                    metric: metrics::SATURATION.0.id,
                    params: params.clone(),
                    verdict: Some(verdict),
                    facts: self.left_out().into_iter().collect(),
                    ..Measured::default()
                };
                std::iter::once(saturation).chain(knee).collect()
            }
        }
    }

    /// The record of the bottleneck.
    pub fn of_bottleneck(
        &self,
        params: &Params,
        (all, is_loopback): (&Capacities, bool),
        proof: Option<&Proof>,
        series: Vec<Series>,
    ) -> Measured {
        let name = self.standing(is_loopback, proof);
        let remarks = match &name {
            Name::Undetermined(why) => vec![Reason::new(Cause::NotAsAsked, why.clone())],
            Name::Resource(_) | Name::Serial => Vec::new(),
        };
        let mut facts = self.facts(all);
        facts.extend(proof.map(|proof| Fact::text(load_facts::PROOF, proof_words(proof))));
        facts.extend(self.client_from.map(|from| {
            Fact::quantity(load_facts::CLIENT_BOUND_FROM, f64::from(from), Unit::Ratio)
        }));
        Measured {
            metric: metrics::BOTTLENECK.0.id,
            params: params.clone(),
            text: Some(word(&name).to_owned()),
            verdict: Some(Verdict::default()),
            doubts: self.doubts(),
            facts,
            series,
            remarks,
            ..Measured::default()
        }
    }

    /// `4, 8 clients: …; 16 clients: …`.
    fn left_out(&self) -> Option<Fact> {
        let mut by_why: BTreeMap<&LeftOut, Vec<String>> = BTreeMap::new();
        for (clients, why) in &self.left_out {
            by_why.entry(why).or_default().push(clients.to_string());
        }
        let text = |(why, clients): (&&LeftOut, &Vec<String>)| {
            let unit = if clients[..] == ["1"] { "client" } else { "clients" };
            format!("{} {unit}: {}", clients.join(", "), why.words())
        };
        let all: Vec<String> = by_why.iter().map(text).collect();
        (!all.is_empty()).then(|| Fact::text(load_facts::LEFT_OUT, all.join("; ")))
    }

    fn doubts(&self) -> Vec<Reason> {
        let noisy = self.is_noisy.then(|| Reason::new(Cause::Spread, "steps of it are noisy"));
        noisy.into_iter().collect()
    }

    /// The evidence: of each resource what was used of what it gives.
    fn facts(&self, all: &Capacities) -> Vec<Fact> {
        let rates = all.rates();
        let mut facts = Vec::new();
        for one in &self.uses {
            let name = id(one.resource);
            let is_bytes = !matches!(one.resource, Resource::ServerCpu | Resource::Client);
            if is_bytes && let Some((_, used)) = self.used.iter().find(|it| it.0 == one.resource) {
                let used = Fact::quantity(
                    &of_resource(name, load_facts::USED),
                    *used,
                    Unit::BytesPerSecond,
                );
                facts.push(used);
                let rate = rates.iter().find(|(of, _)| *of == name);
                facts.extend(rate.map(|(_, rate)| {
                    Fact::quantity(
                        &of_resource(name, load_facts::CAPACITY),
                        rate.bytes_s,
                        Unit::BytesPerSecond,
                    )
                }));
            }
            if let Some(share) = one.utilisation {
                let ratio = |what: &str, value| {
                    Fact::quantity(&of_resource(name, what), value, Unit::Ratio)
                };
                facts.push(ratio(UTILISATION, share.value));
                for (end, value) in ends_of(UTILISATION).iter().zip(share.interval.iter().flatten())
                {
                    facts.push(ratio(end, *value));
                }
            }
            facts.extend(one.demand_s.map(|demand_s| {
                Fact::quantity(
                    &of_resource(name, load_facts::DEMAND),
                    demand_s * 1e9,
                    Unit::Nanoseconds,
                )
            }));
        }
        facts
    }
}

/// Whether the response time of one client can be the demand of a request: N clients that wait for
/// each other wait at most N times as long. It is not behind a bucket of tokens or a cache, which
/// serve the first requests faster.
fn is_demand<'s>(alone: &MeasuredStep, others: impl Iterator<Item = &'s MeasuredStep>) -> bool {
    let response_s = |step: &MeasuredStep| {
        mean(&step.by_sweep.iter().map(|it| it.point.response_s).collect::<Vec<f64>>())
    };
    let alone_s = response_s(alone);
    others
        .into_iter()
        .all(|step| response_s(step) <= DEMAND_MAX * f64::from(step.clients) * alone_s)
}

fn interval(limits: [f64; 2]) -> Interval {
    Interval::new(limits, 0.95, Basis::WithinRun)
}

/// The value of `load.bottleneck`.
pub fn word(name: &Name) -> &'static str {
    match name {
        Name::Resource(resource) => id(*resource),
        Name::Serial => "serial",
        Name::Undetermined(_) => "undetermined",
    }
}

/// The value of the parameters `of` and `resource`.
pub fn id(resource: Resource) -> &'static str {
    match resource {
        Resource::Network => "network",
        Resource::Disk => "disk",
        Resource::ServerCpu => "server-cpu",
        Resource::Client => "client",
        Resource::Pacing => "pacing",
    }
}

/// The uses of all resources over sweeps at saturation, and the bytes per second of those that
/// carry bytes.
fn uses(sweeps: &[&MeasuredSweep], all: &Capacities) -> (Vec<Use>, LimitUsed) {
    let throughputs: Vec<f64> = sweeps.iter().map(|sweep| sweep.point.throughput).collect();
    let throughput = mean(&throughputs);
    // Unknown if it is in one sweep.
    let of_server = |of: &dyn Fn(&ServerUse) -> Option<f64>| -> Option<Vec<f64>> {
        sweeps.iter().map(|sweep| of(sweep.server.as_ref()?)).collect()
    };
    let wire: Vec<f64> = sweeps.iter().map(|sweep| sweep.received_s).collect();
    let read = of_server(&|it| it.per_second(it.disk_bytes));
    let of_use = |resource, share| of_share(resource, share, throughput);
    // A member of an earlier version did not count them.
    let is_counted = sweeps.iter().all(|it| it.received_s > 0.0 || it.point.throughput == 0.0);
    let network = all.network.filter(|_| is_counted).and_then(|rate| share(&wire, rate));
    let network = of_use(Resource::Network, network);
    let mut uses = vec![Use { measured_under: all.network_under, ..network }];
    if let Some(paced) = all.paced.filter(|_| is_counted)
        && mean(&wire) <= AGREES_MAX * paced.bytes_s
    {
        uses.push(of_use(Resource::Pacing, share(&wire, paced)));
    }
    let device = all.disk.as_ref();
    let disk = match (&read, device) {
        // Reads of nothing need no capacity.
        (Some(read), _) if mean(read) <= DISK_SHARE_MIN * mean(&wire) => {
            Some(ShapeEstimate { value: 0.0, interval: None })
        }
        // There is no device below a file system in memory.
        (None, Some(Err(_))) => Some(ShapeEstimate { value: 0.0, interval: None }),
        (Some(read), Some(Ok(rate))) => share(read, *rate),
        _ => None,
    };
    uses.push(of_use(Resource::Disk, disk));
    let cpu = of_server(&ServerUse::cpu_share);
    uses.push(of_use(Resource::ServerCpu, cpu.and_then(|cpu| exact(&cpu))));
    let client: Vec<f64> = sweeps.iter().map(|sweep| sweep.client_share).collect();
    uses.push(of_use(Resource::Client, exact(&client)));
    let wire = [Resource::Network, Resource::Pacing].map(|of| (of, mean(&wire)));
    let wire = wire.into_iter().filter(|_| is_counted);
    let used = wire.chain(read.map(|read| (Resource::Disk, mean(&read))));
    // Without a step there is no mean.
    let used = used.filter(|(_, mean)| mean.is_finite());
    (uses, used.collect())
}

/// A generator that is the limit, unless the server may be, too.
fn client(uses: &[Use]) -> Name {
    let cpu = uses.iter().find(|one| one.resource == Resource::ServerCpu);
    match cpu.and_then(|one| one.utilisation).filter(|share| share.low() >= BUSY) {
        None => Name::Resource(Resource::Client),
        Some(share) => Name::Undetermined(format!(
            "the client is the limit of a step, with server CPU at {:.0} %: too close to tell",
            100.0 * share.value
        )),
    }
}

/// Why a saturated throughput may be that of a CPU which an end shares with others.
fn waiting(sweeps: &[&MeasuredSweep]) -> Option<String> {
    let mean = |of: &dyn Fn(&MeasuredSweep) -> Option<f64>| {
        let values: Option<Vec<f64>> = sweeps.iter().map(|sweep| of(sweep)).collect();
        values.filter(|values| !values.is_empty()).map(|values| mean(&values))
    };
    let ends = [
        (
            "server",
            mean(&|it| it.server.as_ref()?.cpu_share()),
            mean(&|it| Some(it.server.as_ref()?.waiting())),
        ),
        ("client", mean(&|it| Some(it.client_share)), mean(&|it| Some(it.client_waiting))),
    ];
    ends.into_iter().find_map(|(end, used, waiting)| {
        let (used, waiting) = used.zip(waiting)?;
        (waiting > WAITING_MIN && used + waiting > SHARED_MIN).then(|| {
            format!(
                "the {end} waits for a CPU {:.0} % of the time: the other end or other processes \
                 use it",
                100.0 * waiting
            )
        })
    })
}

fn of_share(resource: Resource, share: Option<ShapeEstimate>, throughput: f64) -> Use {
    let demand_s = share.map(|share| share.value / throughput).filter(|it| it.is_finite());
    Use { resource, utilisation: share, demand_s, measured_under: None }
}

/// Shares of a whole, with their scatter.
fn exact(shares: &[f64]) -> Option<ShapeEstimate> {
    share(shares, Rate { bytes_s: 1.0, half: 0.0 })
}

/// What was used of a rate, with the scatter of both: at most all of it. Unknown if more was used,
/// however wide the interval of the rate is: then it was measured in a bad moment.
fn share(used: &[f64], rate: Rate) -> Option<ShapeEstimate> {
    let value = mean(used) / rate.bytes_s;
    let half = mean_half_width(used).map(|half| (half / rate.bytes_s).hypot(value * rate.half));
    let interval = half.map(|half| [value - half, value + half].map(|end| end.clamp(0.0, 1.0)));
    (value <= AGREES_MAX).then_some(ShapeEstimate { value: value.min(1.0), interval })
}

pub fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// The text of the fact on a proof.
pub fn proof_words(proof: &Proof) -> String {
    match proof {
        Proof::Confirmed => load_facts::CONFIRMED.to_owned(),
        Proof::Refuted(_) => load_facts::REFUTED.to_owned(),
        Proof::Inconclusive(why) => format!("inconclusive: {why}"),
        Proof::NotDone(why) => format!("not done: {why}"),
    }
}

#[cfg(test)]
mod tests;
