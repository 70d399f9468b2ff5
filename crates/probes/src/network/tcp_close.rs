//! network.tcp.close_fin and network.tcp.close_rst: the call that closes a TCP connection.

use super::FAR_END;
use super::connections::{ConnectionMetric, TO, Timed};
use crate::prelude::*;

pub static CLOSE_FIN: ConnectionMetric =
    ConnectionMetric { timed: Timed::CloseFin, about: &FIN, predict: below_connect };
pub static CLOSE_RST: ConnectionMetric =
    ConnectionMetric { timed: Timed::CloseReset, about: &RESET, predict: below_connect };

const MODEL: &str = "a bound: ≤ network.tcp.connect to the same far end: the call sends one packet \
                     and does not wait for an answer. No value: it is known from this metric alone";
const SOURCE: &str = "RFC 9293; Linux net/ipv4/tcp.c, __tcp_close";
const SLEEPER: &str = "on loopback the packet is processed and the far end is woken inside the \
                       call: the far end is asleep on another CPU when each call begins";
const BASE: About = About {
    model: MODEL,
    source: SOURCE,
    parameters: &[TO],
    needs: &["network.tcp.connect"],
    requires: "a loopback interface and two CPUs",
    ..FAR_END
};

static FIN: About = About {
    id: "network.tcp.close_fin",
    title: "TCP close by FIN",
    timed: "close(2) of a connection on which nothing is unread or unsent. Each call is timed; the \
            value is the mean of 16, to another host of one. Quantiles: single calls",
    not_timed: "the rest of the FIN exchange, which the kernel does after the call \
                (network.tcp.teardown)",
    pitfalls: &[
        "the call returns long before the exchange that it begins has ended: see \
         network.tcp.teardown",
        SLEEPER,
        "the far end answers the FIN by RST, so that no TIME_WAIT stays; the call has returned by \
         then",
    ],
    published: "12.73 µs on loopback, 13.33 µs to another host (2016)",
    ..BASE
};

static RESET: About = About {
    id: "network.tcp.close_rst",
    title: "TCP close by RST",
    timed: "close(2) of a connection with SO_LINGER of 0 s, which sends RST and frees the \
            connection. Each call is timed; the value is the mean of 16, to another host of one. \
            Quantiles: single calls",
    not_timed: "setting SO_LINGER; closing at the far end",
    pitfalls: &[
        "RST discards what the far end has not read: fast, and only for connections whose data \
         have been acknowledged by the program there",
        SLEEPER,
    ],
    ..BASE
};

/// The bound `≤ network.tcp.connect` to the same far end.
fn below_connect(case: &ProbeCase, known: &Inputs<'_>) -> Model {
    let source = "one packet leaves, three make a connection";
    let meaning = "the call waited, or ran the far end's work";
    at_most_earlier("network.tcp.connect", &case.params, (source, meaning), known)
}
