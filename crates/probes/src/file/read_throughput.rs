//! file.read.throughput: bytes a second of a file that is read block by block and added up.

use fathom_record::{Better, Host, NoModel, Params, Prediction, Unit, Waits};

use crate::{About, ByHand, Known, Parameter};

/// file.read.throughput.
pub struct ReadThroughput;

static ABOUT: About = About {
    id: "file.read.throughput",
    title: "file read",
    unit: Unit::BytesPerSecond,
    better: Better::Higher,
    timed: "reading a file, or the first so many blocks of it, with the XOR-32 and the position \
            sum of its content: from when all threads are ready until the last has ended",
    not_timed: "opening the file, getting buffers, the look at what of it is in memory, and \
                putting it there or out of there",
    model: "bytes ÷ (calls × os.syscall{call=read} + bytes ÷ bandwidth)",
    source: "Linux mm/filemap.c: filemap_read copies a page at a time from the page cache",
    pitfalls: &[
        "a file that is partly in memory has two speeds: what of it is there is counted by \
         cachestat and mincore before each pass, and said as COLD, MIXED, WARM or UNKNOWN; \
         a pass that was asked for cold and was not is invalid",
        "holes and reserved space that was never written are read without a device: what share of \
         the file is data is looked up first, and said where it is not all",
        "in a guest, cold means that the guest's memory holds nothing of it: the host's may",
        "a program that does not look at what it reads measures a copy; each block is summed \
         while it is in the core's cache",
    ],
    parameters: &[
        Parameter { name: "block", values: "bytes", meaning: "of one call; never rounded" },
        Parameter {
            name: "state",
            values: "cold, warm, mixed, unknown, direct",
            meaning: "what of the file was in memory when it was begun; past the page cache",
        },
        Parameter { name: "threads", values: "1, 2, …", meaning: "each reads parts of its own" },
        Parameter { name: "file_bytes", values: "bytes", meaning: "read in all" },
    ],
    needs: &[],
    requires: "",
    published: "",
    waits: Waits::ForADevice,
    noise_limit: 0.10,
};

impl ByHand for ReadThroughput {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    fn command(&self) -> &'static str {
        "fathom file read"
    }

    fn predict(&self, _: &Params, _: &Host, _: &Known<'_>) -> Result<Prediction, NoModel> {
        Err(NoModel("none yet".to_owned()))
    }
}
