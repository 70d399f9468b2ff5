//! `fathom file contender`: one of the processes that `fathom file contend` starts. It gets ready,
//! waits until all are, reads, and answers with the moment of every block.

use std::io::{Read as _, Write as _};

use fathom_fileio::memory::Pages;
use fathom_measure::clock;
use rustix::fs::{Advice, Mode, OFlags, fadvise};
use rustix::process::Pid;

use crate::arguments::file::ContenderArguments;
use crate::exit::Status;
use crate::pipeline::worker;

/// Bytes of a block.
pub(super) const BLOCK: usize = 4096;
/// What says that it is ready.
pub(super) const READY: u8 = b'r';

pub(super) fn contender(arguments: &ContenderArguments) -> anyhow::Result<Status> {
    let ended = || anyhow::anyhow!("`fathom file contender` is for `fathom file contend` itself");
    let coordinator = Pid::from_raw(arguments.coordinator as i32).ok_or_else(ended)?;
    worker::end_with(coordinator).map_err(|_| ended())?;
    let past_cache = if arguments.direct { OFlags::DIRECT } else { OFlags::empty() };
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | past_cache;
    let file = rustix::fs::open(&arguments.file, flags, Mode::empty())?;
    if !arguments.direct {
        // A block that was read ahead would come from memory.
        fadvise(&file, 0, None, Advice::Random)?;
    }
    let mut block = Pages::new(BLOCK)?;
    let mut stamps = vec![0_u64; arguments.blocks as usize + 1];
    // All pages of it are there when the time comes.
    stamps.fill(1);
    let mut stdout = std::io::stdout().lock();
    stdout.write_all(&[READY])?;
    stdout.flush()?;
    std::io::stdin().lock().read_to_end(&mut Vec::new())?;
    let begin = clock::monotonic_raw_ns();
    stamps[0] = begin;
    let mut read = 0;
    for number in 0..arguments.blocks {
        let at = number * BLOCK as u64;
        anyhow::ensure!(rustix::io::pread(&file, &mut block[..], at)? == BLOCK, "a short block");
        let now = clock::monotonic_raw_ns();
        read += 1;
        stamps[read] = now;
        if now - begin > arguments.nanoseconds {
            break;
        }
    }
    let answer: Vec<u8> = stamps[..=read].iter().flat_map(|stamp| stamp.to_le_bytes()).collect();
    stdout.write_all(&answer)?;
    stdout.flush()?;
    Ok(Status::Done)
}
