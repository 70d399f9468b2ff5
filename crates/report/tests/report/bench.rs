//! The output of `fathom bench`: words for ratios, what differs, and the law of a scan.

use fathom_record::command::{self as facts, RATIO_METRIC};
use fathom_record::{Better, Cause, Fact, Params, Reason, Record, State, Unit, Verdict};
use fathom_report::by_hand::group;
use unicode_width::UnicodeWidthStr as _;

fn number(metric: &str, params: Params, unit: Unit, limits: [f64; 3]) -> Record {
    let record = Record::fixture(metric, unit).of_case(&params).measured(limits);
    let record = Record { better: Better::Lower, ..record };
    record.with_summary(|it| (it.n, it.process_medians) = (20, vec![limits[1]; 20]))
}

/// A command of so many milliseconds, with a share of CPU time and a number of faults.
fn command(name: &str, params: Params, ms: f64, share: f64, faults: f64) -> Record {
    let ns = 1e6 * ms;
    let times = [0.99 * ns, ns, 1.01 * ns];
    let mut record = number(&format!("bench.{name}"), params, Unit::Nanoseconds, times);
    (record.disturbance.wall_ns, record.disturbance.cpu_ns) = (1_000_000, (1e6 * share) as u64);
    record.facts = vec![
        Fact::text(facts::COMMAND, name),
        Fact::quantity(facts::USER, ns * share, Unit::Nanoseconds),
        Fact::quantity(facts::SYSTEM, 0.0, Unit::Nanoseconds),
        Fact::quantity(facts::MINOR_FAULTS, faults, Unit::Ratio),
        Fact::quantity(facts::DISTURBED, 0.0, Unit::Ratio),
    ];
    record
}

fn ratio(limits: [f64; 3], params: Params) -> Record {
    number(RATIO_METRIC, params.and("of", "b").and("to", "a"), Unit::Ratio, limits)
}

fn screen(records: &[Record]) -> String {
    let text = group(records, &[], 80);
    assert!(text.lines().all(|line| line.width() <= 80), "{text}");
    text.split_whitespace().collect::<Vec<&str>>().join(" ")
}

#[test]
fn ratio_has_the_word_that_its_interval_allows() {
    let of = |limits| screen(&[ratio(limits, Params::none())]);
    assert_eq!(of([1.08, 1.12, 1.15]), "b is 12 % slower than a (8.0 % to 15 %)");
    assert_eq!(of([0.5, 0.8, 0.9]), "b is 20 % faster than a (10 % to 50 %)");
    assert_eq!(of([0.2, 0.25, 0.5]), "b is 4.00 × faster than a (2.00 × to 5.00 ×)");
    assert_eq!(
        of([0.99, 1.0, 1.01]),
        "b and a: no difference beyond 2 % (1.0 % faster to 1.0 % slower)"
    );
    assert_eq!(of([0.9, 1.05, 1.2]), "b and a: inconclusive, 10 % faster to 20 % slower");
    assert!(of([1.002, 1.005, 1.008]).starts_with("b and a: no difference"), "below 1 %");
    let mut few = ratio([1.08, 1.12, 1.15], Params::none());
    few.summary.as_mut().expect("a summary").process_medians.truncate(7);
    assert!(screen(&[few.clone()]).starts_with("b looks 12 % slower"));
    few.verdict = Verdict::because(State::Invalid, Cause::Clock, "wrong");
    assert_eq!(screen(&[few]), "b and a: no ratio");
}

#[test]
fn difference_is_split_into_user_system_and_other_time() {
    let of = |ratio_limits, share| {
        let commands = [("a", 100.0, 0.5), ("b", 112.0, share)];
        let commands =
            commands.map(|(name, ms, share)| command(name, Params::none(), ms, share, 0.0));
        let ratio = ratio(ratio_limits, Params::none());
        screen(&[&commands[..], &[ratio]].concat()).replace('\u{a0}', " ")
    };
    let text = of([1.08, 1.12, 1.15], 0.6);
    let split = "+12.0 ms = user +17.2 ms, off the CPU −5.20 ms";
    assert!(text.contains(split), "{text}");
    assert!(!of([0.9, 1.12, 1.3], 0.6).contains(" = user"), "no difference is shown");
    assert!(!of([1.08, 1.12, 1.15], 1.6).contains(" = user"), "on several CPUs");
}

#[test]
fn commands_are_ranked_and_what_differs_is_named() {
    let slow = command("b", Params::none(), 112.0, 0.98, 30_000.0);
    let fast = command("a", Params::none(), 100.0, 0.97, 10_000.0);
    let pair = ratio([1.08, 1.12, 1.15], Params::none());
    let text = screen(&[slow.clone(), fast, pair.clone()]);
    assert!(
        text.contains(
            "slower than a (8.0 % to 15 %); +12.0 ms = user +12.8 ms, off the CPU −760 µs; both \
             CPU-bound; b faults 3.0 × as often"
        ),
        "{text}"
    );
    assert!(text.find("a 100.0 ms") < text.find("b 112.0 ms"), "{text}");
    let waiting = command("a", Params::none(), 100.0, 0.1, 30_000.0);
    let text = screen(&[slow, waiting, pair]);
    assert!(text.contains("; b CPU-bound; a waiting"), "{text}");
    assert!(!text.contains("as often"), "{text}");
}

