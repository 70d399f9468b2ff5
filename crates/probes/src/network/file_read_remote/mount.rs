//! over=mount: the folder for test files is on a mounted network file system, or is to be measured
//! as one. Read as file.read.latency reads, with the cases of over=http.

use fathom_fileio::mount::Mount;

use super::{ABOUT, BLOCK, BLOCKS, sizes};
use crate::file::read_latency::Reads;
use crate::prelude::*;

/// A block from the server (2016: 6.68 ms), and a pass over a warm file.
const COLD_BLOCK_NS: f64 = 5e6;
const WARM_NS: f64 = 12e6;

fn params(client: &'static str, order: &'static str, bytes: i64) -> Params {
    let params = Params::one("file_bytes", bytes).and("order", order);
    params.and("client", client).and("over", "mount")
}

pub(super) fn is_mount(params: &Params) -> bool {
    params.text("over") == Some("mount")
}

pub(super) fn is_warm(params: &Params) -> bool {
    params.text("client") == Some("warm")
}

/// Warm before cold, as the model needs them.
pub(super) fn cases(effort: Effort) -> Vec<ProbeCase> {
    let mut found = Vec::new();
    for client in ["warm", "cold"] {
        for bytes in sizes(effort) {
            for order in ["sequential", "random"] {
                // One block has no order; in order, readahead hides the latency.
                let is_usual = match (bytes == BLOCK as i64, effort) {
                    (true, _) => order == "sequential",
                    (false, Effort::Quick) => order == "random",
                    _ => true,
                };
                if is_usual {
                    let blocks = (bytes / BLOCK as i64).min(BLOCKS as i64) as f64;
                    let cold_ns = 14.0 * (2e6 + blocks * COLD_BLOCK_NS);
                    let cost_ns = if client == "warm" { WARM_NS } else { cold_ns };
                    found.push(ProbeCase { params: params(client, order, bytes), cost_ns });
                }
            }
        }
    }
    found
}

pub(super) fn predict(case: &ProbeCase, known: &Inputs<'_>) -> Model {
    if !is_warm(&case.params) {
        let warm = case.params.clone().and("client", "warm");
        let source = "data from the server are stored in the page cache and copied from there";
        return at_least(ABOUT.id, &warm, source, known);
    }
    let source = "the same entry and exit, plus lookup and copy of a block";
    at_least("os.syscall", &Params::one("call", "read1"), source, known)
}

/// Reads the cases of a mount and states what the mount is.
pub(super) fn visit(cases: &[ProbeCase], sampler: &mut Sampler) -> Result<()> {
    let mount = Mount::holding(&sampler.files()?.folder);
    let text = mount.map_or("unknown".to_owned(), |mount| mount.describe());
    let reads = Reads { state: "client", blocks: BLOCKS, own_max: i64::MAX };
    reads.visit(cases, sampler)?;
    for (index, _) in cases.iter().enumerate().filter(|(_, case)| is_mount(&case.params)) {
        sampler.state(index, Fact::text("mount", text.clone()));
    }
    Ok(())
}
