//! network.tcp.connect: the call that makes a TCP connection.

use fathom_measure::sampler::LOOPBACK;

use super::FAR_END;
use super::connections::{ConnectionMetric, TO, Timed, rtt, to, wake};
use crate::prelude::*;

pub static CONNECT: ConnectionMetric =
    ConnectionMetric { timed: Timed::Connect, about: &ABOUT, predict };

static ABOUT: About = About {
    id: "network.tcp.connect",
    title: "TCP connect",
    timed: "connect(2) to a far end that waits for connections. Each call is timed; the value is \
            the mean of 16, to another host of one. Quantiles: single calls",
    not_timed: "creating and closing the socket; accepting the connection at the far end, which \
                wakes it",
    model: "on loopback a bound: ≤ network.tcp.rtt{bytes=1, cpus=2, mode=block}: the whole \
            handshake runs inside the call, and this end never sleeps. To another host a value: \
            network.tcp.rtt{bytes=1, mode=busy} + os.wake.cross_cpu{via=futex}: one round trip, \
            answered by the far kernel, and this end is woken. No value on loopback: the cost of \
            creating a connection at both ends is known from this metric alone",
    source: "RFC 9293; Linux net/ipv4/tcp_ipv4.c, tcp_v4_connect; on loopback the SYN, its answer \
             and the ACK are processed in the softirq of the sending call (net/core/dev.c, \
             process_backlog)",
    pitfalls: &[
        "the end that closes first keeps the port in TIME_WAIT for 60 s: each connection is closed \
         by RST, and the record has the number of sockets in TIME_WAIT before and after",
        "a visit uses at most a fifth of the local ports, each visit another port of the far end",
        "a full queue at the far end drops the SYN, which is sent again after 1 s: this end waits \
         until each connection was accepted and closed",
        "the ACK wakes the far end inside the call, which costs an interrupt between CPUs: the far \
         end on this host is asleep on another CPU when each call begins",
        "on loopback a call that sleeps makes the result invalid",
    ],
    parameters: &[TO],
    needs: &["network.tcp.rtt", "os.wake.cross_cpu"],
    requires: "a loopback interface and two CPUs",
    published: "182 µs on loopback, 8.05 ms between two hosts (2016)",
    ..FAR_END
};

fn predict(case: &ProbeCase, known: &Inputs<'_>) -> Model {
    let to = parsed(&case.params, |params| to(params).map(str::to_owned))?;
    if to == LOOPBACK {
        let source = "three packets and no sleep; a round trip has two packets and two sleeps";
        let meaning = "the call waited, or memory for the sockets is short";
        let trip = rtt(&to, "block", 1);
        return at_most_earlier("network.tcp.rtt", &trip, (source, meaning), known);
    }
    let trip = Term::once("network.tcp.rtt", rtt(&to, "busy", 1));
    let sum = Sum {
        terms: &[trip, wake()],
        tolerance: 0.3,
        source: "one round trip, of which this end sleeps through; the far kernel answers",
        otherwise: "a lost SYN, a firewall that inspects new connections, or a far end under \
                    load",
    };
    // Between hosts the way there and back is nearly all of it.
    Ok(sum.predict(known)?.self_consistent())
}
