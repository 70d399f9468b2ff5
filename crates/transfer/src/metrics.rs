//! The metrics of `fathom transfer`: descriptions and bounds.

use fathom_metric::{About, ByHand, Parameter};
use fathom_record::{Better, Counters, NoModel, Unit};

pub type OfPath = ByHand;

const fn without_model(about: About) -> OfPath {
    ByHand(about, |_, _, _| Err(NoModel::CostOfPath))
}

pub const ALL: &[&ByHand] = &[&TIME, &RATE, &EFFECT, &PAGE, &CLAIM, &ADVICE];

/// Of one host: the upper limit of the rate.
pub const BANDWIDTH: &str = "network.tcp.bandwidth";

const PARAMETERS: &[Parameter] = &[
    Parameter::new(
        "set",
        "small, file, video, NAME",
        "10 files of 24114 bytes in all; one of 12022972; two of 364344508 in all (the \
                  study does not publish how they divide: evenly here); a folder of the user",
    ),
    Parameter::new(
        "send",
        "copy, mmap, sendfile, splice, zerocopy, uring, device-copy, device-mmap",
        "read and send; send from a mapped window; the call; through a pipe; \
                  MSG_ZEROCOPY from a mapped window; a read and a send in flight by io_uring; read \
                  and write to the kernel device; read into the mapped window of the kernel \
                  device, which sends it",
    ),
    Parameter::new(
        "receive",
        "copy, mmap, splice, uring, device-copy, device-mmap",
        "recv and write; recv into a mapped window; through a pipe; by io_uring; read \
                  from the kernel device and write; write from the mapped window of the kernel \
                  device, which receives into it",
    ),
    Parameter::new(
        "connection",
        "persistent, per-file",
        "one for all files, each after its length; one for each, which ends with it",
    ),
    Parameter::new(
        "io",
        "blocking, nonblocking, async",
        "calls on the sockets or devices block; return, and poll waits; return, and SIGIO \
                  is sent when they are ready (O_ASYNC). uring waits for completions; both ends by \
                  uring are async",
    ),
    Parameter::new("buffer_bytes", "bytes", "of copy, uring, device-copy"),
    Parameter::new("window_bytes", "bytes", "of mmap, zerocopy, device-mmap"),
    Parameter::new("ack", "per-file", "the receiver answers after each file"),
    Parameter::new("to", "NAME", "another host; absent on this one"),
    Parameter::new("factor", "send, receive, …", "what an effect changes"),
    Parameter::new("from", "a level", "the reference"),
    Parameter::new("level", "a level", "what is compared with it"),
    Parameter::new(
        "with",
        "a level of another factor",
        "the effect there ÷ the effect at that factor's reference (interaction)",
    ),
    Parameter::new("end", "send, receive", "of a page"),
    Parameter::new("claim", "text", "a conclusion of the 2020 study"),
];

const SOURCE: &str = "Linux net/ipv4/tcp.c, fs/splice.c; randomised complete blocks: Box, Hunter \
    and Hunter, Statistics for Experimenters, 2005, ch. 4";

const BASE: About = About {
    model: "none: what a path costs per byte is not known before the measurement",
    source: SOURCE,
    expects: Counters::DEVICE,
    noise_limit: 0.10,
    parameters: PARAMETERS,
    ..About::BASE
};

pub static TIME: OfPath = without_model(About {
    id: "transfer.time",
    title: "transfer of a set",
    timed: "from the first connect until the last write of the receiver, for all files of a set: \
            opening, connecting and setting sockets up, sending, creating, writing. Each value is \
            a repetition between two fresh processes, on two CPUs where there are two",
    not_timed: "making buffers, opening devices and mapping their windows, closing sockets, \
                reading the notifications of sends without a copy, verifying the content, removing \
                the files, writing them to a device",
    model: "copy and mmap at the sending end, a bound: ≥ the bytes ÷ the highest \
            network.tcp.bandwidth on loopback of this host. No value: the cost of a path is known \
            from this metric alone",
    pitfalls: &[
        "received files stay in the page cache and are removed before they are written to a \
         device, unless memory is short",
        "on loopback the CPU time of the sender has protocol work of the receiver",
        "on loopback the kernel copies for MSG_ZEROCOPY too: the record has the share that it says \
         was sent without one",
        "a congestion control that paces (BBR) may limit every path alike: name another one by \
         --congestion",
        "the kernel devices exist where their module is loaded; a file is copied into and out of \
         their window by read and write, not by loads and stores",
        "to another host the time ends when the receiver's report arrives, a half round trip later",
    ],
    published: "2020, kernel sockets in a virtual machine, 347.466 MB: 4.09 s by copy, 0.62 s by \
                mmap at both ends",
    ..BASE
});

pub static RATE: OfPath = without_model(About {
    id: "transfer.rate",
    title: "rate of a transfer",
    unit: Unit::BytesPerSecond,
    better: Better::Higher,
    timed: "bytes of the set ÷ transfer.time, for each repetition",
    not_timed: "as transfer.time",
    model: "copy and mmap at the sending end, a bound: ≤ the highest network.tcp.bandwidth on \
            loopback of this host. No value: the cost of a path is known from this metric alone",
    pitfalls: &["of small files it is their number and the connections that count, not bytes"],
    published: "2020: 86.959 and 572.268 KB/ms",
    ..BASE
});

pub static EFFECT: OfPath = without_model(About {
    id: "transfer.effect",
    title: "effect of a setting on the time",
    unit: Unit::Ratio,
    better: Better::Neither,
    timed: "transfer.time with a level of one factor ÷ transfer.time with its reference level, all \
            other factors equal: in each repetition the geometric mean over all such pairs",
    not_timed: "as transfer.time",
    pitfalls: &[
        "a mean over the levels of the other factors: where they matter, an interaction is shown, \
         if its interval excludes 1 and it exceeds 5 %",
    ],
    published: "2020, small files: one connection for all is 3 to 5 times as fast",
    ..BASE
});

pub static PAGE: OfPath = without_model(About {
    id: "transfer.page",
    title: "page behind a mapping",
    unit: Unit::Ratio,
    timed: "the page-table entry of the first page of the first window, after its use and before \
            it is unmapped, by a kernel device; without one, its entry of /proc/self/pagemap",
    not_timed: "everything",
    pitfalls: &["the frame is hidden without CAP_SYS_ADMIN"],
    published: "2020: raw entries, present and writable, in the kernel's log",
    ..BASE
});

pub static CLAIM: OfPath = without_model(About {
    id: "transfer.claim",
    title: "conclusion of the 2020 study",
    unit: Unit::Ratio,
    timed: "the effect that the conclusion is about, from the published cells measured here",
    not_timed: "as transfer.time",
    pitfalls: &["sockets of processes here, of the kernel there; another CPU, kernel and disk"],
    ..BASE
});

pub static ADVICE: OfPath = without_model(About {
    id: "transfer.advice",
    title: "which path to use",
    unit: Unit::Ratio,
    timed: "nothing: from transfer.time and transfer.effect. The fastest combination is chosen by \
            every second repetition, and its ratio is measured in the others",
    not_timed: "everything",
    pitfalls: &[
        "it holds for these sets on this host; the settings are those with other paths at \
                 their reference",
    ],
    ..BASE
});
