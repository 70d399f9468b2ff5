//! b3sum: hashing a cached file with BLAKE3.

use crate::prelude::*;
use crate::xxhsum;

pub(crate) struct B3sum;

impl Peer for B3sum {
    fn name(&self) -> &'static str {
        "b3sum"
    }

    fn rows(&self, _: &PeerMachine) -> Vec<Row> {
        vec![xxhsum::whole_file(
            ("b3sum", &[]),
            "FILE",
            "both read every byte with all CPUs; BLAKE3 computes several times as much per byte, \
             so it is not bound by memory; b3sum's time is that of its process minus one on an \
             empty file",
        )]
    }
}
