//! A load of several members: their windows are added up, and the sums are judged as those of one
//! generator. Quantiles, intervals and verdicts of members are never averaged.

use fathom_analysis::fleet::names::fold;
use fathom_analysis::load::{
    MeasuredStep, OfMembers, SWEEPS, StepJudgement, busy_generator, late_generator,
};
use fathom_metric::{Ending, ProcedureError, Recorder};
use fathom_record::quantity::{percent, quantity};
use fathom_record::{Cause, LoadWindow, Reason, Record, Remedy, Unit};

use crate::capacities::Capacities;
use crate::engine::Heat;
use crate::limit::Limit;
use crate::options::{LoadOptions, LoadVariant};
use crate::records::{self, RecordContext};
use crate::share::Share;
use crate::step::Step;
use crate::window::{heat, is_plausible, whole};

/// Windows of members that begin further apart, as a share of their length, are not one load.
const SKEW_MAX: f64 = 0.01;

/// A member of a load, and what it measured.
#[derive(Clone, Debug)]
pub struct MergeMember {
    pub name: String,
    /// Its records with their samples, or why there are none.
    pub records: Result<Vec<Record>, String>,
    /// How much later than announced it started, with the error of that, in nanoseconds.
    pub start_ns: f64,
    pub start_error_ns: f64,
}

impl LoadOptions {
    /// Records a load as its members measured it together. `self` has the options of the whole,
    /// and member m of `members` made the share m.
    ///
    /// # Errors
    /// If no member has a result of it, or no step has a valid result.
    pub fn merge(
        &self,
        members: &[MergeMember],
        recorder: &mut dyn Recorder,
    ) -> Result<Ending, ProcedureError> {
        recorder.set_seed(self.seed);
        let mut shows = false;
        for case in self.all_cases() {
            shows |= Merge { load: self, case, members }.records(recorder);
            recorder.show();
        }
        match shows || !self.fails_if().is_empty() {
            true => Ok(Ending::Done),
            false => Err(ProcedureError::failed(format!(
                "{}: no step has a valid result of all members",
                self.target
            ))),
        }
    }
}

/// The steps of a case.
struct Merge<'m> {
    load: &'m LoadOptions,
    case: LoadVariant,
    members: &'m [MergeMember],
}

/// What a member counted in the windows of a step.
struct MergePart<'m> {
    member: &'m MergeMember,
    /// Its clients, or its requests in flight.
    clients: u32,
    record: Option<&'m Record>,
    /// `Err`: why they are missing.
    windows: Result<&'m [LoadWindow], String>,
}

impl<'m> Merge<'m> {
    /// Records all steps; returns whether one has a number.
    fn records(&self, recorder: &mut dyn Recorder) -> bool {
        let (mut steps, mut judged, mut common) = (Vec::new(), Vec::<StepJudgement>::new(), None);
        let names = fold(self.members.iter().map(|member| member.name.as_str()));
        for mut step in self.load.steps() {
            let parts = self.parts(&step);
            let record = parts.iter().find_map(|part| part.record);
            self.add(&mut step, &parts);
            let Some(record) = record else { continue };
            let members = (self.members.len() as u32, names.as_str());
            let shared = RecordContext::merged(self.load, self.case, record, members);
            judged.push(records::step(recorder, &shared, &step));
            if step.rate.is_none() {
                common = common.or(Some(shared.common()));
            }
            steps.push(step);
        }
        let shows = judged.iter().any(|step| step.shows());
        let closed = steps.iter().map(|step| &step.measured).take_while(|step| !step.is_open);
        let closed: Vec<&MeasuredStep> = closed.collect();
        let is_limited = shows || steps.iter().any(|step| step.measured.is_client_bound());
        if let Some(params) = common.filter(|_| is_limited) {
            // The path to each member has a capacity of its own, which none of them knows.
            let all = Capacities::default();
            let think_s = self.case.think.as_secs_f64();
            let limit = Limit::from_steps(&closed, &judged[..closed.len()], think_s, &all);
            limit.of_curve(&params).into_iter().for_each(|one| _ = recorder.record(one));
            recorder.record(limit.of_bottleneck(&params, (&all, false), None, Vec::new()));
        }
        shows
    }

