//! The screen of many hosts.

use fathom_analysis::compare::ComparisonWord;
use fathom_analysis::fleet::pairs::{BadHost, BadLink, Pairs};
use fathom_analysis::fleet::{
    FleetCase, FleetSubject, Group, Hardware, Judgement, Matrix, Missed, NotJudged, OddConduct,
    OddFact, OddHost, OddNumber, Uniform,
};
use fathom_record::{Better, Cause, Counts, MetricId, Params, State, Unit};
use fathom_report::{Layout, fleet::render};

use crate::fixture::{assert_fits, layout, plain};

fn number(metric: &str, cases: Option<usize>, ratio: f64) -> OddNumber {
    let params = if cases.is_some() { Params::none() } else { Params::one("set_bytes", 4096) };
    OddNumber {
        subject: FleetSubject { metric: MetricId::new(metric), params, far: None, cases },
        value: cases.is_none().then_some(100.0 * ratio),
        usual: cases.is_none().then_some(100.0),
        unit: cases.is_none().then_some(Unit::Nanoseconds),
        ratio,
        z: 9.0,
        p_adjusted: 0.001,
        word: ComparisonWord::Slower,
    }
}

fn fact(value: &str) -> OddFact {
    let [fact, value, usual] = ["memory speed", value, "8 × 4800 MT/s"].map(str::to_owned);
    OddFact { fact, value, usual, hosts: 398, of: 400 }
}

pub(crate) fn hosts(of: impl IntoIterator<Item = usize>) -> Vec<String> {
    of.into_iter().map(|at| format!("node{at}")).collect()
}

pub(crate) fn group(names: Vec<String>, odd: Vec<OddHost>) -> Group {
    Group {
        hardware: Hardware {
            cpu: "AMD EPYC".to_owned(),
            virtualization: Some("none".to_owned()),
            emulation: None,
            cores_of_nodes: vec![32, 32],
            memory_bytes: Some(256 << 30),
            modules: Some("8 × 32 GiB DDR5".to_owned()),
        },
        hosts: names,
        records: Counts::from_states([State::Valid, State::Noisy]),
        noise: vec![(Cause::Contention, 1)],
        odd,
        not_judged: Vec::new(),
        uniform: Vec::new(),
        cases: Vec::new(),
    }
}

fn screen(groups: Vec<Group>, layout: Layout) -> String {
    let hosts = groups.iter().map(|group| group.hosts.len()).sum();
    plain(&render(&Judgement { hosts, groups, between: Vec::new() }, &layout))
}

#[test]
fn hosts_odd_in_the_same_way_share_their_rows() {
    let odd = |(at, ratio): (usize, f64)| {
        let more = (1..at).map(|case| number(&format!("memory.case{case}"), None, 1.05));
        let mut numbers = vec![number("memory.latency", None, ratio)];
        numbers.extend(more);
        numbers.push(number("memory", Some(14), 1.1));
        OddHost {
            host: format!("node{at}"),
            numbers,
            conduct: Vec::new(),
            facts: vec![fact("8 × 2933 MT/s")],
        }
    };
    let mut all: Vec<OddHost> = [(3, 1.2), (4, 1.3)].map(odd).into();
    // The same fact with other numbers, and the same numbers without the fact.
    for (host, metric, ratio, facts) in [
        ("node9", "os.syscall", 1.5, vec![fact("8 × 2933 MT/s")]),
        ("node12", "memory.latency", 1.2, Vec::new()),
    ] {
        let numbers = vec![number(metric, None, ratio)];
        all.push(OddHost { host: host.to_owned(), numbers, conduct: Vec::new(), facts });
    }
    let text = screen(vec![group(hosts(1..=400), all)], Layout::default());
    let expected = "\
4 of 400 hosts are odd: node[3-4,9,12]

hosts    400: node[1-400]
machine  AMD EPYC, 2 nodes of 32 cores, 256 GiB memory (8 × 32 GiB DDR5)
cases    0 of 0 cases judged; records of all hosts: 1 valid, 1 noisy (CPU
         contention)

Odd hosts                                 host        usual          by
node9
  os.syscall{set_bytes=4096}          150.0 ns     100.0 ns        50 % slower
  likely cause: memory speed: 8 × 2933 MT/s instead of 8 × 4800 MT/s on 398 of
    400 hosts
node[3-4]
  memory.latency{set_bytes=4096} and 3 more cases
                                    120…130 ns     100.0 ns   20 %–30 % slower
  memory (14 cases together)                                       10 % slower
  likely cause: memory speed: 8 × 2933 MT/s instead of 8 × 4800 MT/s on 398 of
    400 hosts
node12
  memory.latency{set_bytes=4096}
                                      120.0 ns     100.0 ns        20 % slower
";
    assert_eq!(&text[..text.len().min(expected.len())], expected, "{text}");
}

