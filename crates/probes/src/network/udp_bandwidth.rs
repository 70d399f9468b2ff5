//! network.udp.bandwidth: paced datagrams to a far end, and what arrives of them.

use fathom_analysis::judge::RATE_REACHED;
use fathom_far::sink::{Round, Sender};
use fathom_far::{DATAGRAM_BYTES, DATAGRAM_BYTES_V6};
use fathom_measure::sampler::LOOPBACK;

use super::FAR_END;
use super::connections::TO;
use super::ends;
use super::tcp_bandwidth::{TRIES, at_most_of_link, steady_rate};
use crate::prelude::*;

metric!(UdpBandwidth, ABOUT);

static ABOUT: About = About {
    id: "network.udp.bandwidth",
    title: "UDP bandwidth",
    unit: Unit::BytesPerSecond,
    better: Better::Higher,
    timed: "payload that the far end has counted, over the time between two of its answers, while \
            datagrams are sent at this rate: a clock is polled until each is due",
    not_timed: "the first three eighths of a round, in which queues fill; starting the far end",
    model: "a value: the rate at which datagrams are sent. To another host where the link is \
            slower, a bound, its payload; no value, as other traffic on the link is not known",
    source: "the sender waits for the time of each datagram",
    pitfalls: &[
        "a sender's count includes what is dropped on the way: the value, the loss and the jitter \
         are the receiver's; datagrams that are still under way at the end of a round are waited \
         for before the loss is counted",
        "jitter is that of RFC 3550: differences of transit times, smoothed by 1/16. It uses \
         differences of each host's clock only, and includes wake-ups of the receiver",
        "a sender that is late sends at a lower rate than that of the case: below 95 % the result \
         is invalid",
        "a sender that sleeps between datagrams sends bursts: here it polls, so that cpus=2 on \
         this host is required",
    ],
    parameters: &[
        Parameter::new(
            "rate_bytes_s",
            "10 MB/s, 100 MB/s",
            "payload sent per second, in datagrams of 1,472 bytes",
        ),
        TO,
    ],
    needs: &[],
    requires: "a loopback interface and two CPUs, or another host",
    cases_share_visits: false,
    ..FAR_END
};

const RATES: [i64; 2] = [100_000_000, 10_000_000];
/// Length of a round in shortest batches: 5 ms on this host and 50 ms to another.
const FLOORS: f64 = 50.0;
const FLOORS_REMOTE: f64 = 500.0;
/// Of the longest round, at an end that shares its CPU.
const LONGEST_NS: f64 = 200e6;
/// For the answers of a round at even distances.
const DATAGRAMS_MIN: u64 = 32;

fn params(rate: i64, to: &str) -> Params {
    Params::one("rate_bytes_s", rate).and("to", to)
}

fn rate_and_to(params: &Params) -> Option<(f64, String)> {
    let rate = params.integer("rate_bytes_s").filter(|rate| *rate > 0)?;
    Some((rate as f64, params.text("to")?.to_owned()))
}

impl Probe for UdpBandwidth {
    fn cases(&self, _: &Host, sizes: &Sizes) -> Vec<ProbeCase> {
        let count = if sizes.effort == Effort::Quick && !sizes.smoke { 1 } else { RATES.len() };
        let case = |rate: &i64| ProbeCase { params: params(*rate, LOOPBACK), cost_ns: 90e6 };
        RATES[..count].iter().map(case).collect()
    }

    fn remote(&self, case: &ProbeCase, to: &str) -> Option<ProbeCase> {
        let rate = case.params.integer("rate_bytes_s")?;
        Some(ProbeCase { params: params(rate, to), cost_ns: 900e6 })
    }

    fn predict(&self, case: &ProbeCase, host: &Host, _: &Inputs<'_>) -> Model {
        let (rate, to) = parsed(&case.params, rate_and_to)?;
        if to != LOOPBACK {
            let link = at_most_of_link(&to, 1.0, host);
            if let Some(bound) = link.ok().filter(|link| link.high.is_some_and(|it| it < rate)) {
                return Ok(bound);
            }
        }
        let sum = Prediction::sum(0.0, rate, 0.05, "rate_bytes_s", ABOUT.source);
        // The rate that was asked for: the program is checked, not the machine.
        let sum = sum.without_parts().self_consistent();
        let sum = sum.with_quantity("rate_bytes_s", rate, Unit::BytesPerSecond, Origin::Case);
        Ok(sum
            .if_below("datagrams are lost: see the loss")
            .if_above("datagrams arrive in bursts longer than a round"))
    }

    fn visit(&self, cases: &[ProbeCase], sampler: &mut Sampler) -> Result<()> {
        each_parsed(cases, sampler, rate_and_to, |index, (rate, to), sampler| {
            measure(index, rate, &to, sampler)
        })
    }
}

