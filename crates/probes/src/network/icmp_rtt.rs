//! network.icmp.rtt: an ICMP echo, which the kernel at the other end answers.

mod echo;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use fathom_measure::sampler::LOOPBACK;
use fathom_record::Counter;

use self::echo::Echo;
use super::FAR_END;
use super::near::{Near, check_cpu};
use crate::prelude::*;

metric!(IcmpRtt, ABOUT);

/// As ping's.
const BYTES: usize = 56;

pub(super) static ABOUT: About = About {
    id: "network.icmp.rtt",
    title: "ICMP echo",
    timed: "an ICMP or ICMPv6 echo request with this many bytes, until its reply is received: \
            send and recv. Includes one clock read and one histogram count for each echo, and \
            the timer of the time limit of recv",
    not_timed: "a process at the other end: its kernel answers",
    model: "a bound: ≥ 2 × os.syscall{call=getppid}, the calls of this end. The way to another \
            host has no model: network.tcp.rtt and network.udp.rtt are predicted from this",
    source: "Linux net/ipv4/icmp.c and net/ipv4/ping.c; RFC 792, RFC 4443",
    pitfalls: &[
        "on loopback the request is answered within the call that sends it: nothing sleeps, so \
         that it is no measure of TCP there",
        "routers and hosts may answer ICMP late, at a limited rate, or not at all: the minimum \
         and the standard deviation are in the record, and losses are counted. An echo without a \
         reply for 1 s is lost; above one and 1 % the result is invalid",
        "it needs a permission: an ICMP socket (net.ipv4.ping_group_range) or a raw socket \
         (CAP_NET_RAW). Without both the result is unavailable, and the minimum round trip time \
         by TCP_INFO takes its place in predictions",
        "replies to other programs arrive at a raw socket too: identifier, sequence number and \
         content must match",
    ],
    parameters: &[
        Parameter::new("bytes", "56", "after the header of 8 bytes"),
        Parameter::new(
            "to",
            "loopback, remote",
            "this host · another, by whose name it is recorded",
        ),
    ],
    needs: &["os.syscall"],
    requires: "net.ipv4.ping_group_range with a group of this user, or CAP_NET_RAW",
    cases_share_visits: false,
    ..FAR_END
};

pub(super) fn params(to: &str) -> Params {
    Params::one("bytes", BYTES as i64).and("to", to)
}

fn to_of(params: &Params) -> Option<String> {
    params.text("to").map(str::to_owned)
}

impl Probe for IcmpRtt {
    /// On loopback the reply is there before recv.
    fn expects(&self, case: &ProbeCase) -> Counters {
        match case.params.text("to") {
            Some(LOOPBACK) => Counters::from_counters(&[Counter::Interrupts]),
            _ => ABOUT.expects,
        }
    }

    fn cases(&self, _: &Host, _: &Sizes) -> Vec<ProbeCase> {
        vec![ProbeCase::usual(params(LOOPBACK))]
    }

    fn remote(&self, _: &ProbeCase, to: &str) -> Option<ProbeCase> {
        Some(ProbeCase { params: params(to), cost_ns: 100e6 })
    }

    fn predict(&self, _: &ProbeCase, _: &Host, known: &Inputs<'_>) -> Model {
        at_least_getppid(2.0, "send and recv of this end", known)
    }

    fn visit(&self, cases: &[ProbeCase], sampler: &mut Sampler) -> Result<()> {
        each_parsed(cases, sampler, to_of, |index, to, sampler| measure(index, &to, sampler))
    }
}

fn measure(case: usize, to: &str, sampler: &mut Sampler) -> Result<()> {
    let place = sampler.resources().far_end(to)?;
    let here = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);
    if place.address.is_none() {
        super::ends::check_loopback()?;
    }
    let mut echo = Echo::open(place.address.unwrap_or(here), place.bind)?;
    let kind = echo.kind();
    let mut near = Near::new(BYTES, |content| echo.trip(content));
    near.run(case, sampler);
    if let Some(fault) = near.fault(to) {
        sampler.explain(case, fault.clone());
        return Err(fault);
    }
    near.check_losses(case, sampler);
    check_cpu(case, sampler);
    sampler.state(case, Fact::text("socket", kind));
    let Some(timings) = sampler.timings(case) else { return Ok(()) };
    let time = |name, ns| Fact::quantity(name, ns, Unit::Nanoseconds);
    let facts =
        [time("minimum", timings.min()), time("standard deviation", timings.standard_deviation())];
    facts.into_iter().for_each(|fact| sampler.state(case, fact));
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::net::Ipv6Addr;

    use fathom_far::TripEnd;

    use super::*;
    use crate::smoke;

    #[test]
    fn echo_is_answered_by_the_kernel() {
        for (case, sample) in smoke::run(&IcmpRtt) {
            let Ok(sample) = sample else {
                return smoke::skipped("no permission for ICMP");
            };
            let names: Vec<&str> = sample.checks.iter().map(|it| it.name.as_str()).collect();
            assert_eq!(names, ["losses", "CPU"], "{}", case.params);
            let facts: Vec<&str> = sample.facts.iter().map(|fact| fact.name.as_str()).collect();
            assert_eq!(facts, ["lost round trips", "socket", "minimum", "standard deviation"]);
        }
    }

    #[test]
    fn both_families_and_kinds_of_sockets_echo() {
        let mut measured = 0;
        for address in [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)] {
            for is_raw in [false, true] {
                let Ok(mut echo) = Echo::opened(is_raw, SocketAddr::new(address, 0), None) else {
                    smoke::skipped(&format!("no ICMP socket to {address}, raw: {is_raw}"));
                    continue;
                };
                measured += 1;
                for content in [[1; BYTES], [2; BYTES]] {
                    assert_eq!(
                        echo.trip(&content).unwrap(),
                        TripEnd::Answered,
                        "{address} {is_raw}"
                    );
                }
            }
        }
        assert!(measured > 0 || !rustix::process::geteuid().is_root(), "root may use raw sockets");
    }

    /// A network of this thread only, in which nothing answers; false without root.
    fn is_alone() -> bool {
        // SAFETY: the flag does not concern memory or descriptors.
        let moved = unsafe { libc::unshare(libc::CLONE_NEWNET) } == 0;
        let lines = [
            "link add link0 type veth peer name link1",
            "address add 192.0.2.1/24 dev link0",
            "link set link0 up",
            "link set link1 up",
            "neighbour add 192.0.2.2 lladdr 02:00:00:00:00:01 dev link0 nud permanent",
        ];
        let run = |line: &str| {
            let output = std::process::Command::new("ip").args(line.split(' ')).output();
            output.is_ok_and(|output| output.status.success())
        };
        moved && lines.into_iter().all(run)
    }

    #[test]
    fn unanswered_echo_is_lost() {
        let lost = std::thread::spawn(|| {
            is_alone().then(|| {
                let nowhere = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(192, 0, 2, 2)), 0);
                Echo::open(nowhere, None).unwrap().trip(&[0; BYTES]).unwrap()
            })
        });
        match lost.join().unwrap() {
            Some(end) => assert_eq!(end, TripEnd::Lost),
            None => smoke::skipped("needs root and `ip` for a network namespace"),
        }
    }
}
