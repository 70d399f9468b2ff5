//! The metrics of `fathom load`: descriptions and bounds.

use fathom_metric::{About, ByHand, Parameter};
use fathom_record::{Better, Counters, NoModel, Unit};

/// A metric without a model: what a server needs for a request is not known before.
pub type OfServer = ByHand;

const fn without_model(about: About) -> OfServer {
    ByHand(about, |_, _, _| Err(NoModel::WorkOfServer))
}

/// The metrics in the order of the records.
pub const ALL: &[&ByHand] = &[
    &THROUGHPUT,
    &RESPONSE_TIME,
    &BANDWIDTH,
    &SERVER_CPU_PER_REQUEST,
    &SERVER_SYSTEM_PER_REQUEST,
    &SERVER_CPU_PER_GB,
    &CLIENT_CPU_PER_REQUEST,
    &CAPACITY,
    &SATURATION,
    &KNEE,
    &CLIENTS_95,
    &MAX_RATE,
    &DOSE,
    &BOTTLENECK,
    &CLIENT_RESIDENT,
    &CLIENT_GROWTH,
    &SERVER_RESIDENT,
    &SERVER_GROWTH,
];

const MODEL: &str = "none: what the server needs for a request is not known before the measurement";
const SERVE: &str = "a server that is `fathom serve`";
const TELEMETRY: &str = "a server that is `fathom serve`, or a process of this machine (`--pid`)";

const PARAMETERS: &[Parameter] = &[
    Parameter::new("clients", "1, 2, …", "closed-loop clients"),
    Parameter::new(
        "mode",
        "random, fixed",
        "any file for each request; client i always asks for file i",
    ),
    Parameter::new("think_s", "0, 1, …", "think time of a client"),
    Parameter::new("rate", "500, …", "requests a second of an open loop, which has no clients"),
    Parameter::new("arrivals", "poisson, uniform", "at random times, or at equal distances"),
    Parameter::new(
        "from",
        "send",
        "response times of an open loop from when the request was sent; absent: was due",
    ),
    Parameter::new("to", "loopback, NAME", "the server's host"),
    Parameter::new("of", "network, pacing, disk, server-cpu, client", "the resource of a capacity"),
    Parameter::new(
        "resource",
        "network, pacing, disk, server-cpu, client, serial",
        "the resource with added load",
    ),
    Parameter::new("p50", "TIME", "limit of load.max_rate, likewise of p90, p99, p99.9, mean, max"),
    Parameter::new("errors", "0.1%", "limit of load.max_rate"),
    Parameter::new("port", "1 to 65535", "of a server other than `fathom serve`"),
    Parameter::new("socket", "PATH", "of a server at a unix socket"),
    Parameter::new("file_bytes", "bytes", "mean length of the files, if known"),
    Parameter::new("connection", "fresh", "a new connection for each request; absent if kept"),
    Parameter::new("method", "HEAD, POST, …", "method of the requests; absent: GET"),
    Parameter::new("request_bytes", "bytes", "length of the body of a request, if it has one"),
    Parameter::new("tls", "1.2, 1.3", "the version of TLS; absent without"),
    Parameter::new("think", "exponential", "distribution of the think time; absent if constant"),
    Parameter::new(
        "server_cache",
        "cold, warm",
        "the server's page cache before each sweep; absent: as it is",
    ),
    Parameter::new(
        "body",
        "discard, verify",
        "bodies dropped by the kernel, or compared with the files; absent if copied",
    ),
];

const CLIENT_LIMIT: &str = "a client thread that is busy for more than 90 %, or that handles \
    responses late by more than 25 % of their time, limits the result: the step is invalid; above \
    5 % it is noisy, since the response times include it";

const BASE: About = About {
    model: MODEL,
    expects: Counters::DEVICE,
    noise_limit: 0.10,
    parameters: PARAMETERS,
    source: "closed queueing network: Lazowska et al., Quantitative System Performance, 1984",
    ..About::BASE
};

pub static THROUGHPUT: OfServer = without_model(About {
    id: "load.throughput",
    title: "requests completed",
    unit: Unit::PerSecond,
    better: Better::Higher,
    timed: "complete 2xx responses ÷ time, over the windows of three sweeps in random order; of an \
            open loop, to the requests that are due in the windows",
    not_timed: "the warm-up of each sweep, failed requests",
    pitfalls: &[
        CLIENT_LIMIT,
        "other processes: with the server on the same machine a step is noisy if the machine \
         was idle for at most a tenth of its time, others used more than 0.2 CPUs, and an end \
         waited for one for a tenth of the time",
        "responses of one client depend on each other: the interval is over ten batches, each of \
         at least 8 completions and two response times",
        "random requests warm the server's page cache during a step: evict it before each sweep, \
         or after each response, and read the device's bytes beside",
    ],
    published: "2015: 5.6 requests/s of 2 MB over 100 Mbit/s",
    ..BASE
});