fn measure(case: usize, rate: f64, to: &str, sampler: &mut Sampler) -> Result<()> {
    let place = sampler.resources().far_end(to)?;
    let is_v6 = place.address.is_some_and(|address| address.is_ipv6());
    let datagram_bytes = if is_v6 { DATAGRAM_BYTES_V6 } else { DATAGRAM_BYTES };
    let work = fathom_far::ProtocolWork::UdpSink { bytes: datagram_bytes };
    let (far, connections) = ends::open(work, &place, 2, sampler)?;
    let socket = far.datagrams(&connections[0]).map_err(|error| ends::fault(to, error))?;
    let floors = if place.address.is_some() { FLOORS_REMOTE } else { FLOORS };
    let bytes = f64::from(datagram_bytes);
    let interval_ns = bytes / rate * 1e9;
    let time_ns = floors * sampler.settings().batch_floor_ns;
    let count = ((time_ns / interval_ns) as u64).max(DATAGRAMS_MIN);
    let mut sender = Sender::new(socket, datagram_bytes as usize);
    let mut rounds = Vec::new();
    let most = count.max((LONGEST_NS / interval_ns) as u64);
    let once = |clock: &Clock| {
        let steady = until_steady([count, most], |count| {
            let round = sender.run(count, interval_ns, clock);
            let round = round.map_err(|error| ends::fault(to, error))?;
            let of_round = steady_rate(std::slice::from_ref(&round.track), clock);
            rounds.push(round);
            Ok(of_round)
        })?;
        Ok(steady * bytes)
    };
    sampler.run(vec![single(case, count, once)]);
    let sent = sender.sent;
    drop((sender, connections));
    let outcome = far.finish().map_err(|error| ends::fault(to, error))?;
    let received: u64 = rounds.iter().map(|round| round.received).sum();
    let counts = format!("sent {sent}, far {}, by its answers {received}", outcome.count);
    // A datagram that was late for its answer is in the far end's count.
    let is_right = (received..=sent).contains(&outcome.count);
    sampler.check(case, "datagrams", is_right, counts);
    facts(&rounds, bytes, rate).into_iter().for_each(|fact| sampler.state(case, fact));
    sampler.keep_far_end(case, outcome.far);
    Ok(())
}

/// Repeats a round, each time with twice as many datagrams, until it has a rate: an end that shares
/// its CPU finds all counts at once, until a round is longer than several of its time slices.
fn until_steady(
    [mut count, most]: [u64; 2],
    mut round: impl FnMut(u64) -> Result<Option<f64>>,
) -> Result<f64> {
    for _ in 0..TRIES {
        if let Some(rate) = round(count)? {
            return Ok(rate);
        }
        count = (2 * count).min(most);
    }
    Err(SamplerFault::Failed("all counts arrived at once, or none".to_owned()))
}

/// Loss and jitter at the receiver, and what was sent of this rate.
fn facts(rounds: &[Round], bytes: f64, rate: f64) -> Vec<Fact> {
    let sum = |of: fn(&Round) -> u64| rounds.iter().map(of).sum::<u64>() as f64;
    let sent = sum(|round| round.sent).max(1.0);
    let mut jitter_ns: Vec<f64> = rounds.iter().map(|round| round.jitter_ns).collect();
    jitter_ns.sort_by(f64::total_cmp);
    let sending_ns: f64 = rounds.iter().map(|round| round.sending_ns).sum();
    let sent_per_s = sent * bytes * 1e9 / sending_ns;
    let share = |name, share| Fact::quantity(name, share, Unit::Ratio);
    vec![
        share("loss", (sent - sum(|round| round.received)) / sent),
        share("reordered", sum(|round| round.reordered) / sent),
        Fact::quantity("jitter (RFC 3550)", jitter_ns[jitter_ns.len() / 2], Unit::Nanoseconds),
        Fact::quantity("sent per second", sent_per_s, Unit::BytesPerSecond),
        share(RATE_REACHED, sent_per_s / rate),
        Fact::quantity("datagram", bytes, Unit::Bytes),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::smoke;

    #[test]
    fn receiver_counts_what_was_sent() {
        for (_, sample) in smoke::run(&UdpBandwidth) {
            let Ok(sample) = sample else { continue };
            let names: Vec<&str> = sample.facts.iter().map(|fact| fact.name.as_str()).collect();
            let expected =
                ["loss", "reordered", "jitter (RFC 3550)", "sent per second", RATE_REACHED];
            assert_eq!(names[..5], expected);
            assert_eq!(sample.checks.len(), 1);
        }
    }

    #[test]
    fn round_is_lengthened_until_it_has_a_rate() {
        // The far end runs every 8 ms, and counts then what has arrived.
        let clock = smoke::clock();
        let slice = 8_000_000;
        let mut lengths = Vec::new();
        let rate = until_steady([320, 20_000], |count| {
            lengths.push(count);
            let until = count * slice / 640;
            let slices = (1..).map(|at| at * slice).take_while(|stamp| *stamp < until + slice);
            let track = |stamp: u64| (stamp, count.min(stamp * 640 / slice));
            let track: Vec<_> = [(0, 0)].into_iter().chain(slices.map(track)).collect();
            Ok(steady_rate(&[track], &clock))
        });
        let per_second = rate.expect("a rate of several slices");
        assert!((per_second / 80e3 - 1.0).abs() < 0.01, "{per_second}");
        assert!(lengths.len() > 1 && lengths.windows(2).all(|it| it[1] == 2 * it[0]));
        lengths.clear();
        let none = until_steady([320, 1000], |count| {
            lengths.push(count);
            Ok(None)
        });
        assert!(matches!(none, Err(SamplerFault::Failed(_))));
        assert_eq!((&lengths[..4], lengths.len()), (&[320, 640, 1000, 1000][..], TRIES as usize));
    }

    #[test]
    fn loss_is_of_all_rounds() {
        let round = |sent, received, jitter_ns| Round {
            sent,
            received,
            jitter_ns,
            sending_ns: 1e9,
            ..Round::default()
        };
        let rounds = [round(100, 100, 5.0), round(100, 90, 7.0), round(100, 80, 9.0)];
        let found = facts(&rounds, 10.0, 4000.0);
        let expected = [
            Fact::quantity("loss", 0.1, Unit::Ratio),
            Fact::quantity("reordered", 0.0, Unit::Ratio),
            Fact::quantity("jitter (RFC 3550)", 7.0, Unit::Nanoseconds),
            Fact::quantity("sent per second", 1000.0, Unit::BytesPerSecond),
            Fact::quantity(RATE_REACHED, 0.25, Unit::Ratio),
        ];
        assert_eq!(found[..5], expected);
    }
}
