//! network.tcp.teardown: from shutdown(2) to the end of the FIN exchange.

use super::FAR_END;
use super::connections::{ConnectionMetric, TO, Timed, rtt, to, wake};
use crate::prelude::*;
use fathom_measure::sampler::LOOPBACK;

pub static TEARDOWN: ConnectionMetric =
    ConnectionMetric { timed: Timed::Teardown, about: &ABOUT, predict };

static ABOUT: About = About {
    id: "network.tcp.teardown",
    title: "TCP tear-down",
    timed: "from shutdown(2) of the sending direction until the far end's FIN has arrived and the \
            connection is in TIME_WAIT, by the state in TCP_INFO. Each exchange is timed; the \
            value is the mean of 16, to another host of one. Quantiles: single exchanges",
    not_timed: "closing the socket afterwards, and the 60 s in TIME_WAIT",
    model: "a value: network.tcp.rtt{bytes=1, mode=busy} + os.wake.cross_cpu{via=futex} + \
            network.tcp.close_fin: a round trip in which the far end is woken by the FIN and \
            closes its socket. This end polls",
    source: "RFC 9293, figure 5; Linux net/ipv4/tcp_input.c, tcp_fin",
    pitfalls: &[
        "close(2) returns long before the exchange ends (network.tcp.close_fin)",
        "the time is that of the far program, too: the far end here closes as soon as it is woken",
        "reading the state takes one system call, which is the resolution",
        "each connection stays in TIME_WAIT for 60 s at this end, as any that it closes first: a \
         visit uses at most a fifth of the local ports, each visit another port of the far end; \
         the record has the number of sockets in TIME_WAIT before and after",
    ],
    parameters: &[TO],
    needs: &["network.tcp.rtt", "os.wake.cross_cpu", "network.tcp.close_fin"],
    requires: "a loopback interface and two CPUs; Linux 4.10",
    ..FAR_END
};

fn predict(case: &ProbeCase, known: &Inputs<'_>) -> Model {
    let to = parsed(&case.params, |params| to(params).map(str::to_owned))?;
    let trip = Term::once("network.tcp.rtt", rtt(&to, "busy", 1));
    let params = case.params.clone();
    let close = Term::once("network.tcp.close_fin", params);
    let sum = Sum {
        terms: &[trip, wake(), close],
        tolerance: 0.3,
        source: "a FIN each way; the far end sleeps until the first arrives",
        otherwise: "a lost packet, or a far end that was descheduled",
    };
    let sum = sum.predict(known)?;
    // Between hosts the way there and back is nearly all of it.
    Ok(if to == LOOPBACK { sum } else { sum.self_consistent() })
}
