//! Hosts and links apart.

use fathom_analysis::fleet::pairs::{BadHost, BadLink, Directed, Pairs, judge};
use fathom_analysis::fleet::tournament;
use fathom_record::{Better, Cause, State, Verdict};
use proptest::prelude::*;

use super::synthetic::{deviation, time};

/// Round trips of a network in which hosts differ by 1 % and links by 0.5 %, in no order, times
/// what `factor` says.
fn network(hosts: usize, factor: impl Fn(usize, usize) -> f64) -> Vec<Directed> {
    let mut numbers = Vec::new();
    for [a, b] in tournament(hosts, 7).into_iter().flat_map(|round| round.pairs) {
        for (from, to) in [(a, b), (b, a)] {
            let off =
                0.01 * (deviation(from * 7 % hosts, hosts) + deviation(to * 5 % hosts, hosts));
            let of_link = 0.005 * deviation((from * to * 13 + from + to) % 101, 101);
            let value = 1e4 * (1.0 + off) * (1.0 + of_link) * factor(from, to);
            numbers.extend(Directed::new(from, to, value, 0.001));
        }
    }
    numbers
}

fn is(link: [usize; 2], from: usize, to: usize) -> bool {
    link == [from.min(to), from.max(to)]
}

fn rtt(hosts: usize, numbers: &[Directed]) -> Pairs {
    judge(hosts, numbers, Better::Lower)
}

#[test]
fn exact_terms_are_taken_apart() {
    // Host 3 sends 2 times and receives 3 times as slowly; the link of 1 and 2 takes 5 times.
    let value = |from: usize, to: usize| {
        let of_hosts = [1.0, 2.0][usize::from(from == 3)] * [1.0, 3.0][usize::from(to == 3)];
        1e4 * of_hosts * [1.0, 5.0][usize::from(is([1, 2], from, to))]
    };
    let all = (0..12).flat_map(|from| (0..12).map(move |to| (from, to)));
    let numbers: Vec<Directed> =
        all.filter_map(|(from, to)| Directed::new(from, to, value(from, to), 0.001)).collect();
    assert_eq!(numbers.len(), 12 * 11);
    let Pairs { usual, bad_hosts, bad_links, not_judged, links, .. } = rtt(12, &numbers);
    let close = |a: Option<f64>, b: f64| a.is_some_and(|a| (a / b - 1.0).abs() < 1e-9);
    assert!(close(usual, 1e4) && links == 66 && not_judged.is_empty());
    let [BadHost { host: 3, sends, receives }] = bad_hosts[..] else { panic!("{bad_hosts:?}") };
    assert!(close(sends, 2.0) && close(receives, 3.0));
    let [BadLink { hosts: [1, 2], there, back }] = bad_links[..] else { panic!("{bad_links:?}") };
    assert!(close(there, 5.0) && close(back, 5.0));
}

#[test]
fn bad_link_blames_no_host() {
    for hosts in [8, 9, 50, 100] {
        let found = rtt(hosts, &network(hosts, |a, b| if is([1, 2], a, b) { 1.3 } else { 1.0 }));
        assert!(found.bad_hosts.is_empty() && found.not_judged.is_empty(), "{found:?}");
        // Above 64 hosts most pairs do not meet.
        let meets =
            tournament(hosts, 7).iter().any(|it| it.pairs.iter().any(|p| is([1, 2], p[0], p[1])));
        let links: Vec<[usize; 2]> = found.bad_links.iter().map(|it| it.hosts).collect();
        assert_eq!(links, if meets { vec![[1, 2]] } else { vec![] }, "{hosts} hosts");
    }
    let one_way = rtt(50, &network(50, |a, b| if (a, b) == (2, 1) { 1.3 } else { 1.0 }));
    let [BadLink { hosts: [1, 2], there: None, back: Some(_) }] = one_way.bad_links[..] else {
        panic!("{:?}", one_way.bad_links)
    };
}

#[test]
fn slow_host_is_blamed_once() {
    let found = rtt(50, &network(50, |a, b| if a == 4 || b == 4 { 1.3 } else { 1.0 }));
    let hosts: Vec<usize> = found.bad_hosts.iter().map(|it| it.host).collect();
    assert_eq!((hosts, found.bad_links.len()), (vec![4], 0));
    let [BadHost { sends: Some(sends), receives: Some(_), .. }] = found.bad_hosts[..] else {
        panic!("{:?}", found.bad_hosts)
    };
    assert!((sends - 1.3).abs() < 0.02, "{sends}");
}

#[test]
fn better_is_not_bad() {
    let fast = |a, b| if a == 4 || b == 4 || is([1, 2], a, b) { 0.7 } else { 1.0 };
    let numbers = network(50, fast);
    let found = rtt(50, &numbers);
    assert!(found.bad_hosts.is_empty() && found.bad_links.is_empty());
    // Of a rate, less is worse.
    let rate = judge(50, &numbers, Better::Higher);
    assert_eq!((rate.bad_hosts.len(), rate.bad_links.len()), (1, 1));
}

#[test]
fn link_of_95_percent_is_named_among_six_hosts() {
    // As six hosts behind links of 100 Mbit/s were: their rates differ by a thousandth.
    let rate = |from: usize, to: usize| {
        let spread = 1.0 + 0.001 * deviation((from * to * 13 + from + to) % 7, 7);
        11.4e6 * spread * if from == 4 { 0.95 } else { 1.0 }
    };
    let all = (0..6).flat_map(|from| (0..6).map(move |to| (from, to)));
    let mut numbers: Vec<Directed> =
        all.filter_map(|(from, to)| Directed::new(from, to, rate(from, to), 0.0004)).collect();
    for missing in [None, Some((4, 1)), Some((0, 5))] {
        numbers.retain(|it| Some((it.from, it.to)) != missing);
        let found = judge(6, &numbers, Better::Higher);
        let [BadHost { host: 4, sends: Some(sends), receives: None }] = found.bad_hosts[..] else {
            panic!("{found:?}")
        };
        assert!((sends - 0.95).abs() < 0.005 && found.bad_links.is_empty(), "{found:?}");
    }
}

