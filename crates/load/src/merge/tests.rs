//! Shares with known answers, merged.

use clap::Parser as _;
use fathom_analysis::load::{SLOTS, StepBatch};
use fathom_record::{Histogram, LoadSlot, MetricId, Sample, State};

use super::*;
use crate::engine::{Fault, Outcome};
use crate::fixture::{Texts, changed, failing, outcome as canned, target};

const RESPONSE_NS: f64 = 20e6;
/// Of a slot of 125 ms with two clients.
const COUNT: u64 = 12;

fn load(options: &str) -> LoadOptions {
    LoadOptions::parse_from(format!("load http://far/ {options}").split_whitespace())
}

/// A load of members that each counted these windows of each step, as their JSON gives them back.
struct Lab {
    load: LoadOptions,
    members: Vec<MergeMember>,
}

impl Lab {
    /// `window`: of a member, a step with its clients, and a sweep.
    fn from_options(options: &str, of: u32, window: impl Fn(u32, &Step, usize) -> Outcome) -> Self {
        let member = |rank: u32| {
            let share = Some(Share::known(rank, of));
            let load = LoadOptions { share, ..load(options) };
            let case = load.all_cases()[0];
            let shared = RecordContext::from_load(&load, &target(false), case, None);
            let record = |mut step: Step| {
                let windows = (0..SWEEPS).map(|at| window(rank, &step, at).tally.window);
                step.windows = windows.collect();
                let mut texts = Texts::new();
                step.add(&window(rank, &step, 0));
                records::step(&mut texts, &shared, &step);
                let mut record = texts.records.swap_remove(0);
                assert_eq!(record.metric, MetricId::new("load.throughput"));
                record.samples = Some(vec![Sample { windows: step.windows, ..Sample::default() }]);
                let text = serde_json::to_string(&record).expect("plain data");
                serde_json::from_str(&text).expect("what was written")
            };
            let steps = load.steps().into_iter().filter(|step| step.clients() > 0);
            let name = format!("node{rank}");
            MergeMember {
                name,
                records: Ok(steps.map(record).collect()),
                start_ns: 0.0,
                start_error_ns: 0.0,
            }
        };
        Self { load: load(options), members: (0..of).map(member).collect() }
    }

    fn merge(&self) -> Merge<'_> {
        let case = self.load.all_cases()[0];
        Merge { load: &self.load, case, members: &self.members }
    }

    /// The only step.
    fn step(&self) -> Step {
        let mut step = self.load.steps().swap_remove(0);
        let merge = self.merge();
        let parts = merge.parts(&step);
        merge.add(&mut step, &parts);
        step
    }

    /// State and first reason of the only step.
    fn verdict(&self) -> (State, String) {
        let mut texts = Texts::new();
        self.merge().records(&mut texts);
        let verdict = texts.verdicts.swap_remove(0);
        (verdict.state, verdict.reasons.first().map_or(String::new(), |it| it.text.clone()))
    }

    fn windows(&mut self, member: usize) -> impl Iterator<Item = &mut LoadWindow> {
        let records = self.members[member].records.as_mut().expect("records");
        let samples = records.iter_mut().flat_map(|record| record.samples.as_mut());
        samples.flat_map(|samples| &mut samples[0].windows)
    }
}

/// Two clients that are always in a request.
fn steady(_: u32, _: &Step, _: usize) -> Outcome {
    canned([COUNT; SLOTS], 2.0 * 125e6 / COUNT as f64)
}

/// A window whose slots have these response times.
fn timed(slots: &[Vec<f64>]) -> Outcome {
    let slot = |times: &Vec<f64>| LoadSlot {
        ns: 125_000_000,
        completed: times.len() as u64,
        partial: 0.0,
        body_bytes: 1_000 * times.len() as u64,
        received_bytes: 0,
        sum_ns: times.iter().sum(),
        times: times.iter().copied().collect(),
        times_from_send: None,
    };
    let mut outcome = canned([0; SLOTS], RESPONSE_NS);
    outcome.tally.window.slots = slots.iter().map(slot).collect();
    outcome
}

