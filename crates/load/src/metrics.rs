//! The metrics of `fathom load`: descriptions and bounds.

use fathom_metric::{About, ByHand, Inputs, Parameter};
use fathom_record::{Better, Counters, Host, NoModel, Params, Prediction, Unit};

/// A metric without a model: what a server needs for a request is not known before.
pub struct OfServer(pub &'static About);

/// The metrics in the order of the records.
pub static THROUGHPUT: OfServer = OfServer(&ABOUT_THROUGHPUT);
pub static RESPONSE_TIME: OfServer = OfServer(&ABOUT_RESPONSE_TIME);
pub static BANDWIDTH: OfServer = OfServer(&ABOUT_BANDWIDTH);
pub static SERVER_CPU_PER_REQUEST: OfServer = OfServer(&ABOUT_SERVER_CPU_PER_REQUEST);
pub static SERVER_CPU_PER_GB: OfServer = OfServer(&ABOUT_SERVER_CPU_PER_GB);
pub static CLIENT_CPU_PER_REQUEST: OfServer = OfServer(&ABOUT_CLIENT_CPU_PER_REQUEST);
pub static CLIENT_RESIDENT: OfServer = OfServer(&ABOUT_CLIENT_RESIDENT);
pub static CLIENT_GROWTH: OfServer = OfServer(&ABOUT_CLIENT_GROWTH);
pub static SERVER_RESIDENT: OfServer = OfServer(&ABOUT_SERVER_RESIDENT);
pub static SERVER_GROWTH: OfServer = OfServer(&ABOUT_SERVER_GROWTH);

pub const ALL: &[&dyn ByHand] = &[
    &THROUGHPUT,
    &RESPONSE_TIME,
    &BANDWIDTH,
    &SERVER_CPU_PER_REQUEST,
    &SERVER_CPU_PER_GB,
    &CLIENT_CPU_PER_REQUEST,
    &CLIENT_RESIDENT,
    &CLIENT_GROWTH,
    &SERVER_RESIDENT,
    &SERVER_GROWTH,
];

impl ByHand for OfServer {
    fn about(&self) -> &'static About {
        self.0
    }

    fn predict(&self, _: &Params, _: &Host, _: &Inputs<'_>) -> Result<Prediction, NoModel> {
        Err(NoModel::WorkOfServer)
    }
}

const MODEL: &str = "none: what the server needs for a request is not known before the measurement";
const TELEMETRY: &str = "a server that is `fathom serve`";