/// A judgement in which every list is long and every name strange.
fn strained() -> Vec<Group> {
    let odd = |at: usize| OddHost {
        host: format!("日本\u{1b}[2J{}.{at}", "x".repeat(at % 90)),
        numbers: (0..at % 20).map(|case| number(&format!("m{case}.{at}"), None, 1e9)).collect(),
        conduct: vec![OddConduct::Slow { ns: 9e10, usual_ns: 6e10 }; at % 2],
        facts: (0..at % 15)
            .map(|of| fact(&format!("{of} × {at} MT/s {}", "y ".repeat(90))))
            .collect(),
    };
    let mut large = group(hosts((1..4000).step_by(2)), (0..400).map(odd).collect());
    large.hardware.cpu = "processor ".repeat(40);
    large.not_judged = (0..50)
        .map(|at| NotJudged {
            subject: (at > 0)
                .then(|| number(&format!("long.{}", "m".repeat(2 * at)), None, 1.0).subject),
            reason: "bimodal across 2000 hosts (40 % / 60 %, 8.1 % apart)".to_owned(),
            part: hosts((1..4000).step_by(3)),
            facts: vec![fact("8 × 2933 MT/s")],
        })
        .collect();
    let uniform = |at: usize| Uniform {
        metric: MetricId::new(format!("memory.{}", "m".repeat(at))),
        params: Params::one("set_bytes", 1 << 30),
        unit: Unit::ALL[at % Unit::ALL.len()],
        better: Better::Lower,
        hosts: 2000,
        median: 9.9876e12,
        interval: [9e12, 10e12],
        typical: None,
        predicted: Some(Missed {
            ratio: 1e6,
            interval: [1e6; 2],
            hosts: 1999,
            is_value: at.is_multiple_of(2),
        }),
    };
    large.uniform = (0..100).map(uniform).collect();
    let small = (0..60).map(|at| group(vec![format!("{}{at}", "z".repeat(at))], Vec::new()));
    [large].into_iter().chain(small).collect()
}

#[test]
fn two_thousand_hosts_fit_one_screen_of_any_width() {
    for width in [0, 60, 79, 80, 110, 140, 300] {
        let text = screen(strained(), layout(width));
        assert_fits(&text, width);
        let all = screen(strained(), Layout { all: true, ..layout(width) });
        let [short, long] = [&text, &all].map(|text| text.lines().count());
        assert!(short < 250 && long > 3 * short, "{width}: {short} {long}");
    }
}

#[test]
fn cases_that_abstain_are_not_counted_as_judged() {
    let case = |metric: &str, valid: usize| {
        let subject = number(metric, None, 1.0).subject;
        let (unit, better) = (Unit::Nanoseconds, Better::Lower);
        let (median, spread) = (Some(1.0), None);
        let FleetSubject { metric, params, .. } = subject;
        FleetCase { metric, params, far: None, unit, better, valid, noisy: 0, median, spread }
    };
    let mut one = group(hosts(1..=6), Vec::new());
    one.cases = vec![case("a.b", 6), case("a.c", 5), case("a.d", 4)];
    let abstains = |subject: Option<FleetSubject>| NotJudged {
        subject,
        reason: "why".to_owned(),
        part: Vec::new(),
        facts: Vec::new(),
    };
    let text = screen(vec![one.clone()], Layout::default());
    assert!(text.starts_with("no odd host: 6 hosts judged\n"), "{text}");
    assert!(text.contains("cases    2 of 3 cases judged"), "{text}");
    one.not_judged = vec![abstains(Some(number("a.c", None, 1.0).subject))];
    assert_eq!(one.judged_cases(), 1);
    one.not_judged.push(abstains(None));
    let text = screen(vec![one.clone()], Layout::default());
    assert!(text.starts_with("6 hosts: no odd fact; numbers not judged: see below\n"), "{text}");
    assert!(text.contains("  all cases: why\n"), "{text}");
    (one.not_judged, one.cases) = (Vec::new(), Vec::new());
    let text = screen(vec![one], Layout::default());
    let why = "numbers not judged: no case has a valid number on 5 hosts\n";
    assert!(text.starts_with(&format!("6 hosts: no odd fact; {why}")), "{text}");
}

#[test]
fn bad_hosts_and_bad_links_are_named_apart() {
    let mut pairs = Pairs {
        hosts: 6,
        links: 15,
        usual: Some(50_000.0),
        bad_hosts: vec![BadHost { host: 4, sends: Some(1.5), receives: None }],
        bad_links: vec![BadLink { hosts: [1, 2], there: Some(2.0), back: None }],
        not_judged: Vec::new(),
        few_links: vec![5],
    };
    let shown = |pairs: &Pairs| {
        let matrix = Matrix {
            metric: MetricId::new("network.tcp.rtt"),
            params: Params::none(),
            unit: Unit::Nanoseconds,
            better: Better::Lower,
            hosts: hosts(1..=6),
            numbers: Vec::new(),
            noisy: 0,
            not_valid: 0,
            pairs: pairs.clone(),
        };
        let groups = vec![group(hosts(1..=6), Vec::new())];
        plain(&render(&Judgement { hosts: 6, groups, between: vec![matrix] }, &Layout::default()))
    };
    let text = shown(&pairs);
    assert!(text.starts_with("1 of 6 hosts is odd: node5; bad link: node2 – node3\n"), "{text}");
    for part in [
        "Between hosts: network.tcp.rtt\n  15 links, usual 50.00 µs\n",
        "  node5: sends 1.500\n",
        "  bad link: node2 to node3 2.000\n",
        "  not judged: too few links: node6\n",
    ] {
        assert!(text.contains(part), "{text}");
    }
    pairs.bad_hosts.clear();
    let text = shown(&pairs);
    assert!(text.starts_with("no odd host of 6 hosts; bad link: node2 – node3\n"), "{text}");
    assert!(text.contains("  next: `ssh node2 mtr -rwc 100 node3`"), "{text}");
    pairs.bad_links.clear();
    let again = "  next: `fathom fleet pairs --at-once 1 --thorough --hosts 'node[1-6]'`";
    assert!(shown(&pairs).contains(again), "{}", shown(&pairs));
}
