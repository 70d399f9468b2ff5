//! network.tcp.close_fin and network.tcp.close_rst: the call that closes a TCP connection.

use fathom_record::Counter;

use super::connections::{self, NEEDS, TO, Timed, below_connect};
use crate::prelude::*;

/// One of the two metrics.
pub struct TcpClose {
    timed: Timed,
    about: &'static About,
}

pub static CLOSE_FIN: TcpClose = TcpClose { timed: Timed::CloseFin, about: &FIN };
pub static CLOSE_RST: TcpClose = TcpClose { timed: Timed::CloseReset, about: &RESET };

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
    expects: Counters::of(&[Counter::NotRunning, Counter::Interrupts]),
    noise_limit: 0.10,
    ..About::BASE
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

impl Probe for TcpClose {
    fn about(&self) -> &'static About {
        self.about
    }

    fn needs(&self) -> Needs {
        NEEDS
    }

    fn cases(&self, _: &Host, sizes: &Sizes) -> Vec<Case> {
        match (self.timed, sizes.effort) {
            (Timed::CloseReset, Effort::Quick) => Vec::new(),
            _ => connections::cases(),
        }
    }

    fn remote(&self, _: &Case, to: &str) -> Option<Case> {
        connections::remote(to)
    }

    fn predict(&self, case: &Case, _: &Host, known: &Inputs<'_>) -> Model {
        below_connect(case, known)
    }

    fn visit(&self, cases: &[Case], sampler: &mut Sampler) -> Result<()> {
        connections::visit(self.timed, cases, sampler)
    }
}
