//! The facts in the records of a load. Each name is here once, for those who write and who read it.

/// Of a step, beside its throughput.
pub const REQUESTS: &str = "requests";
pub const ERRORS: &str = "errors";
pub const SERVER_CPU: &str = "server CPU";
pub const CLIENT_CPU: &str = "client CPU";
pub const DISK: &str = "disk";
pub const LONGEST_RESPONSE: &str = "longest response";
pub const LONGEST_IN_FLIGHT: &str = "longest in flight at the end";
/// Of an open loop.
pub const WAITING: &str = "waiting at the end";
/// Begins the reason of a step of which requests that were due were left undone.
pub const NOT_SUSTAINED: &str = "not sustained";
pub const SENT_LATE: &str = "sent late, p99.9";
/// How long the name of the server took to resolve.
pub const RESOLVE: &str = "resolve";
/// The parts of a response time, in the order of a recorded window.
pub const PHASES: [&str; 4] = ["connect", "TLS handshake", "first byte", "body"];
/// Of the mean response time, whose interval is in facts as those of its quantiles are.
pub const MEAN: &str = "mean";

/// Of a saturation.
pub const FROM_CLIENTS: &str = "from clients";
pub const FALLS_FROM_CLIENTS: &str = "falls from clients";
pub const LEFT_OUT: &str = "left out";
/// Of a bottleneck.
pub const CLIENT_BOUND_FROM: &str = "client-bound from clients";
pub const PROOF: &str = "proof";
/// The text of a proof by which the bottleneck stands.
pub const CONFIRMED: &str = "confirmed";
/// The reason is one of the verdict.
pub const REFUTED: &str = "refuted";
/// Of an added load.
pub const PREDICTED: &str = "predicted";
pub const DOSE: &str = "dose";
/// How a capacity was measured.
pub const METHOD: &str = "method";

/// What a bottleneck says of each resource.
pub const USED: &str = "used";
pub const CAPACITY: &str = "capacity";
pub const UTILISATION: &str = "utilisation";
pub const DEMAND: &str = "demand";

/// What a search for the highest rate says of each window.
pub const RATE: &str = "rate";
pub const RESULT: &str = "result";
pub const RESPONSES: &str = "responses";
pub const WITHIN: &str = "within the limits";
const WINDOW: &str = "window ";

/// The name of a fact of a resource.
pub fn of_resource(resource: &str, what: &str) -> String {
    format!("{resource} {what}")
}

/// The name of a fact of a window of a search.
pub fn of_window(number: usize, what: &str) -> String {
    format!("{WINDOW}{number}, {what}")
}

pub fn is_of_window(name: &str) -> bool {
    name.starts_with(WINDOW)
}

/// The names of the ends of an interval.
pub fn ends_of(name: &str) -> [String; 2] {
    [format!("{name}, low"), format!("{name}, high")]
}

/// The name of the 99th percentile of a phase.
pub fn p99_of(phase: &str) -> String {
    format!("{phase}, p99")
}
