//! The texts of the round trips.

use crate::network::FAR_END;
use crate::network::connections::TO;
use crate::prelude::*;

pub(super) static TCP: About = About {
    id: "network.tcp.rtt",
    title: "TCP round trip",
    timed: "a request of this many bytes to the far end over a kept TCP connection, and the same \
            bytes back: send and recv at each end. A full round trip, not half of one. Includes \
            one clock read and one histogram count for each trip, which the percentiles need",
    not_timed: "starting the far end, connecting, the control connection; the C library's \
                wrappers: the system calls are inlined",
    model: "mode=busy a bound: four calls that move bytes, ≥ 4 × os.syscall{call=getppid}. \
            mode=block, cpus=1 a bound: ≥ os.unix.rtt{kind=stream}, since TCP does more for each \
            byte. No value for these: the cost of the stack is known from this metric alone. \
            mode=block, cpus=2 a value: mode=busy + 2 × os.wake.cross_cpu{via=futex}. Without \
            mode=busy of this size cpus=1 − 2 × os.switch.process{set_bytes=0} takes its place. \
            bytes=56 otherwise: bytes=1, since both are one segment. To another host mode=block a \
            value: network.icmp.rtt, which the kernel there answers without a process, + 2 × \
            os.wake.cross_cpu{via=futex}; where ICMP echo is not permitted, the minimum by \
            TCP_INFO of mode=busy in its place. mode=busy a bound: ≥ 2 × \
            os.syscall{call=getppid}, the calls of the near end",
    source: "Linux net/ipv4/tcp_input.c and tcp_output.c; on loopback the sender's call runs the \
             receiver's protocol work (net/core/dev.c, process_backlog)",
    pitfalls: &[
        PLACEMENT,
        FRESH,
        "Nagle's algorithm and delayed acknowledgements can add 40 ms: TCP_NODELAY is set at both \
         ends, and the answer carries the acknowledgement. Round trips of about 40 ms above the \
         fastest are recognised, and from 10 % of them the result is invalid",
        "congestion control may pace even loopback (BBR): the record names that of both ends, \
         with MSS, congestion windows, retransmits and the round trip times by TCP_INFO; a \
         request of one segment is hardly affected",
        ASLEEP,
    ],
    parameters: PARAMETERS,
    needs: &[
        "os.syscall",
        "os.switch.process",
        "os.wake.cross_cpu",
        "os.unix.rtt",
        "network.icmp.rtt",
    ],
    requires: "a loopback interface; two CPUs for cpus=2",
    published: "135 µs on loopback, 2.05 ms between two hosts (2016)",
    // An adaptive idle governor would carry its state from one case to the other.
    cases_share_visits: false,
    ..FAR_END
};

pub(super) static UDP: About = About {
    id: "network.udp.rtt",
    title: "UDP round trip",
    timed: "a datagram of this many bytes to the far end, and the same bytes back: send and recv \
            on connected sockets at each end. A full round trip, not half of one. Includes one \
            clock read and one histogram count for each trip, and in blocking calls of recv the \
            timer of their time limit",
    not_timed: "starting the far end, the control connection, the first datagrams, by which the \
                far end connects its socket; the wait for a lost datagram is in no timing, but \
                in the round in which it was lost",
    model: "mode=busy two bounds: ≥ 4 × os.syscall{call=getppid}, and ≤ network.tcp.rtt of the \
            same parameters, since UDP does less for each request. mode=block, cpus=1 two bounds: \
            ≥ os.unix.rtt{kind=datagram} and ≤ network.tcp.rtt. No value for these: the cost of \
            the stack is known from this metric alone. mode=block, cpus=2 a value: mode=busy + 2 \
            × os.wake.cross_cpu{via=futex}; without mode=busy (quick) cpus=1 − 2 × \
            os.switch.process{set_bytes=0} takes its place. bytes=56 otherwise: bytes=1. To \
            another host as network.tcp.rtt",
    source: "Linux net/ipv4/udp.c; on loopback the sender's call runs the receiver's protocol \
             work (net/core/dev.c, process_backlog)",
    pitfalls: &[
        PLACEMENT,
        FRESH,
        "datagrams get lost, and an unlimited wait would hang: a round trip without an answer \
         for 1 s is lost. The record has the number; above one and 1 % it is invalid, and more \
         than 8 end the visit",
        "an answer that is late would be taken for that of the next request: consecutive \
         requests differ, and other answers are ignored",
        "a socket that anyone may send to answers anyone: the far end's is connected to the near \
         end's, whose first datagram has the nonce of the control connection",
        ASLEEP,
    ],
    parameters: PARAMETERS,
    needs: &[
        "os.syscall",
        "os.switch.process",
        "os.wake.cross_cpu",
        "os.unix.rtt",
        "network.icmp.rtt",
        "network.tcp.rtt",
    ],
    published: "",
    ..TCP
};

const PLACEMENT: &str = "placement decides: on one CPU a trip has two context switches, on two \
                         CPUs two wake-ups of an idle CPU, in a guest several times as long. Both \
                         ends are pinned, and cpus is a parameter";
const FRESH: &str = "a far end that is a thread would share the worker's counters: it is a fresh \
                     process for each visit, and its counters are in the sample";
const ASLEEP: &str = "an end that is woken before it sleeps costs no wake-up: the kernel's \
                      context switch counts of both ends are compared with the trips, and below \
                      90 % the visit is left out";

const PARAMETERS: &[Parameter] = &[
    Parameter::new("bytes", "1, 56", "request and answer; 56 as ping"),
    Parameter::new("cpus", "1, 2", "both ends on the worker's CPU · each on its own"),
    Parameter::new("mode", "block, busy", "sleep until data arrive · poll for them (cpus=2 only)"),
    TO,
];