pub static RESPONSE_TIME: OfServer = without_model(About {
    id: "load.response_time",
    title: "response time",
    timed: "from the request sent to the last byte received, for each request; from the connect on \
            if the request needs a new connection. In an open loop from when the request was due, \
            for each one that was due in a window, also if it is complete after it",
    not_timed: "the think time, failed requests",
    pitfalls: &[
        CLIENT_LIMIT,
        "in a closed loop a stalled server delays at most one request of each client: the \
         percentiles are those of a population that waits, not of independent arrivals: --rate \
         sends whenever responses come",
    ],
    ..BASE
});

pub static BANDWIDTH: OfServer = without_model(About {
    id: "load.bandwidth",
    title: "body bytes received",
    unit: Unit::BytesPerSecond,
    better: Better::Higher,
    timed: "bytes of complete bodies ÷ time, in the windows of load.throughput",
    not_timed: "heads, TCP and IP headers, bodies that are incomplete at the end of a window",
    pitfalls: &[CLIENT_LIMIT],
    ..BASE
});

pub static SERVER_CPU_PER_REQUEST: OfServer = without_model(About {
    id: "load.server.cpu_per_request",
    title: "server CPU per request",
    timed: "CPU time of the server's process ÷ its responses, by its telemetry. With `--pid`: of \
            the process and its descendants, ÷ the responses of this client",
    not_timed: "interrupts and kernel threads; on loopback the sender's context also runs the \
                receiver's protocol work",
    pitfalls: &["at low load wake-ups dominate: compare steps near saturation"],
    requires: TELEMETRY,
    ..BASE
});

pub static SERVER_SYSTEM_PER_REQUEST: OfServer = without_model(About {
    id: "load.server.system_per_request",
    title: "server system time per request",
    timed: "with `--cost`: CPU time of the processes of a server on this machine, in a window of a \
            second at the step with the highest throughput, ÷ requests completed; × the share of \
            system time in their ticks",
    not_timed: "a second window, in which ptrace(2) counts the operations: counts × prices of this \
                host are the expected system time beside it",
    pitfalls: &[
        "the kernel divides CPU time by ticks: the interval is that of so many samples",
        "a server that is slowed by the counting does less at once: an epoll wait that returns one \
         event instead of many is an operation more for each request",
    ],
    requires: "a server on this machine that may be traced",
    ..BASE
});

pub static SERVER_CPU_PER_GB: OfServer = without_model(About {
    id: "load.server.cpu_per_gb",
    title: "server CPU per GB sent",
    timed: "CPU time of the server's process ÷ bytes sent, × 10⁹",
    not_timed: "interrupts and kernel threads",
    pitfalls: &["of small files it is the time per request: compare large ones"],
    requires: TELEMETRY,
    ..BASE
});

pub static CLIENT_CPU_PER_REQUEST: OfServer = without_model(About {
    id: "load.client.cpu_per_request",
    title: "client CPU per request",
    timed: "CPU time of the client threads ÷ completed requests",
    not_timed: "the thread that reads telemetry and draws progress",
    pitfalls: &["on loopback it contains protocol work of the server's packets"],
    ..BASE
});

pub static CAPACITY: OfServer = without_model(About {
    id: "load.capacity",
    title: "capacity of a resource",
    unit: Unit::BytesPerSecond,
    better: Better::Higher,
    timed: "before the load, for a tenth of --time (0.3 to 3 s) each, the disk for 3 s. Network: \
            bodies of 128 KiB, or 16 KiB on a slow one, from the server's memory over 8 \
            connections. Disk: direct reads of the same files in random order, by the server's \
            process. Server CPU and client: CPUs ÷ CPU time per request of warm files",
    not_timed: "the warm-up of each",
    pitfalls: &[
        "on loopback the network is work of CPUs",
        "a congestion control that paces (bbr) carries less than the network: then cubic or reno \
         is measured too, and pacing is a resource of its own",
        "CPU capacity counts the CPUs that a process may use; other processes may use them too",
    ],
    requires: SERVE,
    published: "2015: disk 43.7 MB/s, network 11.6 MB/s",
    ..BASE
});

pub static SATURATION: OfServer = without_model(About {
    id: "load.saturation",
    title: "throughput at saturation",
    unit: Unit::PerSecond,
    better: Better::Higher,
    timed: "the mean of load.throughput over the numbers of clients from which on it no longer \
            grows",
    not_timed: "steps below",
    pitfalls: &[
        "claimed only if growth over a factor of 1.5 in clients is excluded, and the largest \
         number would reach 1.3 times as much without a limit: else \"not saturated\"",
    ],
    ..BASE
});

pub static KNEE: OfServer = without_model(About {
    id: "load.knee",
    title: "number of clients at the knee",
    unit: Unit::Ratio,
    better: Better::Higher,
    timed: "(R + Z) × X: response time R of one client, think time Z, throughput X at saturation; \
            (R + Z) ÷ R where that is not reached",
    not_timed: "nothing",
    pitfalls: &["needs a step with one client"],
    ..BASE
});

