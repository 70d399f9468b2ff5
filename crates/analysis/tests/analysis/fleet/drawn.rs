//! What is drawn of many hosts: strips, and matrices of numbers between them.

use fathom_analysis::fleet::{FleetSubject, Matrix, strips};
use fathom_record::{Better, Cause, Document, FarHost, Params, State, Unit, Verdict};

use super::synthetic::{deviation, fleet, judged, time};

#[test]
fn strip_has_the_number_and_state_of_each_host() {
    let mut hosts = fleet(7, |at| vec![time("os.a", 100.0 + at as f64)]);
    hosts[1].records[0].verdict = Verdict::because(State::Noisy, Cause::Spread, "wide");
    hosts[2].records[0].verdict = Verdict::because(State::Failed, Cause::Crashed, "gone");
    hosts[3].records.clear();
    let runs: Vec<&Document> = hosts.iter().collect();
    let subject = FleetSubject {
        metric: hosts[0].records[0].metric.clone(),
        params: Params::none(),
        far: None,
        cases: None,
    };
    let other = FleetSubject { params: Params::one("x", 1), ..subject.clone() };
    let drawn = strips(&runs, &|_, newest| {
        assert_eq!(newest.len(), 7);
        vec![other.clone(), subject.clone()]
    });
    let strip = &drawn[0].strips[0];
    assert_eq!((drawn.len(), drawn[0].strips.len()), (1, 1));
    let numbers: Vec<i64> =
        strip.numbers.iter().map(|it| it.map_or(0, |it| it.round() as i64)).collect();
    assert_eq!(numbers, [100, 101, 0, 0, 104, 105, 106]);
    let [valid, noisy, failed] = [State::Valid, State::Noisy, State::Failed].map(Some);
    assert_eq!(strip.states, [valid, noisy, failed, None, valid, valid, valid]);
    assert!((strip.median - 104.5).abs() < 0.01, "of the valid ones: {}", strip.median);
    assert_eq!((drawn[0].counts[0].valid, drawn[0].counts[3].valid), (1, 0));
}

/// Each of `hosts` measures to each other one; one link is slow, and one host sends slowly.
fn tournament(hosts: usize) -> Vec<Document> {
    let bare = fleet(hosts, |_| Vec::new());
    let mut all = bare.clone();
    for (from, run) in all.iter_mut().enumerate() {
        for (to, far) in bare.iter().enumerate().filter(|(to, _)| *to != from) {
            let name = far.host.name.clone();
            run.far.push(FarHost { name: name.clone(), host: far.host.clone(), clock: None });
            let is_slow = [from.min(to), from.max(to)] == [1, 2];
            let own = 1.0 + 0.01 * deviation((3 * from + 5 * to) % hosts, hosts);
            let of = |to: &str| Params::one("mode", "block").and("to", to);
            let mut trip = time("network.tcp.rtt", 100.0 * own * if is_slow { 1.4 } else { 1.0 });
            trip.params = of(&name);
            let mut rate =
                time("network.tcp.bandwidth", 1e9 * own * if from == 4 { 0.5 } else { 1.0 });
            (rate.better, rate.unit) = (Better::Higher, Unit::BytesPerSecond);
            rate.params = Params::one("direction", "send").and("to", name.as_str());
            run.records.extend([trip, rate]);
        }
        // Measured to itself over loopback, which is between no hosts.
        run.records.push(time("network.tcp.rtt", 1.0));
    }
    all
}

#[test]
fn matrix_names_the_bad_link_and_the_bad_host() {
    let judgement = judged(&tournament(10));
    // A bad link is no odd host.
    assert!(judgement.is_any_odd() && judgement.is_any_judged(true));
    assert!(judgement.groups[0].odd.is_empty(), "{:?}", judgement.groups[0].odd);
    let found = judgement.between;
    let [trips, rates] = &found[..] else { panic!("{} matrices", found.len()) };
    assert_eq!((trips.hosts.len(), trips.numbers.len()), (10, 90));
    assert_eq!(trips.hosts[9], "node10");
    assert_eq!(trips.params, Params::one("mode", "block"));
    let links: Vec<[usize; 2]> = trips.pairs.bad_links.iter().map(|it| it.hosts).collect();
    assert_eq!((links, trips.pairs.bad_hosts.len()), (vec![[1, 2]], 0));
    let bad = &rates.pairs.bad_hosts;
    assert_eq!((bad.len(), bad[0].host, bad[0].receives), (1, 4, None));
    assert!((bad[0].sends.unwrap() - 0.5).abs() < 0.02, "{bad:?}");
    assert!(rates.pairs.bad_links.is_empty() && rates.params == Params::none());
}

#[test]
fn received_rate_is_from_the_far_host() {
    let mut hosts = tournament(10);
    for record in hosts.iter_mut().flat_map(|run| &mut run.records) {
        if record.metric.as_str() == "network.tcp.bandwidth" {
            record.params = record.params.clone().and("direction", "receive");
        }
    }
    let between = |hosts: &[Document]| -> Vec<Matrix> { judged(hosts).between };
    let bad = between(&hosts).remove(1).pairs.bad_hosts;
    assert_eq!((bad[0].host, bad[0].sends), (4, None), "it receives slowly, as others see it");
    let few = between(&tournament(4));
    assert_eq!((few[0].numbers.len(), few[0].pairs.usual), (12, None), "drawn, and not judged");
    assert_eq!(few[0].pairs.not_judged.len(), 1);
    assert!(between(&tournament(4)[..1]).is_empty(), "one host that measures to others");
    // All to one of them, which measures to nobody: a case of each host.
    for (at, run) in hosts.iter_mut().enumerate() {
        run.records.retain(|it| at > 0 && it.params.text("to") == Some("node1"));
        run.far.retain(|_| at > 0);
    }
    let star = judged(&hosts);
    assert_eq!(star.groups[0].cases.iter().map(|case| case.valid).collect::<Vec<_>>(), [9, 9]);
    assert!(star.between.is_empty());
}
