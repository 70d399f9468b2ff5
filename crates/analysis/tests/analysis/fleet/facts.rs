//! Facts in which a host differs, and groups by hardware.

use fathom_analysis::fleet::OddFact;
use fathom_record::host::{MemoryModule, NetworkLink};
use fathom_record::{Document, Host};

use super::synthetic::{fleet, group, judged};

const GIB: u64 = 1 << 30;

fn module(slot: usize, size: u64, rate: f64) -> MemoryModule {
    MemoryModule {
        slot: slot.to_string(),
        size_bytes: size,
        kind: Some("DDR5".to_owned()),
        transfers_per_s: Some(rate * 1e6),
    }
}

/// Servers with eight modules and two links each. What the kernel reserves differs.
fn servers(hosts: usize) -> Vec<Document> {
    let mut fleet = fleet(hosts, |_| Vec::new());
    for (at, run) in fleet.iter_mut().enumerate() {
        let host = &mut run.host;
        host.memory.total_bytes = Some(250 * GIB + at as u64 * (GIB >> 5));
        host.memory.modules = (0..8).map(|slot| module(slot, 32 * GIB, 4800.0)).collect();
        let link = NetworkLink {
            driver: Some("mlx5_core".to_owned()),
            bits_per_s: Some(25_000_000_000),
            up: Some(true),
            ..NetworkLink::default()
        };
        host.network = vec![link.clone(), link];
    }
    fleet
}

fn changed(at: usize, change: impl Fn(&mut Host)) -> Vec<Document> {
    let mut fleet = servers(20);
    change(&mut fleet[at].host);
    fleet
}

fn fact(fact: &str, value: &str, usual: &str) -> OddFact {
    let [fact, value, usual] = [fact, value, usual].map(str::to_owned);
    OddFact { fact, value, usual, hosts: 19, of: 20 }
}

#[test]
fn fact_of_one_host_is_odd_with_both_values() {
    let mut fleet = servers(20);
    for run in &mut fleet {
        run.host.cpu.governor = Some("performance".to_owned());
        run.host.cpu.smt = Some(true);
        run.host.cpu.boost = None;
        run.host.tcp.congestion = Some("cubic".to_owned());
    }
    assert!(group(&fleet).odd.is_empty());
    let host = &mut fleet[4].host;
    host.cpu.governor = Some("powersave".to_owned());
    host.cpu.smt = Some(false);
    host.tcp.congestion = None;
    // Of the others it is not known whether boost is on.
    host.cpu.boost = Some(false);
    let group = group(&fleet);
    assert_eq!((group.odd.len(), group.odd[0].host.as_str()), (1, "node5"));
    let expected = [fact("SMT", "off", "on"), fact("governor", "powersave", "performance")];
    assert_eq!(group.odd[0].facts, expected);
    assert!(group.odd[0].numbers.is_empty());
}

#[test]
fn facts_that_differ_everywhere_are_not_odd() {
    let mut fleet = servers(20);
    for (at, run) in fleet.iter_mut().enumerate() {
        run.host.kernel_command_line = Some(format!("root=UUID={at}"));
        run.host.kernel = if at % 4 == 0 { "6.1" } else { "6.8" }.to_owned();
    }
    assert!(group(&fleet).odd.is_empty(), "three quarters are no 80 %");
    for (at, run) in fleet.iter_mut().enumerate() {
        run.host.kernel = if at % 5 == 0 { "6.1" } else { "6.8" }.to_owned();
    }
    assert_eq!(group(&fleet).odd.len(), 4, "80 % are");
}

