//! file.fast: whole files, read and checked as fast as this machine can.

use fathom_record::{Better, Counters, Host, NoModel, Params, Prediction, Unit};

use super::bandwidth;
use crate::{About, ByHand, Known, Parameter};

/// file.fast.
pub struct Fast;

static ABOUT: About = About {
    id: "file.fast",
    title: "file read, as fast as can be",
    unit: Unit::BytesPerSecond,
    better: Better::Higher,
    timed: "reading whole files with the XOR-32 and the position sum of their content: what is in \
            memory by the quickest way from there, the rest past the page cache; from before the \
            look at what is in memory until the last byte is added",
    not_timed: "finding the files in folders; opening the first file, and getting ready to read",
    model: "from memory: at most memory.bandwidth{op=read} of all threads, since every byte is \
            fetched at least once; from a device: none, where nothing tells of the device",
    source: "each byte of the page cache passes from memory to a core at least once",
    pitfalls: &[
        "a file that is partly in memory: each piece of 2 MiB is read from where it is, by \
         cachestat or mincore",
        "a way that is the quickest elsewhere: some of the file is read in each, and the rest in \
         the one that was quickest on it; nothing is read twice",
        "a second run finds in memory what the first has left there: what was read past the page \
         cache is not",
    ],
    parameters: &[
        Parameter {
            name: "state",
            values: "warm, cold, mixed, unknown",
            meaning: "what of the files was in memory",
        },
        Parameter { name: "files", values: "1, 2, …", meaning: "how many" },
        Parameter { name: "file_bytes", values: "bytes", meaning: "of all files" },
    ],
    needs: &[],
    requires: "",
    published: "",
    expects: Counters::DEVICE,
    noise_limit: 0.10,
};

impl ByHand for Fast {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    fn command(&self) -> &'static str {
        "fathom file fast"
    }

    fn predict(&self, params: &Params, _: &Host, known: &Known<'_>) -> Result<Prediction, NoModel> {
        match params.text("state") {
            Some("warm") => bandwidth::at_most_all_cores(known),
            Some("cold") => Err(NoModel("nothing tells how fast the device is".to_owned())),
            _ => Err(NoModel("what of the files was in memory decides".to_owned())),
        }
    }
}
