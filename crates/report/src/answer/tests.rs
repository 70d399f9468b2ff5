use fathom_analysis::typical;
use fathom_record::{
    Basis, Cause, Fact, Host, Interval, MetricId, Params, Position, Prediction, Reason, Reference,
    Remedy, Run, RunState, Summary, Tool, Typical, Unit, Value, Verdict,
};

use super::*;

/// A valid result that is within its prediction.
fn within(name: &str) -> Record {
    Record {
        metric: MetricId::new(name),
        unit: Unit::Nanoseconds,
        summary: Some(Summary {
            median: 100.0,
            interval: Some(Interval::new([99.0, 101.0], 0.95, Basis::Processes)),
            ..Summary::default()
        }),
        prediction: Some(Prediction::sum(100.0, 0.0, 0.2, "formula", "source")),
        agreement: Some(Agreement::Within),
        better: Better::Lower,
        ..Record::default()
    }
}

fn noisy(name: &str, remedy: Remedy) -> Record {
    let reason = Reason::new(Cause::Steal, "CPU steal 12 %").with_remedy(Some(remedy));
    let verdict = Verdict { state: State::Noisy, reasons: vec![reason] };
    Record { verdict, agreement: Some(Agreement::Inconclusive), ..within(name) }
}

fn answer_of(procedure: Option<&str>, records: Vec<Record>) -> Answer {
    Answer::from_document(&document_of(procedure, records), &[])
}

fn document_of(procedure: Option<&str>, records: Vec<Record>) -> Document {
    let tool = Tool { name: "fathom".to_owned(), version: String::new(), compiler: None };
    let (host, far) = (Host::default(), Vec::new());
    let run = Run {
        procedure: procedure.map(str::to_owned),
        planned: records.len() as u64,
        state: RunState::Complete,
        ..Run::default()
    };
    Document { schema: 0, tool, run, host, far, records }
}

fn answer(records: Vec<Record>) -> Answer {
    answer_of(None, records)
}

fn texts(items: &[AnswerItem]) -> Vec<&str> {
    items.iter().map(|item| item.text.as_str()).collect()
}

#[test]
fn quiet_run_has_no_sign_and_counts_its_predictions() {
    let answer = answer(vec![within("os.a"), within("os.b")]);
    let sign = "No sign that something slows this machine: 2 of 2 predicted values within.";
    assert_eq!(answer.verdict, [sign, "2 of 2 results are valid."]);
    assert_eq!(answer.mood, Mood::Good);
    assert_eq!((answer.ignore, answer.unusual), (vec![], vec![]));
    assert_eq!(answer.usual, "Nothing: 2 of 2 predictions within or met.");
}

#[test]
fn few_noisy_results_are_ignored_and_many_forbid_a_conclusion() {
    let mut records = vec![within("os.a"), within("os.b"), noisy("os.c", Remedy::QuieterHost)];
    let few = answer(records.clone());
    assert_eq!(few.mood, Mood::Good);
    assert_eq!(few.verdict[1], "1 of 3 results noisy (33 %): ignore it, os.c.");
    assert_eq!(texts(&few.ignore), ["1 noisy: CPU steal"]);
    assert_eq!(few.ignore[0].show, Some("noisy"));
    let next = texts(&few.next);
    assert!(next[0].starts_with("`fathom doctor`"), "{next:?}");
    assert_eq!(next[1], "measure on a quieter or dedicated host");
    records.extend(["os.d", "os.e"].map(|name| noisy(name, Remedy::QuieterHost)));
    let many = answer(records);
    assert_eq!(many.mood, Mood::Care);
    let busy = "Measured on a busy machine: others disturbed 3 of 5 results (CPU steal 3).";
    let holds = "2 of 2 valid results show what the machine can do.";
    assert_eq!(
        many.verdict,
        [busy, holds, "3 of 5 results noisy (60 %): ignore those: os.c, os.d, os.e."]
    );
}