#[test]
fn merged_quantiles_are_those_of_all_raw_times() {
    // Each member has another distribution: the mean of their 99th percentiles would be wrong.
    let times = |rank: u32, sweep: usize| -> Vec<Vec<f64>> {
        let count = 40 * (rank as usize + 1);
        let one = |slot: usize, at: usize| {
            let number = (sweep * SLOTS + slot) * count + at;
            let tail = if number % 100 < rank as usize { 30.0 } else { 1.0 };
            tail * (1e6 + 1e3 * (number * 7_919 % 1_009) as f64) * f64::from(rank + 1)
        };
        (0..SLOTS).map(|slot| (0..count).map(|at| one(slot, at)).collect()).collect()
    };
    let lab = Lab::from_options("--clients 8", 4, |rank, _, sweep| timed(&times(rank, sweep)));
    let step = lab.step();
    let sum = &step.measured.all;
    let of_member = |rank| (0..SWEEPS).flat_map(move |sweep| times(rank, sweep).concat());
    let mut raw: Vec<f64> = (0..4).flat_map(of_member).collect();
    raw.sort_by(f64::total_cmp);
    assert_eq!((sum.completed, sum.times.len()), (raw.len() as u64, raw.len() as u64));
    for q in [0.5, 0.9, 0.99, 0.999] {
        let expected = raw[(q * raw.len() as f64).ceil() as usize - 1];
        let found = sum.times.quantile(q).expect("times");
        assert!((found / expected - 1.0).abs() < 1e-3, "{q}: {found} of {expected}");
    }
    let p99 = |rank| {
        let own: Histogram = of_member(rank).collect();
        own.quantile(0.99).expect("times")
    };
    let averaged = (0..4).map(p99).sum::<f64>() / 4.0;
    let merged = sum.times.quantile(0.99).expect("times");
    assert!((averaged / merged - 1.0).abs() > 0.05, "{averaged} and {merged}");
    let mean = raw.iter().sum::<f64>() / raw.len() as f64;
    assert!((sum.mean_ns() / mean - 1.0).abs() < 1e-9, "weighted by the responses");
    let heat: u64 = step.heat.iter().flat_map(|heat| heat.slices().flatten()).sum();
    assert_eq!(heat, raw.len() as u64);
}

#[test]
fn throughput_is_the_sum_and_its_interval_that_of_the_sums() {
    // Members that take turns: each alone scatters by half, all together not at all.
    let turns = |rank: u32, _: &Step, _: usize| {
        let counts: [u64; SLOTS] =
            std::array::from_fn(|slot| if slot as u32 % 2 == rank % 2 { 18 } else { 6 });
        canned(counts, 2.0 * 1.25e9 / 120.0)
    };
    let lab = Lab::from_options("--clients 8", 4, turns);
    let step = lab.step().measured;
    assert_eq!((step.sweeps, step.all.completed, step.seconds()), (3, 4 * 3 * 120, 3.75));
    assert!((step.throughput() - 4.0 * 96.0).abs() < 1e-9);
    let rate = |batch: &StepBatch| batch.completed as f64 / batch.seconds;
    let interval = step.mean_interval(step.throughput(), rate).expect("ten batches");
    assert!(interval.high - interval.low < 1e-6, "{interval:?}");
    let points = step.by_sweep.iter().map(|sweep| sweep.point.throughput);
    assert!(points.eq([384.0; 3]));
    assert_eq!(lab.verdict(), (State::Valid, String::new()));
    assert_eq!(step.counts.statuses, [(200, 1_440)].into());
}