    /// What each member that has a share of a step counted.
    fn parts(&self, step: &Step) -> Vec<MergePart<'m>> {
        let of = self.members.len() as u32;
        let part = |(rank, member): (usize, &'m MergeMember)| {
            let share = Share::known(rank as u32, of);
            let clients = share.count(step.clients()).max(u32::from(step.rate.is_some()));
            let is_own = |one: &&Record| RecordContext::is_share(self.case, step, share, one);
            let records = member.records.as_ref();
            let record = records.ok().and_then(|records| records.iter().find(is_own));
            let windows = records.map_err(String::clone).and_then(|_| windows(record));
            MergePart { member, clients, record, windows }
        };
        let all = self.members.iter().enumerate().map(part);
        all.filter(|part| part.clients > 0).collect()
    }

    /// Adds the windows that all members have.
    fn add(&self, step: &mut Step, parts: &[MergePart<'_>]) {
        let complete =
            || parts.iter().filter_map(|part| Some((part, *part.windows.as_ref().ok()?)));
        let sweeps = complete().map(|(_, windows)| windows.len()).min().unwrap_or(0);
        for sweep in 0..sweeps {
            let windows = complete().map(|(_, windows)| &windows[sweep]);
            step.heat.extend(windows.clone().map(heat).reduce(Heat::plus));
            step.measured.add(&whole(windows));
        }
        let busy = complete().filter_map(|(part, windows)| Some((part, busy(part, windows)?)));
        let busy: Vec<(&MergePart<'_>, Busy)> = busy.collect();
        let skew = skew(sweeps, &complete().collect::<Vec<_>>());
        step.measured.members = OfMembers {
            is_client_bound: !busy.is_empty(),
            invalid: missing(step, parts).into_iter().chain(limit(&busy)).collect(),
            doubts: skew.into_iter().collect(),
        };
    }
}

/// The windows of a record of a member.
fn windows(record: Option<&Record>) -> Result<&[LoadWindow], String> {
    let samples = record.and_then(|record| record.samples.as_deref()).unwrap_or_default();
    let windows = samples.first().map_or(&[][..], |sample| sample.windows.as_slice());
    let windows = &windows[..windows.len().min(SWEEPS)];
    match windows {
        [] => Err("it has no complete window".to_owned()),
        windows if windows.iter().all(is_plausible) => Ok(windows),
        _ => Err("its counts are implausible".to_owned()),
    }
}

/// Why a generator was the limit, and whether others took its CPUs.
type Busy = (String, bool);

fn busy(part: &MergePart<'_>, windows: &[LoadWindow]) -> Option<Busy> {
    let mut step = MeasuredStep::new(part.clients);
    windows.iter().for_each(|window| step.add(window));
    let what = busy_generator(&step).or_else(|| late_generator(&step))?;
    Some(match step.taken_by_others() {
        Some(by) => (format!("{by}; {what}"), true),
        None => (what, false),
    })
}

/// One generator at its limit makes the throughput of all that of less load than was asked for.
fn limit(busy: &[(&MergePart<'_>, Busy)]) -> Option<Reason> {
    // Those that others took their CPUs from say nothing beside those that were busy themselves.
    let own: Vec<_> = busy.iter().filter(|(_, (_, is_taken))| !is_taken).collect();
    let is_all_taken = own.is_empty();
    let busy = if is_all_taken { busy.iter().collect() } else { own };
    let (first, (what, _)) = *busy.first()?;
    let names = fold(busy.iter().map(|(part, _)| part.member.name.as_str()));
    if is_all_taken {
        let first = &first.member.name;
        let text = format!("other programs took the CPUs of {names}; {first}: {what}");
        return Some(Reason::new(Cause::Contention, text).with_remedy(Remedy::QuietCpu));
    }
    let text = match busy.len() {
        1 => format!("the generator of {names} was the limit: {what}"),
        _ => {
            let first = &first.member.name;
            format!("the generators of {names} were the limit; {first}: {what}")
        }
    };
    Some(Reason::new(Cause::LoadGenerator, text))
}

/// Members without a result: the server had less load for at least a part of the time.
fn missing(step: &Step, parts: &[MergePart<'_>]) -> Option<Reason> {
    let missing: Vec<(&MergePart<'_>, &String)> =
        parts.iter().filter_map(|part| Some((part, part.windows.as_ref().err()?))).collect();
    let (first, why) = missing.first()?;
    let names = fold(missing.iter().map(|(part, _)| part.member.name.as_str()));
    let what = match step.rate {
        Some(_) => format!("the requests of {} of {} members", missing.len(), parts.len()),
        None => {
            let clients: u32 = missing.iter().map(|(part, _)| part.clients).sum();
            format!("{clients} of {} clients", step.clients())
        }
    };
    let whose = if missing.len() > 1 { format!("; {}", first.member.name) } else { String::new() };
    let text = format!("{what} are missing: {names}{whose}: {why}");
    Some(Reason::new(Cause::NotAsAsked, text))
}

/// Windows that did not begin together.
fn skew(sweeps: usize, parts: &[(&MergePart<'_>, &[LoadWindow])]) -> Option<Reason> {
    let error_ns = parts.iter().map(|(part, _)| part.member.start_error_ns).fold(0.0, f64::max);
    let of_sweep = |sweep: usize| {
        let late = parts
            .iter()
            .map(|(part, windows)| part.member.start_ns + windows[sweep].late_ns as f64);
        let (first, last) = (late.clone().reduce(f64::min)?, late.reduce(f64::max)?);
        let apart_ns = last - first + error_ns;
        let window_ns = parts.first()?.1[sweep].window_ns as f64;
        Some((apart_ns, apart_ns / window_ns))
    };
    let most = (0..sweeps).filter_map(of_sweep).max_by(|a, b| a.1.total_cmp(&b.1));
    let (apart_ns, share) = most.filter(|(_, share)| *share > SKEW_MAX)?;
    let text = format!(
        "members began up to {} apart, {} of the window",
        quantity(apart_ns, Unit::Nanoseconds),
        percent(share)
    );
    Some(Reason::new(Cause::NotAsAsked, text))
}

#[cfg(test)]
mod tests;
