//! What cases that share a resource have in common, and each net of that.

use fathom_analysis::compare::{
    Comparison, ComparisonAnswer, ComparisonWord, Factor, Noise, Share, compare,
};
use fathom_analysis::suspects::Toggle;
use fathom_record::{
    Better, Document, Fact, MetricId, NotSelected, Outline, Params, Record, Reference, State, Unit,
};

use super::runs::{bare, compared, record};

const NS: Unit = Unit::Nanoseconds;
const RATE: Unit = Unit::BytesPerSecond;

/// A case of a class whose name begins like this.
fn case(start: &str, at: usize, unit: Unit, median: f64) -> Record {
    record(&format!("{start}m{at}"), unit, median, 10)
}

fn cases(start: &str, count: usize, median: f64) -> Vec<Record> {
    (0..count).map(|at| case(start, at, NS, median)).collect()
}

fn factor<'c>(comparison: &'c Comparison, class: &str) -> Option<&'c Factor> {
    comparison.factors.iter().find(|it| it.class == class)
}

fn shares(comparison: &Comparison) -> Vec<(&str, Share)> {
    let mut all: Vec<(&str, Share)> =
        comparison.rows.iter().map(|row| (row.metric.as_str(), row.share)).collect();
    all.sort();
    all
}

#[test]
fn cases_that_move_together_are_one_factor() {
    let a = cases("os.", 8, 100.0);
    let mut b = cases("os.", 8, 105.0);
    b[3] = case("os.", 3, NS, 121.0);
    let comparison = compared(a, b);
    let [kernel] = &comparison.factors[..] else { panic!("{:?}", comparison.factors) };
    assert_eq!((kernel.class, kernel.moved, kernel.agree), ("kernel entry", true, 7));
    assert_eq!((kernel.members.len(), kernel.visits), (8, 7), "one is beside it");
    assert!((kernel.slower - 1.05).abs() < 1e-3, "{kernel:?}");
    assert!(kernel.interval[0] < 1.05 && kernel.interval[0] > 1.04, "{kernel:?}");
    let [first, ..] = &shares(&comparison)[3..] else { panic!("a case") };
    assert_eq!(*first, ("os.m3", Share::Differs));
    let with = comparison.rows.iter().filter(|row| row.share == Share::WithClass).count();
    assert_eq!(with, 7);
    let row = comparison.rows.iter().find(|row| row.metric.as_str() == "os.m3").unwrap();
    let net = row.net.unwrap();
    assert!((net.ratio - 1.21 / 1.05).abs() < 2e-3, "{net:?}");
    assert_eq!((row.word, net.word), (ComparisonWord::Slower, ComparisonWord::Slower));
    // As it is, each is slower; net of the others, nothing is left.
    let other = comparison.rows.iter().find(|row| row.metric.as_str() == "os.m0").unwrap();
    assert_eq!(other.word, ComparisonWord::Slower);
    assert_eq!(other.net.map(|it| it.word), Some(ComparisonWord::Inconclusive));
}

#[test]
fn rate_that_fell_is_slower_as_a_time_that_grew() {
    let of = |time: f64, rate: f64| {
        let mut all = cases("memory.", 3, time);
        all.extend((3..6).map(|at| case("memory.", at, RATE, rate)));
        all
    };
    let comparison = compared(of(100.0, 1e9), of(110.0, 1e9 / 1.1));
    let memory = factor(&comparison, "cache and memory").unwrap();
    assert!(memory.moved && (memory.slower - 1.1).abs() < 1e-3, "{memory:?}");
    assert!(shares(&comparison).iter().all(|(_, share)| *share == Share::WithClass));
    // Neither direction of a frequency is better, yet it says that a core is slower.
    let cpu = |time: f64, hertz: f64| {
        let mut all = cases("cpu.", 4, time);
        all.push(case("cpu.", 4, Unit::Hertz, hertz));
        all
    };
    let comparison = compared(cpu(1.0, 4e9), cpu(1.25, 3.2e9));
    let core = factor(&comparison, "core speed").unwrap();
    assert_eq!((core.agree, core.members.len()), (5, 5), "{core:?}");
}

