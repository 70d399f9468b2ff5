//! What limits canned steps of a server that does not report itself.

use fathom_analysis::load::{Name, SweepPoint};

use super::super::tests::POINT;
use super::super::{Limit, word};
use super::*;
use crate::capacities::Capacities;

const LEVEL: f64 = 100.0;

/// What a server does in a second at saturation.
#[derive(Clone, Copy, Default)]
struct LocalSeen {
    /// Shares of the time of its busiest thread.
    cpu: f64,
    wait: f64,
    blocked: f64,
    /// Of the clients in a response, those whose data are under way.
    sending: f64,
    device_bytes: Option<u64>,
    /// It is as busy without requests.
    spins: bool,
}

/// Levels off at 100 requests of 10 kB per second from 8 clients on, or not at all.
fn limit(seen: LocalSeen, knee: f64, think_s: f64) -> Limit {
    let sweep = |clients: f64, noise: f64| {
        let throughput = (LEVEL * clients / knee).min(LEVEL) * noise;
        let load = if seen.spins { 1.0 } else { throughput / LEVEL };
        let response_s = clients / throughput - think_s;
        let looks = Looks {
            threads: 1_000,
            blocked: (1e3 * seen.blocked * load) as u64,
            sockets: 1_000,
            sending: (1e3 * seen.sending * throughput * response_s) as u64,
            device_bytes: seen.device_bytes,
        };
        let server = ServerUse {
            wall_ns: 1_000_000_000,
            cpu_ns: (1e9 * seen.cpu * load) as u64,
            reactor_ns: (1e9 * seen.cpu * load) as u64,
            reactor_wait_ns: (1e9 * seen.wait * load) as u64,
            reactors: 1,
            cpus: 2.0,
            bytes_sent: (1e4 * throughput) as u64,
            disk_bytes: seen.device_bytes,
            looks: Some(looks),
            ..ServerUse::default()
        };
        MeasuredSweep {
            point: SweepPoint { throughput, response_s },
            received_s: 0.0,
            server: Some(server),
            client_share: 0.1,
            client_waiting: 0.0,
            others: None,
        }
    };
    let step = |clients: u32| {
        let mut step = MeasuredStep::new(clients);
        step.by_sweep = [0.999, 1.0, 1.001].map(|noise| sweep(f64::from(clients), noise)).to_vec();
        step
    };
    let steps: Vec<MeasuredStep> = [1, 2, 4, 8, 16, 32].map(step).into();
    Limit::from_steps(
        &steps.iter().collect::<Vec<_>>(),
        &[POINT; 6],
        think_s,
        &Capacities::default(),
    )
}

fn name(seen: LocalSeen) -> (&'static str, String) {
    let limit = limit(seen, 8.0, 0.0);
    let why = match &limit.name {
        Name::Undetermined(why) => why.clone(),
        Name::Resource(_) | Name::Serial => String::new(),
    };
    (word(&limit.name), why)
}

const READS: Option<u64> = Some(1_000_000);

#[test]
fn busy_thread_disk_or_network_has_its_name() {
    let busy = LocalSeen { cpu: 0.97, sending: 0.1, device_bytes: Some(0), ..LocalSeen::default() };
    assert_eq!(name(busy).0, "server-cpu", "one of two CPUs");
    // The last bytes of a response are acknowledged late, which is not the network.
    assert_eq!(name(LocalSeen { sending: 0.8, ..busy }).0, "server-cpu");
    let disk = LocalSeen { cpu: 0.02, blocked: 0.95, sending: 0.5, device_bytes: READS, ..busy };
    assert_eq!(name(disk).0, "disk");
    let network = LocalSeen { cpu: 0.02, sending: 0.97, ..busy };
    assert_eq!(name(network).0, "network");
    let both = name(LocalSeen { sending: 0.97, ..busy });
    assert!(both.0 == "undetermined" && both.1.ends_with("too close to tell"), "{both:?}");
}

#[test]
fn what_is_not_seen_has_no_name() {
    let idle = LocalSeen { cpu: 0.1, device_bytes: Some(0), ..LocalSeen::default() };
    let why = |seen: LocalSeen| {
        let (name, why) = name(seen);
        assert_eq!(name, "undetermined", "{why}");
        why
    };
    assert!(why(idle).starts_with("none of its processes is busy: a lock"));
    let turns = "a thread of the server computes 40 % and waits for the disk 50 % of the time";
    assert_eq!(why(LocalSeen { cpu: 0.4, blocked: 0.5, device_bytes: READS, ..idle }), turns);
    assert_eq!(why(LocalSeen { wait: 0.3, ..idle }), "an end waits for a CPU 30 % of the time");
    // Blocked, but not by bytes of a device; or unknown.
    let blocked = LocalSeen { blocked: 0.95, ..idle };
    assert_eq!(why(blocked), "utilisation unknown: disk");
    assert_eq!(why(LocalSeen { device_bytes: None, ..blocked }), "utilisation unknown: disk");
    let hardly = LocalSeen { cpu: 0.97, blocked: 0.1, device_bytes: None, ..idle };
    assert_eq!(name(hardly).0, "server-cpu");
}