#[test]
fn slow_modules_and_links_are_odd() {
    let slow = changed(4, |host| {
        host.memory.modules.iter_mut().for_each(|it| it.transfers_per_s = Some(2.933e9));
        host.network[1].bits_per_s = Some(10_000_000_000);
        host.network[0].driver = Some("other".to_owned());
        host.mitigations.insert("meltdown".to_owned(), "Vulnerable".to_owned());
    });
    let facts = group(&slow).odd[0].facts.clone();
    let expected = [
        fact("NIC driver", "1 × mlx5_core, 1 × other", "2 × mlx5_core"),
        fact("link speed", "1 × 10 Gbit/s, 1 × 25 Gbit/s", "2 × 25 Gbit/s"),
        fact("memory speed", "8 × 2933 MT/s", "8 × 4800 MT/s"),
    ];
    assert!(expected.iter().all(|one| facts.contains(one)), "{facts:#?}");
}

#[test]
fn host_with_missing_modules_keeps_the_facts_of_its_kind() {
    let half = changed(4, |host| {
        host.memory.modules.truncate(4);
        host.memory.total_bytes = Some(125 * GIB);
    });
    let judgement = judged(&half);
    let sizes: Vec<usize> = judgement.groups.iter().map(|it| it.hosts.len()).collect();
    assert_eq!(sizes, [19, 1]);
    let alone = &judgement.groups[1];
    assert_eq!(alone.not_judged[0].reason, "1 host: at least 5 are needed");
    let facts = &alone.odd[0].facts;
    let modules = facts.iter().find(|it| it.fact == "memory modules").unwrap();
    assert_eq!(
        (modules.value.as_str(), modules.usual.as_str()),
        ("4 × 32 GiB DDR5", "8 × 32 GiB DDR5")
    );
    assert_eq!((modules.hosts, modules.of), (19, 19));
    // Another CPU is no kin.
    let mut other = half;
    other[4].host.cpu.model = "another".to_owned();
    assert!(judged(&other).groups[1].odd.is_empty());
}

#[test]
fn hardware_makes_groups() {
    let groups = |change: &dyn Fn(usize, &mut Host)| {
        let mut fleet = servers(20);
        fleet.iter_mut().enumerate().for_each(|(at, run)| change(at, &mut run.host));
        judged(&fleet).groups.iter().map(|it| it.hosts.len()).collect::<Vec<_>>()
    };
    assert_eq!(groups(&|_, _| {}), [20], "what kernels reserve is no difference");
    let of_first = |change: fn(&mut Host)| {
        move |at: usize, host: &mut Host| {
            if at < 8 {
                change(host)
            }
        }
    };
    assert_eq!(groups(&of_first(|host| host.cpu.model = "x".to_owned())), [12, 8]);
    assert_eq!(groups(&of_first(|host| host.virtualization = Some("none".to_owned()))), [12, 8]);
    assert_eq!(groups(&of_first(|host| host.memory.total_bytes = Some(500 * GIB))), [12, 8]);
    assert_eq!(groups(&of_first(|host| host.memory.modules.truncate(4))), [12, 8]);
    assert_eq!(groups(&of_first(|host| host.memory.modules.clear())), [20], "only root reads them");
    let shape = |smt: bool| {
        move |host: &mut Host| {
            let cpus = |node: u32| match smt {
                true => (0..8).map(|at| 8 * node + at).collect::<Vec<u32>>(),
                false => (0..4).map(|at| 8 * node + 2 * at).collect(),
            };
            host.cpu.numa = (0..2).map(|node| (node, cpus(node))).collect();
            let core = |core: u32| vec![2 * core, 2 * core + 1];
            host.cpu.siblings = if smt { (0..8).map(core).collect() } else { Vec::new() };
        }
    };
    let smt = |at: usize, host: &mut Host| shape(at < 8)(host);
    assert_eq!(groups(&smt), [20], "cores are the same with SMT on and off");
    let nodes = |at: usize, host: &mut Host| {
        shape(true)(host);
        if at < 8 {
            let all = host.cpu.numa.values().flatten().copied().collect();
            host.cpu.numa = [(0, all)].into();
        }
    };
    assert_eq!(groups(&nodes), [12, 8]);
}