#[test]
fn few_derived_or_unlike_cases_have_no_factor() {
    let three = compared(cases("os.", 3, 100.0), cases("os.", 3, 105.0));
    assert!(three.factors.is_empty(), "{:?}", three.factors);
    assert!(shares(&three).iter().all(|(_, share)| *share == Share::Differs), "as they are");
    let one_visit = |median: f64| {
        let mut all = cases("os.", 6, median);
        all.iter_mut().for_each(|it| it.visit = "run/os.m".to_owned());
        all
    };
    assert!(compared(one_visit(100.0), one_visit(105.0)).factors.is_empty());
    let derived = |median: f64| {
        let mut all = cases("os.", 6, median);
        all.iter_mut().for_each(|it| it.derived_from = vec![MetricId::new("os.x")]);
        all
    };
    assert!(compared(derived(100.0), derived(105.0)).factors.is_empty());
    let user = compared(cases("bench.", 6, 100.0), cases("bench.", 6, 105.0));
    assert!(user.factors.is_empty(), "programs of a user share no resource");
}

#[test]
fn unchanged_class_has_unchanged_cases() {
    // Each is too uncertain alone; together they are not.
    let wide = |at: usize, off: f64| {
        let mut it = case("os.", at, NS, 100.0);
        let values = [0.94, 0.97, 0.99, 1.0, 1.0, 1.0, 1.01, 1.03, 1.06].map(|by| 100.0 * by * off);
        it.summary.as_mut().unwrap().process_medians = values.to_vec();
        it
    };
    let run = |off: f64| (0..30).map(|at| wide(at, off)).collect::<Vec<Record>>();
    let comparison = compared(run(1.0), run(1.003));
    let kernel = factor(&comparison, "kernel entry").unwrap();
    assert_eq!((kernel.moved, kernel.unchanged_within), (false, Some(0.02)), "{kernel:?}");
    let row = &comparison.rows[0];
    assert_eq!((row.word, row.share), (ComparisonWord::Inconclusive, Share::Unchanged));
    // Nothing is said for two cases without a class.
    let rename = |mut records: Vec<Record>| {
        for (at, it) in records.iter_mut().enumerate() {
            it.metric = MetricId::new(format!("bench.m{at}"));
        }
        records
    };
    let without = compared(rename(run(1.0)), rename(run(1.003)));
    assert_eq!(without.rows[0].share, Share::Inconclusive);
}

#[test]
fn case_that_did_not_move_with_its_class_is_beside_it() {
    let a = cases("memory.fault.", 8, 100.0);
    let mut b = cases("memory.fault.", 8, 90.0);
    b[7] = case("memory.fault.", 7, NS, 100.0);
    let comparison = compared(a, b);
    let row = comparison.rows.iter().find(|it| it.metric.as_str() == "memory.fault.m7").unwrap();
    assert_eq!((row.word, row.share), (ComparisonWord::Unchanged, Share::Differs));
    assert_eq!(row.net.unwrap().word, ComparisonWord::Slower);
}

/// Most calls are as fast, and some much slower: these are no scatter of the others.
#[test]
fn many_cases_beside_a_class_are_each_found() {
    let a = cases("os.", 18, 100.0);
    let mut b = cases("os.", 18, 98.0);
    (0..8).for_each(|at| b[at] = case("os.", at, NS, 138.0 + at as f64));
    let comparison = compared(a, b);
    let kernel = factor(&comparison, "kernel entry").unwrap();
    assert_eq!((kernel.agree, kernel.moved), (10, true), "{kernel:?}");
    let differ = shares(&comparison).iter().filter(|(_, it)| *it == Share::Differs).count();
    assert_eq!(differ, 8);
    let mut half = cases("os.", 18, 98.0);
    (0..9).for_each(|at| half[at] = case("os.", at, NS, 138.0 + at as f64));
    let comparison = compared(cases("os.", 18, 100.0), half);
    let kernel = factor(&comparison, "kernel entry").unwrap();
    assert!(!kernel.moved, "half of its cases disagree: {kernel:?}");
}