#[test]
fn long_way_is_no_limit_while_throughput_grows() {
    let far = LocalSeen { cpu: 0.05, sending: 0.99, device_bytes: Some(0), ..LocalSeen::default() };
    let limit = limit(far, 64.0, 0.0);
    let Name::Undetermined(why) = &limit.name else { panic!("{:?}", limit.name) };
    assert_eq!(why, "not saturated up to 32 clients");
}

#[test]
fn late_acknowledgements_of_thinking_clients_are_no_network() {
    // 32 clients, of which 12 wait for a response.
    let sending = 4.0 / 12.0;
    let seen = LocalSeen { cpu: 0.1, sending, device_bytes: Some(0), ..LocalSeen::default() };
    let limit = limit(seen, 28.0, 0.2);
    let network = limit.uses[0].utilisation.expect("known");
    assert!(network.low() < 0.01 && network.high() > 0.33, "{network:?}");
}

#[test]
fn names_on_loopback_are_not_the_network() {
    let seen =
        LocalSeen { cpu: 0.02, sending: 0.97, device_bytes: Some(0), ..LocalSeen::default() };
    let limit = limit(seen, 8.0, 0.0);
    let Name::Undetermined(why) = limit.standing(true, None) else { panic!("{:?}", limit.name) };
    assert!(why.starts_with("responses wait in the sockets of loopback"), "{why}");
    assert_eq!(word(&limit.standing(false, None)), "network");
}

#[test]
fn sweeps_with_more_clients_weigh_more() {
    let step = |clients: u32, seen: [(u64, u64); 3]| {
        let mut step = MeasuredStep::new(clients);
        let sweep = |(sockets, sending): (u64, u64)| MeasuredSweep {
            point: SweepPoint { throughput: 100.0, response_s: f64::from(clients) / 100.0 },
            received_s: 0.0,
            server: Some(ServerUse {
                looks: Some(Looks { sockets, sending, ..Looks::default() }),
                ..ServerUse::default()
            }),
            client_share: 0.1,
            client_waiting: 0.0,
            others: None,
        };
        step.by_sweep = seen.map(sweep).to_vec();
        step
    };
    let few = step(1, [(3, 1), (3, 2), (0, 0)]);
    let many = step(16, [(3, 47), (3, 46), (3, 48)]);
    let found = network(&[&few, &many], 0.0).expect("known");
    // 144 of 150 connections, by five sweeps.
    assert!((found.value - 144.0 / 150.0).abs() < 1e-9, "{found:?}");
    assert!(found.low() > 0.85 && found.high() < 1.05, "{found:?}");
    assert_eq!(network(&[&step(1, [(0, 0); 3])], 0.0), None);
}

#[test]
fn steps_with_few_clients_are_no_evidence() {
    let steps = [1, 2, 4, 8].map(MeasuredStep::new);
    let found = loaded(&steps.iter().collect::<Vec<_>>());
    let clients: Vec<u32> = found.iter().map(|step| step.clients).collect();
    assert_eq!(clients, [2, 4, 8]);
    assert!(loaded(&[]).is_empty());
}

#[test]
fn work_that_requests_do_not_cause_is_no_limit() {
    let spinning =
        LocalSeen { cpu: 0.97, device_bytes: Some(0), spins: true, ..LocalSeen::default() };
    let why = "server CPU is as busy with 1 client and 12 % of the throughput".to_owned();
    assert_eq!(name(spinning), ("undetermined", why));
    // One that writes back all the time, or a disk that can do more at once.
    let writing = LocalSeen { cpu: 0.1, blocked: 0.95, device_bytes: READS, ..spinning };
    let why = "disk is as busy with 1 client and 12 % of the throughput".to_owned();
    assert_eq!(name(writing), ("undetermined", why));
    // One client may be enough.
    let limit = limit(LocalSeen { cpu: 0.97, ..spinning }, 1.0, 0.0);
    assert_eq!(word(&limit.name), "server-cpu");
}