#[test]
fn outside_and_worse_than_typical_are_named_with_their_command() {
    let mut outside = within("os.a");
    outside.agreement = Some(Agreement::Outside);
    outside.summary.as_mut().expect("a summary").median = 200.0;
    let mut worse = within("os.b");
    worse.typical = Some(Typical {
        cpu: "Example".to_owned(),
        size: None,
        n: 50,
        low: 80.0,
        median: 85.0,
        high: 90.0,
        better: 50,
        worse: 0,
        position: Position::Worse,
        not_judged: None,
    });
    let answer = answer(vec![outside, worse]);
    let verdict: Vec<String> = answer.verdict.iter().map(|it| it.replace('\u{a0}', " ")).collect();
    let bad = "Bad at os: os.b 100.0 ns, worse than all 50 (80.0…90.0 ns); os.a 200.0 ns, \
               expected 80–120 ns.";
    assert_eq!(verdict[..2], [bad, "Predictions: 1 of 2 predicted values within, 1 outside."]);
    let unusual = texts(&answer.unusual);
    assert!(unusual[0].starts_with("os.a 200.0\u{a0}ns, expected"), "{unusual:?}");
    assert!(unusual[1].starts_with("os.b 100.0\u{a0}ns, worse than all 50"), "{unusual:?}");
    let next = texts(&answer.next);
    assert!(next[0].starts_with("`fathom explain os.a`"), "{next:?}");
    assert!(next[1].starts_with("`fathom compare --typical`"), "{next:?}");
}

/// The same numbers, noisy or of a shared core, say nothing against the machine.
#[test]
fn what_the_measurement_did_is_no_fault_of_the_machine() {
    let mut outside = within("os.a");
    outside.agreement = Some(Agreement::Outside);
    outside.summary.as_mut().expect("a summary").median = 200.0;
    let quiet = || vec![within("os.b"), within("os.c"), within("os.d")];
    let bad = |one: Record| answer([vec![one], quiet()].concat()).verdict[0].clone();
    assert!(bad(outside.clone()).starts_with("Bad at os: os.a"));
    let mut noisy = outside.clone();
    noisy.verdict = Verdict::because(State::Noisy, Cause::Spread, "why");
    let mut shared = outside.clone();
    shared.summary.as_mut().expect("a summary").stratum = Stratum::Shared;
    for one in [noisy, shared] {
        assert!(bad(one).starts_with("No sign that something slows this machine"));
    }
    let mut run = document_of(None, vec![outside, within("os.b")]);
    run.run.reference = Some(Reference { visits: 200, clean: 1, ..Reference::default() });
    typical::fill(&mut run);
    let verdict = Answer::from_document(&run, &[]).verdict;
    assert!(verdict[1].starts_with("No number shows"), "{verdict:?}");
    assert_eq!(
        verdict[0].replace('\u{a0}', " "),
        "Measured on a shared machine: core to itself in 0.50 % of processes."
    );
    assert!(verdict.iter().all(|it| !it.contains("os.a")), "{verdict:?}");
}

#[test]
fn group_is_good_by_most_of_its_values() {
    let with = |name, agreement| Record { agreement: Some(agreement), ..within(name) };
    let mut bound = with("file.a", Agreement::Met);
    bound.prediction = Some(Prediction::at_most(110.0, "formula", "source"));
    let [mut bad, open] = [Agreement::Outside, Agreement::Inconclusive].map(|it| with("os.a", it));
    bad.summary.as_mut().expect("a summary").median = 200.0;
    let cpu = [within("cpu.a"), within("cpu.b"), within("cpu.c"), within("memory.a")];
    let memory = Record { metric: MetricId::new("memory.b"), ..open };
    let all = [&[bad, bound, memory][..], &cpu].concat();
    let verdict = answer(all).verdict[1].clone();
    let text = "Good at cpu, as predicted: 4 of 6 predicted values within, 1 of 1 bound met, 1 \
                inconclusive, 1 outside.";
    assert_eq!(verdict, text, "a bound is met, and half of memory is open");
}

#[test]
fn without_a_number_there_is_no_good_verdict() {
    let verdict = Verdict::because(State::Unavailable, Cause::Missing, "no permission");
    let answer = answer(vec![Record { verdict, ..within("os.a") }]);
    assert_eq!(answer.verdict, ["No result has a number: no permission."]);
    assert_eq!(answer.mood, Mood::Bad);
    let missing = "1 unavailable: permission, limit or missing feature";
    assert_eq!(texts(&answer.ignore), [missing]);
}

#[test]
fn inconclusive_predictions_are_no_good_sign() {
    let open = |name| {
        let record = Record { agreement: Some(Agreement::Inconclusive), ..within(name) };
        record.with_summary(|summary| summary.interval = None)
    };
    let answer = answer(vec![open("os.a"), open("os.b"), within("os.c")]);
    let says = "The predictions are inconclusive: 1 of 3 predicted values within, \
                2 have no interval to judge by.";
    assert_eq!(answer.verdict[0], says);
    assert_eq!(answer.mood, Mood::Care);
    assert_eq!(answer.usual, "Inconclusive: 1 of 3 predictions within or met.");
}

