//! b3sum: a file in memory, hashed by BLAKE3.

use crate::row::{Machine, Row};
use crate::{Peer, xxhsum};

/// b3sum.
pub(crate) struct B3sum;

impl Peer for B3sum {
    fn name(&self) -> &'static str {
        "b3sum"
    }

    fn rows(&self, _: &Machine) -> Vec<Row> {
        vec![xxhsum::whole_file(
            ("b3sum", &[]),
            "FILE",
            "both read every byte with all CPUs; BLAKE3 computes several times as much for each, \
             so that it is no limit of the memory; the whole process less one without a file's \
             bytes",
        )]
    }
}