#[test]
fn errors_of_all_members_are_counted_by_their_words() {
    let fails = |rank: u32, _: &Step, _: usize| {
        let window = failing(steady(0, &Step::new(2), 0), Fault::Status(503), 1);
        if rank == 3 { failing(window, Fault::Timeout, 1) } else { window }
    };
    let lab = Lab::from_options("--clients 8", 4, fails);
    assert_eq!(lab.step().measured.counts.failed(), 4 * 3 + 3);
    let words = "15 requests failed: status 503 (12×), response timeout (3×)";
    assert_eq!(lab.verdict(), (State::Noisy, words.to_owned()));
}

#[test]
fn generator_at_its_limit_is_named() {
    let busy = |rank: u32, _: &Step, _: usize| {
        changed(steady(0, &Step::new(2), 0), |it| {
            if rank == 2 {
                it.threads[0].cpu_ns = 97 * it.threads[0].wall_ns / 100;
            }
        })
    };
    let lab = Lab::from_options("--clients 8", 4, busy);
    let words = "the generator of node2 was the limit: a client thread is busy for 97 %";
    assert_eq!(lab.verdict(), (State::Invalid, words.to_owned()));
    assert!(lab.step().measured.is_client_bound());
    // A quota is known to its member only.
    let mut lab = Lab::from_options("--clients 8", 4, steady);
    for member in [1, 3] {
        lab.windows(member).for_each(|window| {
            (window.quota, window.throttled_ns) = (Some(0.2), window.window_ns / 2);
        });
    }
    let (state, words) = lab.verdict();
    assert_eq!(state, State::Invalid);
    let begin = "the generators of node[1,3] were the limit; node1: the client's quota";
    assert!(words.starts_with(begin), "{words}");
}

#[test]
fn generator_whose_cpus_others_took_is_named_if_none_was_busy_itself() {
    let lab = Lab::from_options("--clients 8", 2, steady);
    let part = |rank: usize| MergePart {
        member: &lab.members[rank],
        clients: 4,
        record: None,
        windows: Err(String::new()),
    };
    let parts = [0, 1].map(part);
    let words = |is_taken: [bool; 2]| {
        let busy = [0, 1].map(|rank| (&parts[rank], (format!("busy{rank}"), is_taken[rank])));
        let reason = limit(&busy).expect("both are busy");
        (reason.cause, reason.text)
    };
    let text = "the generator of node1 was the limit: busy1".to_owned();
    assert_eq!(words([true, false]), (Cause::LoadGenerator, text));
    let text = "other programs took the CPUs of node[0-1]; node0: busy0".to_owned();
    assert_eq!(words([true, true]), (Cause::Contention, text));
}

#[test]
fn late_generator_of_an_open_loop_is_named() {
    let open = |rank: u32, _: &Step, _: usize| {
        let mut outcome = steady(0, &Step::new(2), 0);
        let window = &mut outcome.tally.window;
        for slot in &mut window.slots {
            slot.times_from_send = Some(slot.times.clone());
        }
        let late_ns = if rank == 1 { RESPONSE_NS } else { 0.0 };
        window.sent_late = Some((0..120).map(|_| late_ns).collect());
        (window.backlog, window.is_drained) = (Some(2), Some(rank != 3));
        outcome
    };
    let lab = Lab::from_options("--rate 384", 2, open);
    let (state, words) = lab.verdict();
    let begin = "the generator of node1 was the limit: requests were sent late: p90 20.00 ms";
    assert!(state == State::Invalid && words.starts_with(begin), "{words}");
    // A backlog that one member sees grow is that of the server.
    let grows = |rank: u32, step: &Step, sweep| open(if rank == 3 { 3 } else { 0 }, step, sweep);
    let words = "not sustained, the server or the network was the limit: 8 requests waiting at the \
                 end of a window, 3 of 3 sweeps";
    let lab = Lab::from_options("--rate 384", 4, grows);
    assert_eq!(lab.verdict(), (State::Invalid, words.to_owned()));
    let alike = Lab::from_options("--rate 384", 4, |_, step, sweep| open(0, step, sweep));
    let step = alike.step().measured;
    assert_eq!((step.waiting, step.undrained), (8, 0));
    assert_eq!(alike.verdict(), (State::Valid, String::new()));
}

