//! file.write.throughput: bytes a second of a file that is written block by block.

use fathom_record::{Better, Host, NoModel, Params, Prediction, Unit, Waits};

use crate::{About, ByHand, Known, Parameter};

/// file.write.throughput.
pub struct WriteThroughput;

static ABOUT: About = About {
    id: "file.write.throughput",
    title: "file write",
    unit: Unit::BytesPerSecond,
    better: Better::Higher,
    timed: "writing so many blocks of generated data, the syncs that were asked for, and the \
            close",
    not_timed: "making the data and its sums, opening the file, giving it its name",
    model: "bytes ÷ (calls × os.syscall{call=write} + bytes ÷ copy bandwidth + what is synced ÷ \
            the device's bandwidth)",
    source: "Linux mm/filemap.c: generic_perform_write copies a page at a time to the page cache",
    pitfalls: &[
        "without a sync the time is that of a copy to memory: data, sync and close are told apart \
         beside the total",
        "data that a device or a file system can compress or share: here nothing of it repeats",
        "a device that says it has written what it has not: a sync that takes no time is told",
    ],
    parameters: &[
        Parameter { name: "block", values: "bytes", meaning: "of one call; never rounded" },
        Parameter {
            name: "sync",
            values: "none, data, every",
            meaning: "never · once at the end · after every block",
        },
        Parameter { name: "file_bytes", values: "bytes", meaning: "written in all" },
    ],
    needs: &[],
    requires: "",
    published: "",
    waits: Waits::ForADevice,
    noise_limit: 0.10,
};

impl ByHand for WriteThroughput {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    fn command(&self) -> &'static str {
        "fathom file write"
    }

    fn predict(&self, _: &Params, _: &Host, _: &Known<'_>) -> Result<Prediction, NoModel> {
        Err(NoModel("none yet".to_owned()))
    }
}