#[test]
fn command_without_a_number_says_why() {
    let verdict = Verdict::because(State::Unavailable, Cause::Missing, "no space");
    let records = vec![within("file.a"), Record { verdict, ..within("file.b") }];
    let answer = answer_of(Some("file read"), records);
    assert_eq!(answer.mood, Mood::Care);
    assert!(answer.verdict[0].starts_with("file.a: 100"), "{:?}", answer.verdict);
    assert_eq!(answer.verdict[1], "file.b: unavailable: no space.");
}

#[test]
fn load_begins_with_its_limit_and_the_proof() {
    let case = Params::one("mode", "random");
    let rate = |metric: &str, params: Params| Record {
        metric: MetricId::new(metric),
        params,
        unit: Unit::PerSecond,
        summary: Some(Summary { median: 5000.0, ..Summary::default() }),
        ..Record::default()
    };
    let mut bottleneck = rate("load.bottleneck", case.clone());
    bottleneck.value = Some(Value::Text("server-cpu".to_owned()));
    bottleneck.facts = vec![Fact::text("proof", "confirmed")];
    let step = rate("load.throughput", case.clone().and("clients", 8));
    let records = vec![step, rate("load.saturation", case), bottleneck];
    let answer = answer_of(Some("load"), records);
    let first = answer.verdict[0].replace('\u{a0}', " ");
    let begin = "Highest throughput: 5000 requests/s at 8 clients. The CPU of the server limits";
    assert!(first.starts_with(begin), "{first}");
    assert!(first.ends_with("Proof by added load: confirmed."), "{first}");
}

#[test]
fn runs_of_a_busy_machine_are_not_compared_without_a_word() {
    let quiet = document_of(None, vec![within("os.a")]);
    let busy = document_of(None, vec![noisy("os.a", Remedy::QuieterHost), within("os.b")]);
    let busy = Document { records: [&busy.records[..1], &busy.records[..1]].concat(), ..busy };
    assert_eq!(crate::busy_runs(&[&quiet, &quiet], 80), "");
    assert!(crate::busy_runs(&[&quiet, &busy], 80).contains("Some of these runs were measured"));
    assert!(crate::busy_runs(&[&busy, &busy], 80).contains("All of these runs were measured"));
}

/// Who asks for one metric hears what is bad in its group, and not what others did to a busy run.
#[test]
fn one_metric_is_shown_with_what_is_bad_besides() {
    let mut outside = within("os.a");
    outside.agreement = Some(Agreement::Outside);
    outside.summary.as_mut().expect("a summary").median = 200.0;
    let whole = document_of(None, vec![outside, within("os.b"), within("cpu.a")]);
    let besides =
        |shown: &[Record]| crate::besides(&whole, shown).map(|it| it.replace('\u{a0}', " "));
    let bad = "Bad at os: os.a 200.0 ns, expected 80–120 ns.";
    assert_eq!(besides(&whole.records[1..2]).as_deref(), Some(bad));
    assert_eq!(besides(&whole.records[..1]), None, "it is shown");
    assert_eq!(besides(&whole.records[2..]), None, "another group");
}

#[test]
fn noisy_results_of_a_busy_run_begin_with_the_cause_and_what_to_do() {
    let records = vec![noisy("os.a", Remedy::QuieterHost), noisy("os.b", Remedy::QuieterHost)];
    let text = crate::noisy(&document_of(None, records), &crate::Layout::default());
    let text = text.replace('\u{a0}', " ").split_whitespace().collect::<Vec<_>>().join(" ");
    let parts = ["busy machine: others disturbed 2 of 2", "os.a, os.b", "`fathom doctor`: what"];
    let at: Vec<usize> = parts.iter().filter_map(|part| text.find(part)).collect();
    assert!(at.len() == 3 && at.is_sorted() && at[2] < text.find("measured").unwrap(), "{text}");
}

/// The share of a certificate is an option's value, in the words of the option.
#[test]
fn certificate_begins_with_its_limit_in_percent() {
    let certificate = |median: f64| {
        let record = Record::fixture("bench.certificate", Unit::Ratio).measured([median; 3]);
        let command = Record::fixture("bench.x", Unit::Nanoseconds).measured([2e6; 3]);
        let command = Record { facts: vec![Fact::text("command", "x")], ..command };
        answer_of(Some("bench"), vec![command, record.of_case(&Params::one("of", "x"))])
    };
    let first = |answer: Answer| answer.verdict[0].replace('\u{a0}', " ");
    assert_eq!(first(certificate(0.01)), "x can be gated here from --fail-on 1.0 % on.");
    assert_eq!(first(certificate(0.005)), "x can be gated here from --fail-on 0.50 % on.");
}
