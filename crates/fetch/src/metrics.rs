//! The metric of `fathom fetch`.

use fathom_metric::{About, ByHand, Parameter};
use fathom_record::{Better, Counters, NoModel, Unit};

pub const ID: &str = "fetch.rate";

pub const RATE: ByHand = ByHand(ABOUT, |_, _, _| Err(NoModel::WorkOfServer));

const ABOUT: About = About {
    id: ID,
    title: "download rate",
    unit: Unit::BytesPerSecond,
    better: Better::Higher,
    timed: "bytes received, from the first connect to the last byte written to the page cache, \
            with retries and the pauses before them",
    not_timed: "name lookup, fsync and rename of the file, and reading it for --sum",
    model: "none: what the server needs for a response is not known before the measurement",
    source: "RFC 9110 and RFC 9112",
    pitfalls: &[
        "on loopback both ends share the CPUs: the rate is not that of a network",
        "a file on a disk is written back after the download: fsync has a fact of its own",
        "of a resumed file only the bytes received in this run count",
    ],
    parameters: &[
        Parameter::new(
            "path",
            "copy, mmap, splice",
            "receive path: recv and pwrite, recv into a mapping, splice through a pipe",
        ),
        Parameter::new("connections", "1, 2, …", "connections at a time"),
        Parameter::new("file_bytes", "bytes", "length of the file"),
        Parameter::new("to", "loopback, NAME", "the server's host"),
    ],
    requires: "an HTTP server",
    expects: Counters::DEVICE,
    noise_limit: 0.1,
    ..About::BASE
};