#[test]
fn command_is_on_several_cpus_only_if_its_time_on_them_says_so() {
    let said = |shares: [[u64; 2]; 2]| {
        let [b, a] = [("b", shares[0]), ("a", shares[1])].map(|(name, [on_cpu, queued])| {
            let mut record = command(name, Params::none(), 100.0, on_cpu as f64 / 100.0, 0.0);
            record.disturbance.run_queue_ns = Some(10_000 * queued);
            record
        });
        screen(&[b, a, ratio([0.99, 1.0, 1.01], Params::none())])
    };
    // 0.2 s on a CPU and 0.79 s runnable without one, of 1 s.
    let text = said([[20, 79], [25, 70]]);
    assert!(text.contains("; both waiting for a CPU"), "{text}");
    assert!(said([[180, 0], [150, 0]]).contains("; both on several CPUs"));
    // A command against itself, at each limit.
    for shares in [[[91, 0], [89, 0]], [[51, 0], [49, 0]], [[121, 0], [119, 0]]] {
        let text = said(shares);
        assert!(!text.contains("; b ") && !text.contains("; a "), "{text}");
    }
    assert!(said([[95, 0], [60, 0]]).contains("; b CPU-bound"));
}

#[test]
fn pipe_and_less_work_are_said() {
    let piped = |name: &str, bytes: f64| {
        let mut record = command(name, Params::none(), 100.0, 1.0, 0.0);
        record.facts.push(Fact::text(facts::OUTPUT, "a drained pipe"));
        record.facts.push(Fact::quantity(facts::PIPED, bytes, Unit::Bytes));
        let time = Fact::quantity(facts::PIPE_TIME, bytes * 0.25, Unit::Nanoseconds);
        record.facts.push(time);
        record
    };
    let text = screen(&[piped("a", 0.0), piped("b", 12.0)]);
    assert!(
        text.contains(
            "output: a drained pipe, below 1 % of each time (pipe cost measured with cat)"
        ),
        "{text}"
    );
    let text = screen(&[piped("a", 20e6), piped("b", 12.0)]);
    assert!(text.contains("pipe, about 5.0 % of the time of a (19.07 MiB, pipe cost"), "{text}");
    let text = screen(&[piped("a", 800e6), piped("b", 12.0)]);
    assert!(text.contains("pipe, most of the time of a (762.9 MiB, pipe cost"), "{text}");
    let mut less = ratio([0.05, 0.08, 0.1], Params::none());
    let reason = Reason::new(Cause::WrongWork, "b reads 4 kB of 20 MB, as its output is /dev/null");
    less.verdict = Verdict { state: State::Noisy, reasons: vec![reason] };
    let text = screen(&[less]);
    assert!(text.starts_with("not the same work with /dev/null (--output pipe); b is"), "{text}");
}

#[test]
fn law_of_a_scan_is_printed_where_it_holds() {
    let scan = |law: &dyn Fn(f64) -> f64| {
        let at = |n: i64| command("a", Params::one("n", n), law(n as f64), 1.0, 0.0);
        screen(&[1, 2, 4, 8].map(at))
    };
    assert!(scan(&|n| 10.0 + 5.0 * n).contains("a: 10.00 ms + 5.000 ms × n, all points within"));
    assert!(scan(&|n| 3.0 * n * n).contains("a: 3.000 ms × n^2.00, all points within"));
    let step = scan(&|n| if n > 3.0 { 90.0 } else { 10.0 });
    assert!(!step.contains("all points") && step.contains("a{n=8} 90.00 ms"), "{step}");
}

#[test]
fn causes_are_named_and_the_remedy_is_said_once() {
    let noisy = |name: &str| {
        let mut record = command(name, Params::none(), 100.0, 1.0, 0.0);
        let reason = Reason::new(Cause::Steal, "CPU steal 12 %");
        let reason = reason.with_remedy(fathom_record::Remedy::QuietCpu);
        record.verdict = Verdict { state: State::Noisy, reasons: vec![reason] };
        record.facts.retain(|fact| fact.name != facts::DISTURBED);
        record.facts.push(Fact::quantity(facts::DISTURBED, 7.0, Unit::Ratio));
        record
    };
    let text = screen(&[noisy("a"), noisy("b")]);
    for name in ["a", "b"] {
        let line = format!("{name}: noisy; CPU steal 12 %; 7 of 20 runs disturbed");
        assert!(text.contains(&line), "{text}");
    }
    let remedy = fathom_report::remedy::words(&fathom_record::Remedy::QuietCpu);
    assert_eq!(text.matches(&remedy).count(), 1, "{text}");
    let many: Vec<Record> = (0..9).map(|at| noisy(&format!("c{at}"))).collect();
    assert!(screen(&many).contains("3 more"));
}

#[test]
fn nobody_misses_a_model_of_a_command() {
    let mut document = crate::fixture::document();
    document.records = vec![command("a", Params::none(), 100.0, 1.0, 0.0)];
    document.run.procedure = Some("bench".to_owned());
    let text = fathom_report::show(&document, &fathom_report::Layout::default());
    assert!(text.contains("1 case: 1 valid.") && !text.contains("without a model"), "{text}");
}