const PARAMETERS: &[Parameter] = &[
    Parameter { name: "clients", values: "1, 2, …", meaning: "closed-loop clients" },
    Parameter {
        name: "mode",
        values: "random, fixed",
        meaning: "any file for each request; client i always asks for file i",
    },
    Parameter { name: "think_s", values: "0, 1, …", meaning: "think time of a client" },
    Parameter { name: "to", values: "loopback, NAME", meaning: "the server's host" },
    Parameter {
        name: "port",
        values: "1 to 65535",
        meaning: "of a server other than `fathom serve`",
    },
    Parameter {
        name: "file_bytes",
        values: "bytes",
        meaning: "mean length of the files, if known",
    },
    Parameter {
        name: "connection",
        values: "fresh",
        meaning: "a new connection for each request; absent if kept",
    },
    Parameter {
        name: "think",
        values: "exponential",
        meaning: "distribution of the think time; absent if constant",
    },
    Parameter {
        name: "server_cache",
        values: "cold, warm",
        meaning: "the server's page cache before each sweep; absent as found",
    },
    Parameter {
        name: "body",
        values: "discard, verify",
        meaning: "bodies dropped by the kernel, or compared with the files; absent if copied",
    },
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

static ABOUT_THROUGHPUT: About = About {
    id: "load.throughput",
    title: "requests completed",
    unit: Unit::PerSecond,
    better: Better::Higher,
    timed: "complete 2xx responses ÷ time, over the windows of three sweeps in random order",
    not_timed: "the warm-up of each sweep, failed requests",
    pitfalls: &[
        CLIENT_LIMIT,
        "responses of one client depend on each other: the interval is over ten batches, each of \
         at least 8 completions and two response times",
        "random requests warm the server's page cache during a step: evict it before each sweep, \
         or after each response, and read the device's bytes beside",
    ],
    published: "2015: 5.6 requests/s of 2 MB over 100 Mbit/s",
    ..BASE
};

static ABOUT_RESPONSE_TIME: About = About {
    id: "load.response_time",
    title: "response time",
    timed: "from the request sent to the last byte received, for each request; from the connect on \
            if the request needs a new connection",
    not_timed: "the think time, failed requests",
    pitfalls: &[
        CLIENT_LIMIT,
        "in a closed loop a stalled server delays at most one request of each client: the \
         percentiles are those of a population that waits, not of independent arrivals",
    ],
    ..BASE
};

static ABOUT_BANDWIDTH: About = About {
    id: "load.bandwidth",
    title: "body bytes received",
    unit: Unit::BytesPerSecond,
    better: Better::Higher,
    timed: "bytes of complete bodies ÷ time, in the windows of load.throughput",
    not_timed: "heads, TCP and IP headers, bodies that are incomplete at the end of a window",
    pitfalls: &[CLIENT_LIMIT],
    ..BASE
};

static ABOUT_SERVER_CPU_PER_REQUEST: About = About {
    id: "load.server.cpu_per_request",
    title: "server CPU per request",
    timed: "CPU time of the server's process ÷ its responses, by its telemetry",
    not_timed: "interrupts and kernel threads; on loopback the sender's context also runs the \
                receiver's protocol work",
    pitfalls: &["at low load wake-ups dominate: compare steps near saturation"],
    requires: TELEMETRY,
    ..BASE
};

static ABOUT_SERVER_CPU_PER_GB: About = About {
    id: "load.server.cpu_per_gb",
    title: "server CPU per GB sent",
    timed: "CPU time of the server's process ÷ bytes sent, × 10⁹",
    not_timed: "interrupts and kernel threads",
    pitfalls: &["of small files it is the time per request: compare large ones"],
    requires: TELEMETRY,
    ..BASE
};

static ABOUT_CLIENT_CPU_PER_REQUEST: About = About {
    id: "load.client.cpu_per_request",
    title: "client CPU per request",
    timed: "CPU time of the client threads ÷ completed requests",
    not_timed: "the thread that reads telemetry and draws progress",
    pitfalls: &["on loopback it contains protocol work of the server's packets"],
    ..BASE
};

static ABOUT_CLIENT_RESIDENT: About = About {
    id: "load.client.resident",
    title: "client memory",
    unit: Unit::Bytes,
    timed: "nothing: resident memory of this process, about once a second",
    not_timed: "page cache, socket buffers",
    pitfalls: &["contains a receive buffer of 1 MiB for each thread, as far as it is used"],
    parameters: &[],
    published: "2015: 1.65 MB",
    ..BASE
};

static ABOUT_CLIENT_GROWTH: About = About {
    id: "load.client.resident.slope",
    title: "client memory growth",
    unit: Unit::BytesPerSecond,
    timed: "nothing: the slope of load.client.resident over time, after the first third of the run",
    not_timed: "the first third, in which buffers are allocated",
    pitfalls: &["no slope below 5 s, no interval below 30 s"],
    parameters: &[],
    ..BASE
};

static ABOUT_SERVER_RESIDENT: About = About {
    id: "load.server.resident",
    title: "server memory",
    unit: Unit::Bytes,
    timed: "nothing: resident memory of the server's process, about once a second",
    not_timed: "page cache, socket buffers",
    pitfalls: &["files mapped by the server count as resident"],
    parameters: &[],
    requires: TELEMETRY,
    ..BASE
};

static ABOUT_SERVER_GROWTH: About = About {
    id: "load.server.resident.slope",
    title: "server memory growth",
    unit: Unit::BytesPerSecond,
    timed: "nothing: the slope of load.server.resident over time, after the first third of the run",
    not_timed: "the first third, in which buffers are allocated",
    pitfalls: &["no slope below 5 s, no interval below 30 s"],
    parameters: &[],
    requires: TELEMETRY,
    ..BASE
};