#[test]
fn gate_is_net_of_the_excepted_classes() {
    let run = |cpu: f64, kernel: f64| {
        let mut all = cases("cpu.", 6, cpu);
        all.extend(cases("os.", 6, kernel));
        all
    };
    let answer = |comparison: &Comparison, except: &[&str]| {
        let except: Vec<String> = except.iter().map(|it| (*it).to_owned()).collect();
        comparison.gate_except(&except, 0.05, None).answer
    };
    let slower_core = compared(run(10.0, 100.0), run(12.0, 100.0));
    assert_eq!(answer(&slower_core, &[]), ComparisonAnswer::Fail);
    assert_eq!(answer(&slower_core, &["core speed"]), ComparisonAnswer::Pass);
    assert_eq!(answer(&slower_core, &["kernel entry"]), ComparisonAnswer::Fail);
    let slower_kernel = compared(run(10.0, 100.0), run(12.0, 120.0));
    assert_eq!(answer(&slower_kernel, &["core speed"]), ComparisonAnswer::Fail);
    let gate = slower_core.gate_except(&["core speed".to_owned()], 0.05, None);
    assert_eq!(gate.except, ["core speed"]);
}

/// Two runs in which the kernel entry is 10 % slower, changed like this.
fn with(change: impl FnOnce(&mut Document, &mut Document)) -> Comparison {
    let run = |number: usize, median: f64| {
        let mut records = cases("os.", 6, median);
        records.extend(cases("cpu.", 6, median));
        Document { records, ..bare(number) }
    };
    let (mut a, mut b) = (run(1, 100.0), run(2, 110.0));
    change(&mut a, &mut b);
    compare(&a, &b, &Noise::default(), 7)
}

#[test]
fn suspects_can_move_the_class_and_have_their_test() {
    let comparison = with(|a, b| {
        (a.host.kernel, b.host.kernel) = ("6.1.0".to_owned(), "6.12.0".to_owned());
        a.host.tcp.congestion = Some("bbr".to_owned());
        b.host.tcp.congestion = Some("cubic".to_owned());
        a.host.cpu.governor = Some("performance".to_owned());
        b.host.cpu.governor = Some("powersave".to_owned());
        for name in ["retbleed", "spectre_v2"] {
            a.host.mitigations.insert(name.to_owned(), "Vulnerable".to_owned());
            b.host.mitigations.insert(name.to_owned(), "Mitigation: IBRS".to_owned());
        }
    });
    let names = |class: &str| -> Vec<&str> {
        factor(&comparison, class).unwrap().suspects.iter().map(|it| it.what.as_str()).collect()
    };
    assert_eq!(names("core speed"), ["governor"]);
    assert_eq!(names("kernel entry"), ["governor", "kernel", "mitigation of retbleed, spectre_v2"]);
    let toggles: Vec<Option<Toggle>> = factor(&comparison, "kernel entry")
        .unwrap()
        .suspects
        .iter()
        .map(|it| it.toggle.clone())
        .collect();
    let path = "/sys/devices/system/cpu/cpu*/cpufreq/scaling_governor";
    let expected = [
        Toggle::File { path, value: "performance".to_owned() },
        Toggle::Kernel { release: "6.1.0".to_owned() },
        Toggle::Parameters { line: "mitigations=off".to_owned() },
    ];
    assert_eq!(toggles, expected.map(Some));
    // A class that did not move has none.
    let unmoved = with(|a, b| {
        (a.host.kernel, b.host.kernel) = ("6.1.0".to_owned(), "6.12.0".to_owned());
        b.records = a.records.clone();
    });
    assert!(unmoved.factors.iter().all(|it| it.suspects.is_empty() && !it.moved));
    // One with a case that differs beside it has those of the case.
    let of_case = with(|a, b| {
        (a.host.kernel, b.host.kernel) = ("6.1.0".to_owned(), "6.12.0".to_owned());
        b.records = a.records.clone();
        b.records[0] = case("os.", 0, NS, 150.0);
    });
    let kernel = factor(&of_case, "kernel entry").unwrap();
    assert!(!kernel.moved && kernel.suspects.len() == 1, "{kernel:?}");
    assert!(factor(&of_case, "core speed").unwrap().suspects.is_empty());
}