#[test]
fn lost_member_makes_its_steps_invalid() {
    let mut lab = Lab::from_options("--clients 3,10", 4, steady);
    lab.members[3].records = Err("no sign of life for 30 s".to_owned());
    let mut texts = Texts::new();
    lab.merge().records(&mut texts);
    // Of three clients it had none.
    let states: Vec<State> = texts.verdicts.iter().map(|it| it.state).collect();
    assert_eq!(states[0], State::Valid);
    let lost = texts.verdicts.iter().find(|it| it.state == State::Invalid).expect("a step");
    let words = "2 of 10 clients are missing: node3: no sign of life for 30 s";
    assert_eq!(lost.reasons[0].text, words);
}

#[test]
fn windows_that_begin_apart_make_a_step_noisy() {
    // Of 1.25 s.
    for (late_ns, [start_ns, error_ns], expected) in [
        (12_000_000, [0.0, 0.0], None),
        (13_000_000, [0.0, 0.0], Some(13)),
        (0, [-13e6, 0.0], Some(13)),
        (6_000_000, [-4e6, 3e6], Some(13)),
    ] {
        let mut lab = Lab::from_options("--clients 8", 4, steady);
        lab.windows(1).for_each(|window| window.late_ns = 40_000_000 + late_ns);
        for other in [0, 2, 3] {
            lab.windows(other).for_each(|window| window.late_ns = 40_000_000);
        }
        (lab.members[2].start_ns, lab.members[3].start_error_ns) = (start_ns, error_ns);
        let expected = match expected {
            None => (State::Valid, String::new()),
            Some(ms) => {
                let words = format!("members began up to {ms}.00 ms apart, 1.0 % of the window");
                (State::Noisy, words)
            }
        };
        assert_eq!(lab.verdict(), expected, "{late_ns} {start_ns} {error_ns}");
    }
}

#[test]
fn counts_that_cannot_be_are_not_added() {
    let damages: [fn(&mut LoadWindow); 8] = [
        |window| window.slots[3].completed = u64::MAX,
        |window| window.slots[3].completed += 1,
        |window| _ = window.slots.pop(),
        |window| window.window_ns = 0,
        |window| window.lag_ns = -1.0,
        |window| window.slots[0].sum_ns = f64::INFINITY,
        |window| window.threads = vec![Default::default(); 5_000],
        |window| _ = window.statuses.insert(200, u64::MAX),
    ];
    for (at, damage) in damages.into_iter().enumerate() {
        let mut lab = Lab::from_options("--clients 8", 4, steady);
        lab.windows(2).for_each(damage);
        let words = "2 of 8 clients are missing: node2: its counts are implausible";
        assert_eq!(lab.verdict(), (State::Invalid, words.to_owned()), "{at}");
    }
}

#[test]
fn saturation_is_that_of_the_sums() {
    // A server of 400 requests a second, whatever the clients.
    let served = |rank: u32, step: &Step, sweep: usize| {
        let all = step.of_all.expect("a share");
        let own = 400.0 * f64::from(step.clients()) / all * 0.125;
        let wave = (rank as usize + sweep) % 2;
        canned([own.round() as u64 + wave as u64; SLOTS], all / 400.0 * 1e9)
    };
    let lab = Lab::from_options("--clients 8,16,32,64", 4, served);
    let mut texts = Texts::new();
    assert!(lab.merge().records(&mut texts));
    let find = |id: &str| texts.records.iter().find(|it| it.metric.as_str() == id);
    let saturation = find("load.saturation").expect("a record");
    assert_eq!(saturation.params.integer("members"), Some(4));
    assert!(texts.all.contains("members: 4: node[0-3]"), "{}", texts.all);
    assert!(find("load.bottleneck").is_some());
    assert!(texts.all.contains("from clients: 8"), "{}", texts.all);
}