#[test]
fn missing_pairs_leave_what_is_known() {
    let bad = |a, b| if is([1, 2], a, b) { 1.3 } else { 1.0 };
    let mut numbers = network(30, bad);
    numbers.retain(|it| {
        is([1, 2], it.from, it.to) || ((it.from + 1) * (it.to + 1) * 5 + it.from + it.to) % 4 != 0
    });
    let found = rtt(30, &numbers);
    assert_eq!((found.bad_links.len(), found.bad_hosts.len()), (1, 0), "{found:?}");
    // A host that is lost after two pairs each way is not judged.
    let mut pairs = 0;
    numbers.retain(|it| {
        let is_of = it.from == 9 || it.to == 9;
        pairs += usize::from(is_of);
        !is_of || pairs <= 4
    });
    let found = rtt(30, &numbers);
    assert_eq!((found.few_links.as_slice(), found.bad_links.len()), (&[9][..], 1));
}

#[test]
fn few_hosts_and_divided_networks_are_not_judged() {
    let five = rtt(5, &network(5, |a, b| if is([1, 2], a, b) { 9.0 } else { 1.0 }));
    assert!(five.bad_links.is_empty() && five.bad_hosts.is_empty());
    assert!(five.not_judged[0].starts_with("5 of 5 hosts have at least 3 links"), "{five:?}");
    assert_eq!(rtt(0, &[]).not_judged.len(), 1);
    // Two switches: half of the links cross.
    let crossing = rtt(40, &network(40, |a, b| if (a < 20) == (b < 20) { 1.0 } else { 1.4 }));
    assert!(crossing.bad_links.is_empty() && crossing.bad_hosts.is_empty());
    assert!(crossing.not_judged.iter().any(|it| it.starts_with("links: bimodal")), "{crossing:?}");
    // Half of the hosts have slow links.
    let halves = rtt(40, &network(40, |a, b| 1.2_f64.powi(i32::from(a < 20) + i32::from(b < 20))));
    assert!(halves.bad_hosts.is_empty());
    assert!(halves.not_judged.iter().any(|it| it.starts_with("sending: bimodal")), "{halves:?}");
}

#[test]
fn only_records_with_a_number_have_one_of_a_link() {
    let mut record = time("network.tcp.rtt", 2e4);
    assert_eq!(Directed::between(1, 1, &record), None, "itself");
    assert!(Directed::between(1, 2, &record).is_some());
    record.verdict = Verdict::because(State::Noisy, Cause::Spread, "wide");
    assert!(Directed::between(1, 2, &record).unwrap().is_noisy, "it is judged by its interval");
    record.verdict = Verdict::because(State::Invalid, Cause::WrongWork, "wrong");
    assert_eq!(Directed::between(1, 2, &record), None);
    assert_eq!(Directed::new(1, 2, 0.0, 0.1), None);
    assert_eq!(Directed::new(1, 2, f64::NAN, 0.1), None);
}

#[test]
fn noisy_numbers_of_six_hosts_judge_their_links() {
    // 12 of 30 are noisy by 10 %; one link has 3.4 instead of 11.4 MB/s, in noisy numbers, too.
    let numbers = |bad: bool| {
        let all = (0..6).flat_map(|from| (0..6).map(move |to| (from, to)));
        let number = |(from, to): (usize, usize)| {
            let is_noisy = (from * 6 + to) % 5 < 2;
            let off = if is_noisy { 0.1 } else { 0.005 } * deviation((from * to * 13 + to) % 7, 7);
            let rate = if bad && is([1, 2], from, to) { 3.4e6 } else { 11.4e6 };
            let own = if is_noisy { 0.15 } else { 0.004 };
            let mut number = Directed::new(from, to, rate * (1.0 + off), own)?;
            number.is_noisy = is_noisy;
            Some(number)
        };
        all.filter_map(number).collect::<Vec<_>>()
    };
    let found = judge(6, &numbers(true), Better::Higher);
    let links: Vec<[usize; 2]> = found.bad_links.iter().map(|it| it.hosts).collect();
    assert_eq!((links, found.bad_hosts.len(), found.not_judged.len()), (vec![[1, 2]], 0, 0));
    let healthy = judge(6, &numbers(false), Better::Higher);
    assert!(healthy.bad_links.is_empty() && healthy.bad_hosts.is_empty(), "{healthy:?}");
}

proptest! {
    #![proptest_config(crate::seeded(60))]

    #[test]
    fn scale_and_order_of_numbers_do_not_matter(
        hosts in 6..20_usize, scale in 1e-3..1e3_f64, turn in 0..99_usize,
    ) {
        let bad = |a, b| if is([1, 2], a, b) { 1.5 } else if a == 4 || b == 4 { 1.4 } else { 1.0 };
        let numbers = network(hosts, bad);
        let mut scaled = network(hosts, |a, b| scale * bad(a, b));
        let turn = turn % scaled.len();
        scaled.rotate_left(turn);
        let names = |found: &Pairs| {
            let links: Vec<_> = found.bad_links.iter().map(|it| it.hosts).collect();
            let hosts: Vec<_> = found.bad_hosts.iter().map(|it| it.host).collect();
            (links, hosts, found.not_judged.clone())
        };
        prop_assert_eq!(names(&rtt(hosts, &numbers)), names(&rtt(hosts, &scaled)));
    }
}