#[test]
fn no_number_of_a_size_is_a_vote() {
    let sizes = |bytes: f64| -> Vec<Record> {
        let mut all: Vec<Record> =
            (0..6).map(|at| case("memory.", at, Unit::Bytes, bytes)).collect();
        all.iter_mut().for_each(|it| it.better = Better::Lower);
        all
    };
    assert!(compared(sizes(1e6), sizes(2e6)).factors.is_empty());
    let params = Params::one("cpus", 2);
    let two = |median: f64| -> Vec<Record> {
        cases("network.", 6, median)
            .into_iter()
            .map(|it| Record { params: params.clone(), ..it })
            .collect()
    };
    let comparison = compared(two(100.0), two(120.0));
    assert_eq!(comparison.factors[0].class, "two CPUs");
}

/// Cases of a class on a core that is so many times slower by the reference loop.
fn on_core(start: &str, median: f64, slower: f64) -> Vec<Record> {
    let slowed = |it: Record| {
        it.found(NotSelected::Device).with_summary(|summary| {
            let found = summary.as_found.as_mut().expect("it was set");
            found.process_loops.iter_mut().for_each(|ns| *ns *= slower);
        })
    };
    cases(start, 6, median).into_iter().map(slowed).collect()
}

#[test]
fn class_explained_by_the_core_moved_with_it() {
    let run = |cpu: f64, kernel: f64, slower: f64| {
        [on_core("cpu.", cpu, slower), on_core("os.", kernel, slower)].concat()
    };
    let after = |cpu: f64, kernel: f64, slower: f64| {
        let comparison = compared(run(10.0, 100.0, 1.0), run(cpu, kernel, slower));
        let of = |it: &Factor| (it.class, it.moved, it.with_core);
        comparison.factors.iter().map(of).collect::<Vec<_>>()
    };
    let (core, kernel) = ("core speed", "kernel entry");
    let own_first = [(kernel, true, false), (core, true, true)];
    assert_eq!(after(10.4, 103.5, 1.02), [(core, true, false), (kernel, true, false)], "by more");
    assert_eq!(after(10.3, 115.0, 1.03), own_first);
    assert_eq!(after(10.8, 105.0, 1.07), [(core, true, true), (kernel, true, true)]);
    assert_eq!(after(9.7, 102.0, 0.97), own_first, "not in the direction of the core");
    assert_eq!(after(10.3, 100.0, 1.03), [(core, true, true), (kernel, false, false)]);
    // What cannot move a core is no suspect of what moved with it.
    let run = |number: usize, kernel: &str, median: f64, slower: f64| {
        let mut run = Document { records: on_core("os.", median, slower), ..bare(number) };
        run.host.kernel = kernel.to_owned();
        run
    };
    let comparison =
        compare(&run(1, "6.1", 100.0, 1.0), &run(2, "6.2", 103.0, 1.03), &Noise::default(), 7);
    let of_class = factor(&comparison, kernel).unwrap();
    assert!(of_class.with_core && of_class.suspects.is_empty(), "{of_class:?}");
    assert_eq!(serde_json::to_value(of_class).unwrap()["with_core"], true);
    // A runner that got slower is no regression.
    let gate = |except: &str| comparison.gate_except(&[except.to_owned()], 0.02, None);
    assert_eq!(gate("device").answer, ComparisonAnswer::Undecided);
    let gate = gate(core);
    assert_eq!(
        (gate.answer, &*gate.except),
        (ComparisonAnswer::Pass, &[core, kernel].map(str::to_owned)[..])
    );
}

