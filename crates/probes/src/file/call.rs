//! file.call: system calls on a file in memory, where nobody looks at the bytes.

use fathom_record::{Better, Host, NoModel, Params, Prediction, Unit, Waits};

use crate::ordinal::Order;
use crate::{About, ByHand, Known, Parameter};

/// file.call.
pub struct Call;

static ABOUT: About = About {
    id: "file.call",
    title: "call on a cached file",
    unit: Unit::Nanoseconds,
    better: Better::Lower,
    timed: "calls on a file in memory, one after the other; for buffered_read1 a byte by way of a \
            buffer of 8 KiB in the process, with one call for each buffer",
    not_timed: "opening the file, reading it into memory, looking at the bytes",
    model: "an order: a call enters the kernel and leaves it, ≥ os.syscall{call=getppid}; a \
            buffered byte is no call, and has no model",
    source: "Linux mm/filemap.c: filemap_read; fs/read_write.c",
    pitfalls: &[
        "few calls measure the first ones: the rate is told against the number of calls",
        "at the end of the file it is wound back, by one call that is not counted",
        "a call that did less than a whole block makes the number invalid",
    ],
    parameters: &[Parameter {
        name: "call",
        values: "read1, read4, pread4k, lseek, fstat, buffered_read1",
        meaning: "read(2) of 1 byte, of 4; pread(2) of 4 KiB; lseek(2) by 4 KiB; fstat(2); a byte \
                  from a buffer of the process",
    }],
    needs: &["os.syscall"],
    requires: "",
    published: "",
    waits: Waits::ForADevice,
    noise_limit: 0.10,
};

impl ByHand for Call {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    fn command(&self) -> &'static str {
        "fathom file calls"
    }

    fn predict(&self, params: &Params, _: &Host, known: &Known<'_>) -> Result<Prediction, NoModel> {
        if params.text("call") == Some("buffered_read1") {
            return Err(NoModel("a byte from a buffer is hardly a call".to_owned()));
        }
        let source = "the same entry and exit, and more work between them than getppid's";
        let order = Order { factor: 1.0, metric: "os.syscall", source };
        order.claim(&Params::one("call", "getppid"), known)
    }
}
