//! Parameters of cases as words, for the names of curves and rows.

use std::collections::BTreeSet;

use fathom_record::quantity::{binary_size, counted};
use fathom_record::{ParamValue, Params};

use crate::case::size_name;

/// Sizes, with their nouns.
const SIZES: [(&str, &str); 6] = [
    ("block", " blocks"),
    ("buffer_bytes", " buffer"),
    ("chunk_bytes", " chunks"),
    ("file_bytes", " file"),
    ("rss_bytes", " resident"),
    ("window_bytes", " window"),
];
/// Counts, with their nouns.
const COUNTS: [(&str, &str); 9] = [
    ("args", "argument"),
    ("clients", "client"),
    ("connections", "connection"),
    ("cpus", "CPU"),
    ("fds", "descriptor"),
    ("files", "file"),
    ("processes", "process"),
    ("streams", "stream"),
    ("threads", "thread"),
];
/// Values that say too little without their parameter.
const TEXTS: [(&str, &str, &str); 37] = [
    ("call", "buffered_read1", "buffered read of 1 byte"),
    ("call", "getppid_called", "getppid in a function"),
    ("call", "invalid", "invalid call number"),
    ("call", "open_close", "open and close"),
    ("call", "pread4k", "pread of 4 KiB"),
    ("call", "read1", "read of 1 byte"),
    ("call", "read4", "read of 4 bytes"),
    ("call", "write1", "write of 1 byte"),
    ("calls", "bare", "without the C library"),
    ("calls", "libc", "through the C library"),
    ("connection", "fresh", "fresh connections"),
    ("connection", "kept", "a kept connection"),
    ("direction", "both", "both ways"),
    ("direction", "receive", "receiving"),
    ("direction", "send", "sending"),
    ("form", "memory", "counter in memory"),
    ("form", "register", "counter in a register"),
    ("kind", "cow", "copy-on-write"),
    ("level", "dram", "memory"),
    ("level", "l1", "L1"),
    ("level", "l2", "L2"),
    ("level", "l3", "L3"),
    ("mode", "block", "blocking"),
    ("mode", "busy", "busy polling"),
    ("mode", "fixed", "fixed files"),
    ("mode", "random", "random files"),
    ("op", "write_nt", "non-temporal write"),
    ("part", "first_instruction", "until the first instruction"),
    ("part", "fork", "until fork returns"),
    ("part", "total", "until reaped"),
    ("server", "cold", "cold server cache"),
    ("server", "warm", "warm server cache"),
    ("state", "cold", "uncached"),
    ("state", "direct", "direct I/O"),
    ("state", "warm", "cached"),
    ("touched", "no", "untouched"),
    ("touched", "yes", "touched"),
];
const ORDINALS: [&str; 5] = ["first", "second", "third", "fourth", "fifth"];

/// One parameter, a number never without its name: `64 KiB blocks`, `2 threads`, `second read`.
fn word(name: &str, value: &ParamValue) -> String {
    match value {
        ParamValue::Text(text) => {
            let known = TEXTS.iter().find(|it| (it.0, it.1) == (name, text.as_str()));
            match (known, name) {
                (Some((_, _, words)), _) => (*words).to_owned(),
                (None, "way") => format!("by {text}"),
                (None, "page") => format!("{text} pages"),
                (None, "think_s") => format!("{text} s think time"),
                (None, "rate") => format!("{text} requests/s"),
                (None, "to") if text != "loopback" => format!("to {text}"),
                _ => text.replace('_', " "),
            }
        }
        ParamValue::Integer(0) if name == "set_bytes" => "no working set".to_owned(),
        ParamValue::Integer(number) => {
            let of = |table: &[(&str, &'static str)]| {
                table.iter().find(|it| it.0 == name).map(|it| it.1)
            };
            match name {
                "read" => match usize::try_from(number - 1).ok().and_then(|at| ORDINALS.get(at)) {
                    Some(ordinal) => format!("{ordinal} read"),
                    None => format!("read {number}"),
                },
                "load" => format!("{number} % load"),
                "think_s" => format!("{number} s think time"),
                "rate" => format!("{number} requests/s"),
                "rate_bytes_s" => format!("{} MB/s", number / 1_000_000),
                "a" | "b" => format!("CPU {number}"),
                _ => match (of(&COUNTS), size_name(name)) {
                    (Some(noun), _) => counted(usize::try_from(*number).unwrap_or(0), noun),
                    (None, Some(_)) => binary_size(*number) + of(&SIZES).unwrap_or(""),
                    (None, None) => format!("{} {number}", name.replace('_', " ")),
                },
            }
        }
    }
}

/// All parameters but these, as words.
pub(super) fn words(params: &Params, without: &BTreeSet<String>) -> String {
    let shown = params.0.iter().filter(|(name, _)| !without.contains(*name));
    shown.map(|(name, value)| word(name, value)).collect::<Vec<String>>().join(", ")
}

/// What an axis is of.
pub(super) fn axis(name: &str) -> &str {
    match name {
        "args" => "arguments",
        "block" => "block size",
        "bytes" => "size",
        "chunk_bytes" => "chunk size",
        "fds" => "descriptors",
        "file_bytes" => "file size",
        "load" => "duty cycle of the other cores (%)",
        "processes" => "processes",
        "rss_bytes" => "resident memory of the parent",
        "set_bytes" => "working set",
        other => size_name(other).unwrap_or(other),
    }
}

/// The parameters in which none of these differ.
pub(super) fn common<'p>(all: impl IntoIterator<Item = &'p Params>) -> BTreeSet<String> {
    let all: Vec<&Params> = all.into_iter().collect();
    let Some(first) = all.first() else { return BTreeSet::new() };
    let same = |(name, value): &(&String, &ParamValue)| {
        all.iter().all(|other| other.0.get(*name) == Some(*value))
    };
    first.0.iter().filter(same).map(|(name, _)| name.clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_words() {
        let params = Params::one("read", 1)
            .and("state", "warm")
            .and("threads", 2)
            .and("chunk_bytes", 65536)
            .and("page", "4K");
        let text = words(&params, &BTreeSet::from(["page".to_owned()]));
        assert_eq!(text, "64 KiB chunks, first read, cached, 2 threads");
        let all = [Params::one("to", "loopback").and("cpus", 1), Params::one("to", "loopback")];
        assert_eq!(common(&all), BTreeSet::from(["to".to_owned()]));
        assert_eq!(axis("chunk_bytes"), "chunk size");
    }
}