#[test]
fn case_with_cpus_elsewhere_is_counted_apart() {
    let at = |it: Record, ns: f64| it.with_summary(|summary| summary.distance_ns = Some(ns));
    let run = |network: f64, remote: f64, ns: f64| {
        let of_class = cases("network.", 6, network).into_iter();
        let two = of_class.map(|it| at(Record { params: Params::one("cpus", 2), ..it }, ns));
        let names = [("file.read.remote", remote), ("memory.bandwidth", 10.0)];
        let others = names.map(|(name, median)| at(record(name, NS, median, 10), ns));
        two.chain(others).chain([record("file.create", NS, remote, 10)]).collect::<Vec<Record>>()
    };
    let (a, b) = (run(100.0, 59.0, 23.0), run(132.0, 70.0, 124.0));
    let count = |a: &[Record], b: &[Record]| {
        let comparison = compared(a.to_vec(), b.to_vec());
        let distances = factor(&comparison, "two CPUs").unwrap().distances;
        let shares = shares(&comparison);
        assert!(shares.contains(&("file.create", Share::Differs)), "on one CPU: {shares:?}");
        assert!(shares.contains(&("memory.bandwidth", Share::Unchanged)), "{shares:?}");
        let [farther, nearer] = [Share::CpusFarther, Share::CpusNearer]
            .map(|share| shares.iter().filter(|it| it.1 == share).count());
        (distances, farther, nearer)
    };
    assert_eq!(count(&a, &b), (Some([23.0, 124.0]), 7, 0), "the class and the remote read");
    assert_eq!(count(&b, &a), (Some([124.0, 23.0]), 0, 7));
}

#[test]
fn what_runs_of_the_host_differ_by_is_no_change() {
    // Each is 100 ns, by up to 2 % more or less from run to run; between A and B by another 2 %.
    let of =
        |number: usize, by: f64| Document { records: cases("os.", 8, 100.0 * by), ..bare(number) };
    let kept = |by: &[f64]| -> Vec<Outline> {
        (1..).zip(by).map(|(number, by)| Outline::from(&of(number, *by))).collect()
    };
    let (a, b) = (of(100, 1.0), of(101, 1.02));
    let against =
        |kept: &[Outline]| compare(&a, &b, &Noise::learn(kept, std::slice::from_ref(&a), &b), 7);
    let wild = [1.0, 1.02, 1.0, 0.98, 1.0, 1.02, 1.0];
    let changed = |comparison: &Comparison| {
        let kernel = factor(comparison, "kernel entry").expect("a factor").clone();
        (kernel.moved, shares(comparison).iter().any(|(_, share)| *share == Share::Differs))
    };
    let unknown = against(&kept(&wild[..4]));
    assert_eq!(changed(&unknown), (true, false), "three pairs say nothing");
    let known = against(&kept(&wild));
    assert_eq!(changed(&known), (false, false));
    let kernel = factor(&known, "kernel entry").expect("a factor");
    let between = kernel.between_runs.expect("learned");
    assert!((between - 0.02).abs() < 1e-3, "{kernel:?}");
    // Student's t of six pairs, which share runs: 4.2 degrees of freedom, 2.72 deviations.
    let half = (kernel.interval[1] / kernel.interval[0]).ln() / 2.0;
    assert!((half - 2.72 * 0.02).abs() < 2e-3, "{kernel:?}");
    let calm = against(&kept(&[1.0, 1.001, 1.0, 0.999, 1.0, 1.001, 1.0]));
    assert_eq!(changed(&calm), (true, false));
    // A setting that changed leaves nothing like B, but runs like A, of whatever quality.
    let (mut a, mut b) = (a.clone(), b.clone());
    a.run.verdict.state = State::Noisy;
    b.host.kernel = "other".to_owned();
    let noise = Noise::learn(&kept(&wild), std::slice::from_ref(&a), &b);
    assert_eq!(changed(&compare(&a, &b, &noise, 7)), (false, false));
}

