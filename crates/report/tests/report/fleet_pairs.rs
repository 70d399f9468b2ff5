//! Numbers between hosts on the screen: which are bad, and whether a host or a link is.

use fathom_analysis::fleet::pairs::{Directed, judge};
use fathom_analysis::fleet::{Judgement, Matrix};
use fathom_record::{Better, MetricId, Params, Unit};
use fathom_report::fleet::render;

use crate::fixture::{assert_fits, layout, plain};
use crate::fleet::{group, hosts};

/// Each to each other one: 1 % apart, times what is wrong.
fn matrix(
    count: usize,
    (metric, unit, better, usual): (&str, Unit, Better, f64),
    wrong: impl Fn(usize, usize) -> f64,
) -> Matrix {
    let pairs = (0..count).flat_map(|from| (0..count).map(move |to| (from, to)));
    let value = |from: usize, to: usize| {
        let place = ((5 * from + 3 * to) % 11) as f64 / 11.0;
        usual * (0.995 + 0.01 * place) * wrong(from, to)
    };
    let numbers: Vec<(usize, usize, f64)> = pairs
        .filter(|(from, to)| from != to)
        .map(|(from, to)| (from, to, value(from, to)))
        .collect();
    let directed = numbers.iter().filter_map(|it| Directed::new(it.0, it.1, it.2, 0.003));
    Matrix {
        metric: MetricId::new(metric),
        params: Params::none(),
        unit,
        better,
        hosts: hosts(1..=count),
        pairs: judge(count, &directed.collect::<Vec<_>>(), better),
        numbers,
        noisy: 0,
        not_valid: 0,
    }
}

const TRIP: (&str, Unit, Better, f64) =
    ("network.tcp.rtt", Unit::Nanoseconds, Better::Lower, 93_000.0);
const RATE: (&str, Unit, Better, f64) =
    ("network.tcp.bandwidth", Unit::BytesPerSecond, Better::Higher, 12_500_000.0);

fn screen(count: usize, between: Vec<Matrix>, width: usize) -> String {
    let groups = vec![group(hosts(1..=count), Vec::new())];
    plain(&render(&Judgement { hosts: count, groups, between }, &layout(width)))
}

/// The verdict, and what follows the hosts.
fn parts(text: &str) -> (&str, &str) {
    let verdict = text.lines().next().unwrap_or_default();
    (verdict, text.split_once("\nBetween hosts: ").map_or("", |(_, between)| between))
}

#[test]
fn bad_link_is_no_bad_host() {
    let slow = |from, to| if [from, to] == [1, 2] || [from, to] == [2, 1] { 54.0 } else { 1.0 };
    let text = screen(6, vec![matrix(6, TRIP, slow)], 80);
    let (verdict, between) = parts(&text);
    assert_eq!(verdict, "no odd host of 6 hosts; bad link: node2 – node3");
    assert_eq!(between, LINK, "{text}");
}

const LINK: &str = "\
network.tcp.rtt
  15 links, usual 93.08 µs, best 92.53 µs (node3 to node5), median 93.04 µs,
    worst 5.006 ms (node3 to node2)
  from       node1      node2      node3      node4      node5      node6
  node1              92.79 µs   93.04 µs   93.30 µs   92.62 µs   92.87 µs
  node2   92.96 µs              4.997 ms   92.79 µs   93.04 µs   93.30 µs
  node3   93.38 µs   5.006 ms              93.21 µs   92.53 µs   92.79 µs
  node4   92.87 µs   93.13 µs   93.38 µs              92.96 µs   93.21 µs
  node5   93.30 µs   92.62 µs   92.87 µs   93.13 µs              92.70 µs
  node6   92.79 µs   93.04 µs   93.30 µs   92.62 µs   92.87 µs
  bad link: node2 to node3 53.46, node3 to node2 53.71
  next: `ssh node2 mtr -rwc 100 node3`; then `fathom fleet pairs --hosts
    node2,node3`
";

#[test]
fn bad_host_is_named_once() {
    let slow = |from, _| if from == 4 { 0.95 } else { 1.0 };
    let text = screen(6, vec![matrix(6, TRIP, |_, _| 1.0), matrix(6, RATE, slow)], 80);
    let (verdict, between) = parts(&text);
    assert_eq!(verdict, "1 of 6 hosts is odd: node5");
    let (_, between) = between.split_once("\nBetween hosts: ").expect("two matrices");
    assert_eq!(between, HOST, "{text}");
}

const HOST: &str = "\
network.tcp.bandwidth
  15 links, usual 11.91 MiB/s, best 11.97 MiB/s (node4 to node3), median
    11.90 MiB/s, worst 11.28 MiB/s (node5 to node2)
  from       node1      node2      node3      node4      node5      node6
  node1            11.9 MiB/s 11.9 MiB/s 12.0 MiB/s 11.9 MiB/s 11.9 MiB/s
  node2 11.9 MiB/s            11.9 MiB/s 11.9 MiB/s 11.9 MiB/s 12.0 MiB/s
  node3 12.0 MiB/s 11.9 MiB/s            11.9 MiB/s 11.9 MiB/s 11.9 MiB/s
  node4 11.9 MiB/s 11.9 MiB/s 12.0 MiB/s            11.9 MiB/s 11.9 MiB/s
  node5 11.4 MiB/s 11.3 MiB/s 11.3 MiB/s 11.3 MiB/s            11.3 MiB/s
  node6 11.9 MiB/s 11.9 MiB/s 12.0 MiB/s 11.9 MiB/s 11.9 MiB/s
  node5: sends 0.948
  next: `ssh node5 fathom doctor`
";

#[test]
fn equal_hosts_and_links_are_not_bad() {
    let text = screen(6, vec![matrix(6, TRIP, |_, _| 1.0), matrix(6, RATE, |_, _| 1.0)], 80);
    assert_eq!(parts(&text).0, "no odd host and no bad link: 6 hosts judged");
    // Too few to be judged are shown.
    let text = screen(3, vec![matrix(3, TRIP, |_, _| 1.0)], 80);
    let why = "not judged: 0 of 3 hosts have at least 3 links each way: at least 6 are needed";
    assert!(text.contains(why) && text.contains("  node3 "), "{text}");
    assert!(text.starts_with("3 hosts: nothing judged"), "{text}");
}

#[test]
fn matrix_of_many_hosts_is_folded() {
    let slow = |from: usize, to: usize| match [from.min(to), from.max(to)] {
        [6, 30] => 3.0,
        _ => 1.0,
    };
    for width in [60, 80, 140] {
        let text = screen(40, vec![matrix(40, TRIP, slow)], width);
        assert_fits(&text, width);
        let (verdict, between) = parts(&text);
        assert_eq!(verdict, "no odd host of 40 hosts; bad link: node7 – node31");
        assert!(between.lines().count() < 8, "{width}: {between}");
        let words = between.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(words.contains("780 links, usual ") && words.contains(", worst "), "{words}");
    }
}