pub static CLIENTS_95: OfServer = without_model(About {
    id: "load.clients_95",
    title: "clients for 95 % of saturation",
    unit: Unit::Ratio,
    better: Better::Lower,
    timed: "the number of clients at 95 % of load.saturation: a location, from the step before it \
            to the step after it; the median in JSON is on a line between the two",
    not_timed: "nothing",
    pitfalls: &["depends on the distribution of service and think times, unlike the knee"],
    published: "2015: 2 without think time, 10 with 1 s",
    ..BASE
});

pub static MAX_RATE: OfServer = without_model(About {
    id: "load.max_rate",
    title: "highest rate within limits",
    unit: Unit::PerSecond,
    better: Better::Higher,
    timed: "nothing: the rate of an open loop at which the share of the responses beyond a limit \
            is what it allows (1 % of p99), over all windows near it; of a limit without a share, \
            and of being sustained, the rate at which as many windows hold as not. At most 20 \
            windows at rates that those before them chose",
    not_timed: "the warm-up of each window",
    pitfalls: &[
        CLIENT_LIMIT,
        "windows are a third of --time: without twenty responses beyond a limit in each there is \
         no interval",
    ],
    source: "logistic curve by quasi-likelihood: Wedderburn, Biometrika 61 (1974)",
    ..BASE
});

pub static DOSE: OfServer = without_model(About {
    id: "load.dose",
    title: "throughput with added load",
    unit: Unit::Ratio,
    better: Better::Higher,
    timed: "throughput with known work added to each request, ÷ throughput without it, at the \
            largest saturated number of clients; three rounds in random order. The added load is \
            half of the time per request at saturation",
    not_timed: "the warm-up of each window",
    model: "(1 ÷ X) ÷ max(1 ÷ X, D + δ): lower for the bottleneck, 1 for other resources",
    pitfalls: &[
        "a CPU that both ends share has one capacity: load added to either lowers throughput",
    ],
    requires: SERVE,
    ..BASE
});

pub static BOTTLENECK: OfServer = without_model(About {
    id: "load.bottleneck",
    title: "what limits the throughput",
    unit: Unit::Ratio,
    better: Better::Higher,
    timed: "nothing: the resource whose utilisation at saturation is at least 85 %, if all others \
            are at most 75 %. `serial` (one request at a time: lock or queue) if all are; \
            `undetermined` otherwise. With `--pid` the utilisation of the disk is the share of \
            the time in which a thread of the server waits uninterruptibly, and that of the \
            network the share of the response times in which data of the server were sent, and \
            had neither arrived nor been acknowledged, if the throughput is level",
    not_timed: "nothing",
    pitfalls: &[
        "on loopback the network is work of CPUs: only --prove confirms it",
        "with `--pid`, `serial` is not claimed: a server behind it, or asynchronous reads, are not \
         seen",
    ],
    requires: TELEMETRY,
    ..BASE
});

pub static CLIENT_RESIDENT: OfServer = without_model(About {
    id: "load.client.resident",
    title: "client memory",
    unit: Unit::Bytes,
    timed: "nothing: resident memory of this process, about once a second",
    not_timed: "page cache, socket buffers",
    pitfalls: &["contains a receive buffer of 1 MiB for each thread, as far as it is used"],
    parameters: &[],
    published: "2015: 1.65 MB",
    ..BASE
});

pub static CLIENT_GROWTH: OfServer = without_model(About {
    id: "load.client.resident.slope",
    title: "client memory growth",
    unit: Unit::BytesPerSecond,
    timed: "nothing: the slope of load.client.resident over time, after the first third of the run",
    not_timed: "the first third, in which buffers are allocated",
    pitfalls: &["no slope below 5 s, no interval below 30 s"],
    parameters: &[],
    ..BASE
});

pub static SERVER_RESIDENT: OfServer = without_model(About {
    id: "load.server.resident",
    title: "server memory",
    unit: Unit::Bytes,
    timed: "nothing: resident memory of the server's process, about once a second",
    not_timed: "page cache, socket buffers",
    pitfalls: &[
        "files mapped by the server count as resident",
        "with `--pid`: the sum over processes, in each of which shared pages count",
    ],
    parameters: &[],
    requires: TELEMETRY,
    ..BASE
});

pub static SERVER_GROWTH: OfServer = without_model(About {
    id: "load.server.resident.slope",
    title: "server memory growth",
    unit: Unit::BytesPerSecond,
    timed: "nothing: the slope of load.server.resident over time, after the first third of the run",
    not_timed: "the first third, in which buffers are allocated",
    pitfalls: &["no slope below 5 s, no interval below 30 s"],
    parameters: &[],
    requires: TELEMETRY,
    ..BASE
});

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::assert_golden;

    #[test]
    fn metrics_have_their_units_and_limits() {
        let line = |one: &&ByHand| {
            let About { id, unit, better, noise_limit, title, .. } = one.0;
            format!("{id}: {title}, {unit:?}, {better:?}, {noise_limit}\n")
        };
        assert_golden("metrics.txt", &ALL.iter().map(line).collect::<String>());
    }
}