#[test]
fn drift_of_both_runs_is_an_error_of_all_cases() {
    let of = |number: usize, by: f64, drift: f64| {
        let mut run = Document { records: cases("os.", 8, 100.0 * by), ..bare(number) };
        run.run.reference = Some(Reference { drift, loop_ns: 10.0, ..Reference::default() });
        run
    };
    let kernel = |drift: f64| {
        let comparison = compare(&of(1, 1.0, drift), &of(2, 1.02, drift), &Noise::default(), 7);
        factor(&comparison, "kernel entry").expect("a factor").clone()
    };
    assert!(kernel(0.0).moved && !kernel(0.02).moved);
    let [low, high] = kernel(0.02).interval;
    assert!(((high / low).ln() / 2.0 - 0.02 * 2f64.sqrt()).abs() < 4e-3, "{low} {high}");
}

#[test]
fn case_on_the_edge_of_a_cache_is_no_finding() {
    let of = |by: f64, is_edge: bool| {
        let mut all = cases("memory.", 8, 100.0);
        all[3] = case("memory.", 3, NS, 100.0 * by);
        let edge = Fact::text("between levels", "L3 and memory");
        all[3].facts.extend(is_edge.then_some(edge));
        all
    };
    let share = |edges: [bool; 2]| {
        let comparison = compared(of(1.0, edges[0]), of(1.8, edges[1]));
        shares(&comparison)[3].1
    };
    assert_eq!(share([false, false]), Share::Differs);
    assert_eq!(share([true, true]), Share::OnEdge);
    assert_eq!(share([false, true]), Share::Differs, "another cache");
}

#[test]
fn case_differs_only_by_more_than_between_kept_runs() {
    let of = |number: usize, by: f64| {
        let mut records = cases("os.", 8, 100.0);
        records[3] = case("os.", 3, NS, 100.0 * by);
        Document { records, ..bare(number) }
    };
    let wild = [1.0, 1.05, 1.0, 0.95, 1.0, 1.05, 1.0];
    let kept: Vec<Outline> =
        (1..).zip(wild).map(|(number, by)| Outline::from(&of(number, by))).collect();
    let differs = |kept: &[Outline], by: f64| {
        let (a, b) = (of(100, 1.0), of(101, by));
        let noise = Noise::learn(kept, std::slice::from_ref(&a), &b);
        let comparison = compare(&a, &b, &noise, 7);
        let row = comparison.rows.iter().find(|row| row.metric.as_str() == "os.m3").unwrap();
        (row.share == Share::Differs, row.net.unwrap().p_adjusted)
    };
    assert!(differs(&[], 1.08).0, "without kept runs");
    assert!(!differs(&kept, 1.08).0, "more than any pair, but not by enough");
    // 0.59 is 11 deviations of six pairs, one case in eight.
    let (found, p) = differs(&kept, 1.8);
    assert!(found && (5e-4..5e-3).contains(&p), "{p}");
}

#[test]
fn moved_cpus_are_no_noise_of_a_class() {
    let of = |number: usize, by: f64, apart: f64| {
        let mut records = cases("os.wake.", 8, 100.0 * by);
        records.push(record("memory.core_to_core", NS, apart, 10));
        Document { records, ..bare(number) }
    };
    let runs = [(1.0, 30.0), (1.001, 30.0), (1.5, 80.0), (1.501, 80.0), (1.5, 80.0), (1.499, 80.0)];
    let kept: Vec<Outline> = (1..)
        .zip(runs)
        .map(|(number, (by, apart))| Outline::from(&of(number, by, apart)))
        .collect();
    let (a, b) = (of(100, 1.5, 80.0), of(101, 1.55, 80.0));
    let noise = Noise::learn(&kept, std::slice::from_ref(&a), &b);
    let comparison = compare(&a, &b, &noise, 7);
    let two = factor(&comparison, "two CPUs").expect("a factor");
    assert!(two.moved && two.between_runs.is_some_and(|it| it < 0.002), "{two:?}");
    let row = comparison.rows.iter().find(|row| row.metric.as_str() == "os.wake.m0").unwrap();
    assert!(row.noise.is_some_and(|it| it < 0.002), "{row:?}");
}
