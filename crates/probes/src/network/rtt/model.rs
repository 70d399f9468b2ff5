//! What round trips cost: calls, wake-ups, and the network between two hosts.

use fathom_measure::sampler::LOOPBACK;

use super::{Transport, Trip, about};
use crate::network::icmp_rtt;
use crate::prelude::*;

const OVERLAP: &str = "the wake-up overlaps the sender's call, or the idle states differ from \
                       those of the wake-up alone";

pub(super) fn predict(
    transport: Transport,
    id: &'static str,
    trip: Trip,
    known: &Inputs<'_>,
) -> Model {
    if trip.to != LOOPBACK {
        return to_another_host(&trip, known);
    }
    let is_on_two_cpus = !trip.busy && trip.cpus == 2;
    if is_on_two_cpus && let Ok(value) = woken(id, &trip, known) {
        return Ok(value);
    }
    if trip.bytes != 1 {
        let otherwise = "more than one segment, or a size at which the stack changes its path";
        let source = "both are one segment; the copy of 55 bytes costs nanoseconds";
        let one = Trip { bytes: 1, ..trip }.params();
        return same_as((id, one), 0.15, (source, otherwise), known);
    }
    let calls = || at_least_getppid(4.0, "send and recv at each end", known);
    match (transport, trip.busy, trip.cpus) {
        (Transport::Tcp, true, _) => calls(),
        (Transport::Udp, true, _) => below_tcp(calls()?, &trip, known),
        (Transport::Tcp, false, 1) => {
            let source = "the same calls and switches, plus TCP, IP and the loopback device";
            at_least("os.unix.rtt", &Params::one("kind", "stream"), source, known)
        }
        (Transport::Udp, false, 1) => {
            let source = "the same calls and switches, plus UDP, IP and the loopback device";
            let low = at_least("os.unix.rtt", &Params::one("kind", "datagram"), source, known)?;
            below_tcp(low, &trip, known)
        }
        (Transport::Tcp, false, _) => calls(),
        (Transport::Udp, false, _) => below_tcp(calls()?, &trip, known),
    }
}

/// On two CPUs each end is woken once. The rest is a round trip between ends that poll; or, where
/// none was measured, one on one CPU without its two switches.
fn woken(id: &'static str, trip: &Trip, known: &Inputs<'_>) -> Model {
    let busy = Trip { busy: true, ..trip.clone() }.params();
    let source = "the same calls, and each end is woken once";
    let sum = |terms: &[Term<'_>]| {
        Sum { terms, tolerance: 0.3, source, otherwise: OVERLAP }.predict(known)
    };
    if known.quantity(id, &busy).is_some() {
        return sum(&[Term::once(id, busy), two_wake_ups()]);
    }
    let own = Trip { cpus: 1, ..trip.clone() };
    let one_byte = Trip { bytes: 1, ..own.clone() };
    let together = [own.params(), one_byte.params()];
    let params = together.into_iter().find(|params| known.quantity(id, params).is_some());
    let missing = || NoModel::MissingInput { metric: format!("{id}{}", one_byte.params()) };
    let switch = Params::one("set_bytes", 0);
    sum(&[
        Term::once(id, params.ok_or_else(missing)?),
        Term::new(-2.0, "os.switch.process", switch),
        two_wake_ups(),
    ])
}

fn two_wake_ups<'a>() -> Term<'a> {
    Term::new(2.0, "os.wake.cross_cpu", Params::one("via", "futex"))
}

/// The lower bound, and the same case over TCP as the upper.
fn below_tcp(low: Prediction, trip: &Trip, known: &Inputs<'_>) -> Model {
    let params = trip.params();
    let limit = earlier(about::TCP.id, &params, known)?;
    let name = format!("{}{params}", about::TCP.id);
    let formula = format!("{}, ≤ {name}", low.formula);
    let source = format!("{}; UDP keeps no state of a stream", low.source);
    let both = Prediction { high: Some(limit), formula, source, ..low };
    let both = both.with_result(&name, limit, Unit::Nanoseconds);
    Ok(both.if_above("a firewall or connection tracking costs UDP more, or one was disturbed"))
}

/// The way there and back is nearly all of it.
fn to_another_host(trip: &Trip, known: &Inputs<'_>) -> Model {
    if trip.busy {
        return at_least_getppid(2.0, "send and recv of the near end", known);
    }
    let source = "the way there and back; each end is woken once, while the kernel there answers \
                  an ICMP echo without a process";
    let echo = icmp_rtt::params(&trip.to);
    if known.quantity(icmp_rtt::ABOUT.id, &echo).is_some() {
        let sum = Sum {
            terms: &[Term::once(icmp_rtt::ABOUT.id, echo), two_wake_ups()],
            tolerance: 0.3,
            source,
            otherwise: "ICMP takes another queue or way, or the far host's CPU sleeps deeper",
        };
        return Ok(sum.predict(known)?.self_consistent());
    }
    let busy = Trip { busy: true, ..trip.clone() };
    let one = Trip { bytes: 1, ..busy.clone() };
    let of_tcp = |trip: &Trip| {
        let params = trip.params();
        Some((known.fact(about::TCP.id, &params, "TCP_INFO min_rtt")?, params))
    };
    let missing = || NoModel::MissingInput { metric: format!("{}{echo}", icmp_rtt::ABOUT.id) };
    let (min_ns, params) = of_tcp(&busy).or_else(|| of_tcp(&one)).ok_or_else(missing)?;
    let Term { times, metric, params: wake } = two_wake_ups();
    let wake_ns = earlier(metric, &wake, known)?;
    let (name, at) = (format!("{metric}{wake}"), format!("{}{params}", about::TCP.id));
    let formula = format!("TCP_INFO min_rtt of {at} + {times} × {name}");
    let sum = Prediction::sum(min_ns, times * wake_ns, 0.3, &formula, source);
    let origin = Origin::Counted { at: format!("TCP_INFO of {at}") };
    let sum = sum.with_quantity("TCP_INFO min_rtt", min_ns, Unit::Nanoseconds, origin);
    let queue = "a queue on the way, which the minimum does not have, or deeper sleep";
    let sum = sum.with_result(&name, wake_ns, Unit::Nanoseconds).otherwise(queue);
    Ok(sum.self_consistent())
}
